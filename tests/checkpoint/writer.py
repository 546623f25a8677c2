"""Processes that save, for tests that kill them, starve them of disk, or read beside them. Run by path, with a task.

- `steps FOLDER`, `same FOLDER`: a line "kill SECONDS" on stdin makes a child that saves without end, ever new steps or
  the same step over and over, and kills it so long after its first save has begun; the answer is the seed of the last
  save that was announced as done, -1 for none. The arrays of a save come from its seed, which its entry names.
- `once FOLDER SEED`: one save of step 7; prints what came of it as JSON. `blind` does not look for room first, and
  `limited`, `readonly`, `unprivileged` do what they say to themselves or to FOLDER.
- `modules`: prints the packages of others that saving and loading import.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

AT_START = set(sys.modules)
ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from andrea_lab.checkpoint import load, save, single, sums, verify  # noqa: E402
from andrea_lab.checkpoint.files import Files  # noqa: E402
from tests.checkpoint.material import arrays, names, newest_good, put  # noqa: E402

N = 100_000
STEP = 7
KEPT = 3


def save_without_end(folder, kind, tell):
    """Save until killed. Writes a byte to `tell` before the first save, and the seed after each."""
    newest = newest_good(folder, N)
    seed = newest[2].sum.entry["seed"] + 1 if newest else 0
    os.write(tell, b"begin\n")
    while True:
        put(folder, seed if kind == "steps" else STEP, seed, N, entry={"seed": seed})
        os.write(tell, b"%d\n" % seed)
        for path in verify.scan(folder)[:-KEPT]:
            path.unlink()
            sums.sum_path(path).unlink()
        for path in folder.glob("*.was-*"):
            path.unlink()
        seed += 1


def kill_one(folder, kind, seconds):
    """Let a child save for so long and kill it; returns the seed of its last announced save."""
    heard, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(heard)
            save_without_end(folder, kind, tell)
        finally:
            os._exit(1)
    os.close(tell)
    with open(heard, "rb") as lines:
        assert lines.readline() == b"begin\n"
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        done = lines.read().split()
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL, "it ended by itself"
    return int(done[-1]) if done else -1


class Blind(Files):
    """Believes that there is always room."""

    def free(self, path):
        return 2**60


def save_once(folder, seed, *how):
    """One save of step 7 after one of step 6 that is well; what came of it."""
    if "first" in how:
        put(folder, STEP - 1, 0, N)
    if "limited" in how:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
    if "readonly" in how:
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    arrays(seed, 1)  # whatever it imports late
    if "unprivileged" in how and os.geteuid() == 0:
        os.setuid(65534)
    result = {}
    try:
        result["outcome"] = put(folder, STEP, seed, N, files=Blind() if "blind" in how else Files()).outcome
    except save.SaveError as error:
        result |= {"errno": error.errno, "message": str(error), "committed": error.committed}
    step, _, loaded = newest_good(folder, N)
    return result | {"newest": step, "verified": loaded.verified, "names": names(folder)}


def foreign_modules():
    """The packages of others that were loaded since the start."""
    top = {name.split(".")[0] for name in sys.modules.keys() - AT_START}
    return sorted(top - set(sys.stdlib_module_names) - {"andrea_lab", "tests"})


def main(task, *rest):
    if task == "modules":
        assert load and single
        print(*foreign_modules())
    elif task == "once":
        folder, seed, *how = rest
        print(json.dumps(save_once(Path(folder), int(seed), *how)))
    else:
        for line in sys.stdin:
            print(kill_one(Path(rest[0]), task, float(line.split()[1])), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
