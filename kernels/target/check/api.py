"""kernels.check and kernels.trace: run a launch in the machine, and tell what was found."""

import numpy as np

from .. import arguments as sizes
from ..errors import KernelError, KernelFault, LaunchError
from .arguments import Launch
from .calls import MOST_LOCAL
from .faults import MAX_SHARED, MAX_THREADS, Fault, Refused
from .machine import LANES, Machine
from .orders import Orders, compare
from .program import Family, plain_function
from .report import Report
from .trace import Recorder, Trace

BUDGET = 20_000  # rounds of one loop
MOST_THREADS, SAMPLE = 1 << 20, 1 << 18  # of a launch that is larger, so many threads are run
MOST_ORDERED = 1 << 16  # threads of a launch that is run in other orders as well


class Checked:
    """A kernel to be checked: `[grid, block](*args)` runs it and returns a Report."""

    def __init__(self, kernel, orders=2, seed=0, budget=BUDGET):
        self.kernel, self.orders, self.seed, self.budget = kernel, orders, seed, budget

    def __getitem__(self, config):
        return lambda *args: examine(self.kernel, config, args, self.orders, self.seed, self.budget)[0]

    def __repr__(self):
        return f"<check of {name_of(self.kernel)}>"


class Traced:
    """A kernel to be traced: `[grid, block](*args)` runs it and returns a Trace."""

    def __init__(self, kernel, block=0, warp=0, budget=BUDGET):
        self.kernel, self.block, self.warp, self.budget = kernel, block, warp, budget

    def __getitem__(self, config):
        return self._run(config)

    def _run(self, config):
        def launch(*args):
            report, recorder = examine(self.kernel, config, args, 0, 0, self.budget, (self.block, self.warp))
            recorder = recorder or Recorder(0, 0)
            if not recorder.threads and report.completed:
                warps = -(-report.block[0] * report.block[1] * report.block[2] // 32)
                size = f"a grid of {report.grid} with {warps} warps a block"
                raise LaunchError(f"trace of {report.name}: no block {self.block}, warp {self.warp} in {size}")
            events, lines = tuple(recorder.events), dict(sorted(recorder.lines.items()))
            threads, shapes = recorder.threads, recorder.shapes
            return Trace(report.name, self.block, self.warp, events, lines, threads, shapes, report)

        return launch


def check(kernel, orders=2, seed=0, budget=BUDGET):
    """Check a kernel: `check(k)[grid, block](*args)` -> Report.

    kernel: a @kernel, a registered kernel, a function under numba.cuda.jit, or a plain function. orders: how many
    other orders of the threads are run, drawn from `seed`. budget: rounds that one loop may take. Nothing that the
    kernel does is raised: it is in the report. The arrays get the result if every thread came to its end, else they
    are left alone.
    """
    return Checked(kernel, orders, seed, budget)


def trace(kernel, block=0, warp=0):
    """Trace one warp: `trace(k, block=0, warp=0)[grid, block](*args)` -> Trace. block: a number or (x, y, z)."""
    return Traced(kernel, block, warp)


def bind(kernel, grid, block):
    """What a launch on the check target does: run it, and raise KernelFault if there is a fault."""

    def run(*args):
        report, _ = examine(kernel, (grid, block), args, 0, 0, BUDGET, whole=True)
        if not report.ok:
            raise KernelFault(report)

    return run


def name_of(kernel):
    fn = plain_function(kernel)
    return getattr(fn, "__name__", None) or getattr(kernel, "__name__", type(kernel).__name__)


def _shape(config, what, given):
    """A grid or block as (x, y, z); sizes beyond CUDA's limits are let through, to be told as a fault."""
    parts = given if isinstance(given, (tuple, list)) else (given,)
    whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, (bool, np.bool_)) for n in parts)
    if not whole or not 1 <= len(parts) <= 3:
        raise LaunchError(f"{what} is {given!r:.40}, expected one to three whole numbers")
    return tuple(int(n) for n in parts) + (1,) * (3 - len(parts))


def _bytes(given):
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 0:
        raise LaunchError(f"dynamic shared memory is {given!r:.40}, expected a number of bytes")
    return int(given)


def examine(kernel, config, args, orders, seed, budget, traced=None, whole=False):
    """(Report, Recorder or None). traced: (block, warp) to record; whole: run every block, however many."""
    kernel = kernel.latest() if hasattr(kernel, "latest") else kernel
    name, recorder = name_of(kernel), None
    grid = block = (0, 1, 1)
    try:
        if not isinstance(config, tuple) or not 2 <= len(config) <= 4:
            raise LaunchError(f"launch it with a grid and a block, {name}[grid, block](...), got [{config!r:.40}]")
        grid, block = _shape(config, "grid", config[0]), _shape(config, "block", config[1])
        dynamic = _bytes(config[3]) if len(config) == 4 else 0
        if traced is not None:
            recorder = Recorder(_linear(traced[0], grid), traced[1])
        family = _read(kernel)
        wrong = _limits(family.kernel, grid, block, dynamic)
        if wrong:
            return Report(name, grid, block, wrong), recorder
        if len(args) != len(family.kernel.params):
            raise sizes.count_error(name, family.kernel.params, args)
        launch = Launch(family.kernel.params, args, grid, block, dynamic)
        blocks = None if whole else _sample(launch, recorder)
        return _run(family, launch, orders, seed, budget, recorder, blocks), recorder
    except Refused as error:
        return Report(name, grid, block, [refusal(error)]), recorder
    except (KernelError, RecursionError) as error:
        return Report(name, grid, block, [plain_error(kernel, str(error))]), recorder


def _read(kernel):
    """The kernel and all it calls, compiled."""
    try:
        family = Family(kernel)
        family.finish()
    except Exception as error:  # whatever a kernel's text sets off is told, not raised
        if isinstance(error, (Refused, KernelError)):
            raise
        raise KernelError(f"its text cannot be understood: {type(error).__name__}: {error}"[:200]) from error
    return family


def _linear(block, grid):
    if isinstance(block, tuple):
        x, y, z = (*block, 0, 0)[:3]
        return x + grid[0] * (y + grid[1] * z)
    return int(block)


def refusal(error):
    p = error.program
    line = error.line or (p.source.first if hasattr(p, "source") else 0)
    hint = error.hint or "a kernel is made of numbers, arrays, if, while, for ... in range(...)"
    return Fault(error.kind, p.file, line, p.text(line), None, (), None, (), 1, error.message, hint)


def plain_error(kernel, message):
    code = getattr(plain_function(kernel), "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code else ("?", 0)
    name = name_of(kernel)
    message = message.removeprefix(f"kernel {name}: ")
    return Fault(
        "error", file, line, f"def {name}", None, (), None, (), 1, message, "correct the launch, then check again"
    )


def _limits(program, grid, block, dynamic):
    """Faults of a launch that no device takes."""
    threads = block[0] * block[1] * block[2]
    line = program.tree.lineno
    found = []

    def wrong(message, hint):
        text = program.text(line)
        found.append(Fault("limits", program.file, line, text, None, (), None, (), threads, message, hint))

    if min(block) < 1 or min(grid) < 1:
        wrong(f"grid {grid} and block {block}: every size must be at least 1", "correct the launch")
    elif threads > MAX_THREADS:
        wrong(f"a block of {threads:,} threads, the limit is {MAX_THREADS:,}", "use more blocks of fewer threads")
    elif dynamic > MAX_SHARED:
        wrong(f"{dynamic:,} bytes of dynamic shared memory, the limit is {MAX_SHARED:,}", "use smaller tiles")
    elif block[2] > 64:
        wrong(f"a block of {block[2]:,} threads along z, the limit is 64", "use x or y")
    elif grid[1] > 65535 or grid[2] > 65535 or grid[0] > 2**31 - 1:
        wrong(f"grid {grid}: the limits are 2,147,483,647, 65,535 and 65,535", "use x for the longest axis")
    return found


def _sample(launch, recorder):
    """The blocks that are run of a launch too large to be run whole: evenly spread, the first and the last among them.

    None: all of them.
    """
    if launch.blocks * launch.threads <= MOST_THREADS:
        return None
    count = max(3, SAMPLE // launch.threads)
    spread = np.linspace(0, launch.blocks - 1, count).astype(np.int64)
    return np.unique(np.append(spread, [] if recorder is None else [recorder.block]).astype(np.int64))


def _run(family, launch, orders, seed, budget, recorder, blocks=None):
    lanes = min(LANES, MOST_LOCAL // max(1, family.local_bytes))
    together = 1 if family.spins else max(1, lanes // launch.threads)
    mc, done = _recorded(family, launch, budget, recorder, together, blocks)
    if together > 1 and launch.blocks > 1 and any(k[0] == "endless" for k in mc.faults):
        if recorder is not None:
            recorder.forget()
        launch = launch.again()
        mc, done = _recorded(family, launch, budget, recorder, 1, blocks)
    found = [*mc.faults.values(), *mc.findings.faults(mc)]
    tried = None
    if orders and done and not any(f.kind in ("unsupported", "error") for f in found):
        tried = _orders(family, launch, orders, seed, budget, together)
    note = ""
    if blocks is not None:
        note = f"{len(blocks):,} of {launch.blocks:,} blocks were run; the arguments are left as they were"
        done = False
    if done:
        launch.back()
    wide = sorted((p.file, line, name) for (_, line, name), p in mc.float64.items())
    counts = mc.traffic.traffic.sorted(family.kernel.params)
    return Report(family.kernel.name, launch.grid, launch.block, found, tried, wide, counts, done, note)


def _recorded(family, launch, budget, recorder, together, blocks):
    """The recording run; what it cannot run becomes a fault."""
    mc = Machine(family, launch, budget, trace=recorder, blocks=blocks)
    try:
        return mc, mc.run(together)
    except Refused as error:
        mc.add(refusal(error))
    except Exception as error:  # whatever a kernel sets off is told, not raised
        mc.add(_broken(mc, error))
    return mc, False


def _broken(mc, error):
    p, line = mc.program, mc.line
    what = str(error).splitlines()[0] if str(error) else type(error).__name__
    hint = "is every value of the kind that is needed there?"
    message = f"this line cannot be run: {what:.100}"
    return Fault("error", p.file, line, p.text(line), None, (), None, (), 1, message, hint)


def _orders(family, launch, orders, seed, budget, together):
    if launch.blocks * launch.threads > MOST_ORDERED:
        return Orders(0, note=f"not tried: {launch.blocks * launch.threads:,} threads, above {MOST_ORDERED:,}")
    results, note = [], ""
    for k in range(orders):
        other = launch.again()
        mc = Machine(family, other, budget * 2, seed=seed * 1009 + k + 1)
        try:
            if not mc.run(together):
                note = "one of them did not end"
                continue
        except Exception:
            note = "one of them could not run"
            continue
        results.append(other.results())
    return compare(launch.results(), results, note)
