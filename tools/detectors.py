"""What notices a wrong kernel, without a GPU: every kernel of the bug list, given to every judge that runs here.

    python tools/detectors.py                                        # our check and Numba's simulator
    python tools/detectors.py --gpu-puzzles DIR --python VENV/bin/python   # and a checkout of srush/GPU-Puzzles

Prints a table in Markdown, the kinds of bug down, the judges across; --list prints every kernel with every answer.
Each judge works in a process of its own, which is given up and started again when a kernel takes longer than --seconds.
Where the bug is that the kernel never ends, a judge that hangs has noticed, as a learner would. GPU-Puzzles' drawings
need `chalk-diagrams`, a package we do not install: --python names an interpreter that has it, numba and numba-cuda.

An answer is `noticed`, `silent`, or `cannot`: the judge refuses the language of the kernel, whatever its bug, or takes
too long over one that ends.
"""

from __future__ import annotations

import argparse
import os
import queue
import subprocess
import sys
import threading
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEGAL_LISTS = ("legal_memory", "legal_sync")
LISTS = ("bugs_shared", "bugs_global", "bugs_warp", "bugs_barrier", "bugs_bounds", "bugs_unset", "bugs_rest")
HEADINGS = {
    "race": "race inside a block or across blocks, missing fence",
    "lost_update": "lost update (`+=` without atomic)",
    "warp": "shuffle, vote, warp barrier",
    "barrier": "barrier not reached by all",
    "out_of_bounds": "index beside the array",
    "unset": "read of unset memory",
    "limits": "launch limits",
    "endless": "endless loop, deadlock",
    "same_value": "same value written by many",
}
NEEDS_GPU, NO_CHECK = "not run: needs a GPU", "has no check for this"
READ = {
    "minitorch": (
        NO_CHECK,
        "its tests compare results of its own tensor operations (tests/test_tensor_general.py), the CUDA ones where "
        "numba.cuda.is_available(); there is no place for a kernel from outside",
    ),
    "TinyTorch": (NO_CHECK, "it has no kernels with threads; src/18_acceleration is NumPy"),
    "llm.c": (
        NEEDS_GPU,
        "dev/cuda/common.h, validate_result: each kernel's result is compared with a CPU function, after nvcc",
    ),
}


def both_lists() -> tuple[list, list]:
    """The wrong and the legal kernels under tests/."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "kernels" / "target" / "check")]
    for module in LISTS + LEGAL_LISTS:
        __import__(module)
    common = __import__("bugs_common")
    return common.BUGS, common.LEGAL


def ask_check(entry) -> str:
    """Our own check, without its second orders: the report alone."""
    import kernels

    report = kernels.check(entry.fn, orders=0, budget=2_000)[entry.launch](*entry.arguments())
    if "unsupported" in [fault.kind for fault in report.faults]:
        return "cannot"
    return "silent" if report.ok else "noticed"


class Beyond(Exception):
    """What a judge has no words for."""


def refused(error: BaseException) -> bool:
    """Whether the judge stopped at the language of the kernel and not at its bug."""
    text = str(error)
    return isinstance(error, Beyond | AttributeError | NameError) or "has no attribute" in text


def ask_simulator(entry) -> str:
    """Numba's simulator: does the launch end without a word?"""
    from numba.cuda.simulator.kernel import FakeCUDAKernel

    launch = entry.launch if entry.dynamic else (*entry.launch, 0, 0)
    try:
        FakeCUDAKernel(entry.fn, device=False)[launch](*entry.arguments())
    except Exception as error:  # whatever a learner would see
        return "cannot" if refused(error) else "noticed"
    return "silent"


def as_puzzle(entry, lib):
    """The kernel as a CudaProblem: the result first, the other arguments in order, the hoped-for result as the spec."""
    arguments = list(entry.arguments())
    at = entry.out % len(arguments)
    names = [f"a{i}" for i in range(len(arguments))]
    order = [names[at], *names[:at], *names[at + 1 :]]
    source = f"def call({', '.join(order)}):\n    KERNEL({', '.join(names)})\n"

    def fn(cuda):
        # In a copy of the kernel's own names, so that `cuda` can be the puzzle's; the simulator puts its own in there.
        space = {**entry.fn.__globals__, "cuda": cuda}
        space["KERNEL"] = types.FunctionType(entry.fn.__code__, space)
        for name, value in list(space.items()):
            if isinstance(value, types.FunctionType) and name != "KERNEL":
                space[name] = types.FunctionType(value.__code__, space)
        exec(source, space)
        return space["call"]

    out = arguments.pop(at)
    wanted = entry.expected()

    def coord(shape):
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if len(sizes) > 2:
            raise Beyond("three dimensions")
        return lib.Coord(*(sizes + (1,) * (2 - len(sizes))))

    return lib.CudaProblem(entry.name, fn, arguments, out, (), coord(entry.grid), coord(entry.block), lambda *_: wanted)


def ask_puzzle(entry, lib, part: str) -> str:
    """GPU-Puzzles: `check` compares one result with the spec, on the simulator; `show` draws the accesses."""
    import contextlib
    import io

    if entry.dynamic:
        return "cannot"  # a puzzle has no dynamic shared memory
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            problem = as_puzzle(entry, lib)
            if part == "show":
                problem.inputs, problem.args = (
                    [a for a in problem.inputs if hasattr(a, "shape")],
                    tuple(a for a in problem.inputs if not hasattr(a, "shape")),
                )
            getattr(problem, part)()
    except (AssertionError, IndexError) as error:
        return "noticed" if "unrecognized" not in str(error) else "cannot"
    except Exception as error:
        return "cannot" if part == "show" or refused(error) else "noticed"
    return "noticed" if "Failed Tests" in text.getvalue() else "silent"


def puzzle_library(folder: str):
    """lib.py of the checkout. Its robot is a picture that needs cairo: a plain square does."""
    import chalk

    if not hasattr(chalk, "image"):
        chalk.image = lambda *_: chalk.rectangle(1, 1)
    sys.path.insert(0, folder)
    os.chdir(folder)
    return __import__("lib")


def work(judge: str, folder: str) -> None:
    """In the child: read names of kernels, answer one line each."""
    import warnings

    warnings.simplefilter("ignore")
    entries = {entry.name: entry for chosen in both_lists() for entry in chosen}
    lib = puzzle_library(folder) if judge.startswith("puzzles") else None
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        entry = entries[line.strip()]
        if lib:
            answer = ask_puzzle(entry, lib, judge.split("-")[1])
        else:
            answer = ask_check(entry) if judge == "check" else ask_simulator(entry)
        print(answer, file=answers, flush=True)


class Judge:
    """A child that answers, killed and started again when a kernel takes too long."""

    def __init__(self, judge: str, folder: str, seconds: float, python: str):
        self.command = [python, __file__, "--work", judge, "--gpu-puzzles", folder]
        self.simulated = judge != "check"
        self.seconds = seconds
        self.start()

    def start(self) -> None:
        env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"} if self.simulated else dict(os.environ)
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.child = subprocess.Popen(self.command, env=env, **pipes)
        self.lines: queue.Queue = queue.Queue()
        threading.Thread(target=self.listen, args=(self.child.stdout, self.lines), daemon=True).start()
        self.first = True

    @staticmethod
    def listen(stream, lines) -> None:
        for line in stream:
            lines.put(line.strip())
        lines.put(None)

    def ask(self, entry) -> str:
        self.child.stdin.write(entry.name + "\n")
        self.child.stdin.flush()
        try:
            answer = self.lines.get(timeout=self.seconds + (60 if self.first else 0))
        except queue.Empty:
            self.close()
            self.start()
            return "noticed" if entry.group == "endless" else "cannot"
        if answer is None:  # the child is gone: it crashed
            self.close()
            self.start()
            return "noticed"
        self.first = False
        return answer

    def close(self) -> None:
        self.child.kill()  # threads of a simulated block may wait for each other for ever
        self.child.wait()


TITLES = {"check": "`kernels.check`", "simulator": "Numba's simulator", "puzzles-check": "GPU-Puzzles `check`"}


def count(answers: dict[str, str], chosen: list) -> str:
    """How many of them were noticed, and how many the judge could not run."""
    found = [answers[entry.name] for entry in chosen]
    cannot = found.count("cannot")
    return f"{found.count('noticed')}" + (f" ({cannot} cannot run)" if cannot else "")


def table(bugs: list, legal: list, answers: dict[str, dict[str, str]]) -> str:
    """The table in Markdown, and what has to be said about it."""
    judges = [j for j in TITLES if j in answers]
    head = ["kind of bug", "kernels", *(TITLES[j] for j in judges), *READ]
    rows = [head, ["---", "---:", *["---:"] * len(judges), *["---"] * len(READ)]]
    lines = [(HEADINGS[group], [e for e in bugs if e.group == group]) for group in HEADINGS]
    for heading, chosen in [*lines, ("**all**", bugs), ("legal kernels, called wrong", legal)]:
        rows.append([heading, str(len(chosen)), *(count(answers[j], chosen) for j in judges)])
        rows[-1] += [text for text, _ in READ.values()]
    notes = [f"{name}: {text}; {why}." for name, (text, why) in READ.items()]
    if "puzzles-show" in answers:
        notes.append(
            f"GPU-Puzzles `show` notices {count(answers['puzzles-show'], bugs)}: its drawing knows few operations."
        )
    return "\n".join(["| " + " | ".join(row) + " |" for row in rows] + ["", *notes])


def main() -> int:
    """Parse the command line, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gpu-puzzles", default="", metavar="DIR", help="a checkout of srush/GPU-Puzzles")
    parser.add_argument("--python", default=sys.executable, help="interpreter for GPU-Puzzles, with chalk-diagrams")
    parser.add_argument("--seconds", type=float, default=10, help="a kernel that takes longer hangs (default 10)")
    parser.add_argument("--list", action="store_true", help="every kernel with every answer")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.gpu_puzzles)
        return 0
    if options.gpu_puzzles and not (Path(options.gpu_puzzles) / "lib.py").exists():
        print(
            f"--gpu-puzzles: {options.gpu_puzzles} has no lib.py; give a checkout of srush/GPU-Puzzles", file=sys.stderr
        )
        return 2
    bugs, legal = both_lists()
    names = ["check", "simulator"] + (["puzzles-check", "puzzles-show"] if options.gpu_puzzles else [])
    answers: dict[str, dict[str, str]] = {}
    for name in names:
        python = options.python if name.startswith("puzzles") else sys.executable
        judge = Judge(name, os.path.abspath(options.gpu_puzzles or "."), options.seconds, python)
        answers[name] = {entry.name: judge.ask(entry) for entry in bugs + legal}
        judge.close()
    if options.list:
        for entry in bugs + legal:
            print(f"{entry.group:14s}{entry.name:48s}" + "  ".join(f"{j}: {answers[j][entry.name]}" for j in names))
    print(table(bugs, legal, answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
