"""One look at a real NVIDIA card, in under five minutes: `make gpu-check`.

Every kernel test on the cuda target, then 20 steps of ANDREA-nano with our own matrix product, twice on the card and
once on the CPU: the two runs on the card must end in the same bits, and follow the CPU's loss. Prints one table.
Without a device it says "no device" and exits 0; with one, exit code 1 when anything disagrees.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
STEPS = 20
TEST_SECONDS = 200
# float32 sums in another order drift apart; over 20 steps of nano by far less than this.
LOSS_TOLERANCE = 2e-3


def device() -> str | None:
    """The card's name and compute capability; None when no device answers, with the reason on stdout."""
    from kernels.target import KernelError, use

    try:
        with use("cuda"):
            from numba import cuda

            card = cuda.get_current_device()
            name = card.name.decode() if isinstance(card.name, bytes) else card.name
            return "{} (compute capability {}.{})".format(name, *card.compute_capability)
    except KernelError as error:
        print(f"no device: {error}")
        return None


def kernel_tests(folder: Path) -> list[tuple[str, bool, str]]:
    """Runs tests/kernels on the card; one row a file: what, passed, in words."""
    report = folder / "tests.xml"
    command = [sys.executable, "-m", "pytest", "tests/kernels", "-q", "-n", "4", "--tb=line", f"--junitxml={report}"]
    try:
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "ANDREA_TARGET": "cuda"},
            stdout=subprocess.DEVNULL,
            timeout=TEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [("tests/kernels", False, f"not done after {TEST_SECONDS} s")]
    files: dict[str, list] = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        bad = any(child.tag in ("failure", "error") for child in case)
        files.setdefault(case.get("classname").split(".")[-1], []).append(
            (bad, float(case.get("time")), case.get("name"))
        )
    rows = []
    for name, cases in sorted(files.items()):
        failed = [case for bad, _, case in cases if bad]
        words = f"{len(cases) - len(failed)} of {len(cases)} pass, {sum(s for _, s, _ in cases):.0f} s"
        rows.append((name, not failed, words + (f"; first failure {failed[0]}" if failed else "")))
    return rows or [("tests/kernels", False, "no test ran")]


def nano(target: str, folder: Path) -> tuple[str, list[float], float]:
    """Trains 20 steps; the sha256 of the weight file, the losses, the seconds."""
    from andrea_lab import paths
    from andrea_lab.model.config import load_config
    from andrea_lab.proxy import loop
    from kernels.target import use

    config = load_config("ANDREA-nano", paths.experiments_dir()).with_train(steps=STEPS, seed=1, gemm="kernels")
    losses: list[float] = []
    start = time.monotonic()
    with use(target):
        result = loop.train(config, folder, on_entry=lambda entry: losses.append(entry["loss"]))
    digest = hashlib.sha256(Path(result.weights).read_bytes()).hexdigest()
    return digest, losses, time.monotonic() - start


def training(folder: Path) -> list[tuple[str, bool, str]]:
    """The rows about training."""
    (first, losses, seconds), (second, *_) = nano("cuda", folder / "one"), nano("cuda", folder / "two")
    _, wanted, slow = nano("cpu", folder / "cpu")
    worst = max(abs(a - b) for a, b in zip(losses, wanted, strict=True))
    return [
        (f"{STEPS} nano steps", losses[-1] < losses[0], f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {seconds:.1f} s"),
        ("two runs", first == second, f"sha256 {first[:12]} and {second[:12]}"),
        ("cuda against cpu", worst < LOSS_TOLERANCE, f"losses differ by at most {worst:.1e}; cpu took {slow:.1f} s"),
    ]


def main() -> int:
    """Checks and prints the table."""
    card = device()
    if card is None:
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        rows = kernel_tests(Path(scratch)) + training(Path(scratch))
    table = Table("check", "", "found", title=card)
    for what, good, words in rows:
        table.add_row(what, "ok" if good else "FAILED", words)
    Console().print(table)
    return int(not all(good for _, good, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
