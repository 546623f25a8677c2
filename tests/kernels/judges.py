"""The three judges of a pair, and the rules every kernel keeps; needs no test runner, so it can run on any target.

An operation declares itself once, as an `Op`: how to make inputs, the builders of its launches, its float64
reference, and which results are overwritten and which are added to. Everything else is generic:

    judge_forward, judge_backward    kernel against reference.py, 1e-5 per tensor; what must be overwritten starts as
                                     NaN, inputs must come back unchanged
    judge_adds                       backward twice adds the same increment twice; full buffers keep what they held
    judge_bits                       two runs, and 1, 2 and 3 workers, give the same bits
    judge_differences                reference.py against float64 central differences, 1e-7
    judge_fixture                    reference.py against stored PyTorch float64 results, 1e-10
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kernels import target

KERNEL_LIMIT, DIFFERENCES_LIMIT, FIXTURE_LIMIT = 1e-5, 1e-7, 1e-10
SEEDS = range(5)
FIXTURES = Path(__file__).parents[1] / "fixtures"


@dataclass(frozen=True)
class Op:
    """One operation under test. Tensors travel in a dict name -> array (or int); inputs are float32 or int32.

    make(rng, **sizes): the tensors that forward reads.
    shapes: name -> sizes; five of them: "one", "odd", "blocks" (no multiple of a block, more rows than threads),
    "large" (values that overflow without care) and "masked" (dead rows).
    paths: name -> (build forward, build backward), called with the arrays named in fwd_args / bwd_args, in this order.
    reference_forward(x) -> results by name. reference_backward(x) -> gradients by name, scratch included; its x also
    holds the forward's results, rounded to float32, and the incoming gradients.
    incoming: incoming gradient -> the forward result it belongs to. grads: gradient that is added to -> its input.
    scratch: backward results that are overwritten; compared on the paths in scratch_paths only.
    zero_scale(x) -> gradient -> size of the terms whose sum is zero, where the true gradient is zero by cancellation.
    fixture: file name in fixtures, without suffix, if it is not the name.
    difference_sizes: smaller sizes, by shape, for the finite differences.
    wide: sizes at which the CPU target deals the work out to several workers, for the rule that bits stay the same.
    """

    name: str
    make: Callable
    shapes: dict[str, dict]
    paths: dict[str, tuple[Callable, Callable]]
    fwd_args: tuple[str, ...]
    bwd_args: tuple[str, ...]
    reference_forward: Callable
    reference_backward: Callable
    incoming: dict[str, str]
    grads: dict[str, str]
    scratch: tuple[str, ...] = ()
    scratch_paths: tuple[str, ...] = ("production",)
    zero_scale: Callable = lambda x: {}
    fixture: str = ""
    difference_sizes: dict = field(default_factory=dict)
    wide: dict = field(default_factory=dict)


def is_float(a) -> bool:
    return isinstance(a, np.ndarray) and a.dtype.kind == "f"


def widen(x: dict) -> dict:
    """float32 tensors as float64, everything else as it is."""
    return {k: a.astype(np.float64) if is_float(a) else a for k, a in x.items()}


def narrow(x: dict) -> dict:
    """Tensors rounded to float32, C-contiguous."""
    return {k: np.ascontiguousarray(a, np.float32) if is_float(a) else a for k, a in x.items()}


def poison(shape) -> np.ndarray:
    return np.full(shape, np.nan, np.float32)


def relative_error(a, b, zero_scale: float = 1.0) -> float:
    """||a - b|| / ||b||; where b is all zero (up to float64 rounding), ||a - b|| / zero_scale."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape, f"shape {a.shape}, expected {b.shape}"
    norm = np.linalg.norm(b)
    return float(np.linalg.norm(a - b) / (norm if norm > 1e-12 * np.sqrt(b.size) * zero_scale else zero_scale))


def assert_close(what: str, a, b, limit: float, zero_scale: float = 1.0) -> None:
    """Also: infinite where and only where `b` is, with its sign (a masked score is minus infinity)."""
    a, b = np.asarray(a), np.asarray(b)
    finite = np.isfinite(b)
    if not finite.all():
        assert np.array_equal(a[~finite], b[~finite]), f"{what}: not infinite where it should be"
        a, b = a[finite], b[finite]
    assert np.isfinite(a).all(), f"{what}: not finite"
    error = relative_error(a, b, zero_scale)
    assert error <= limit, f"{what}: relative error {error:.2e}, expected <= {limit:.0e}"


def launch(build: Callable, names: tuple[str, ...], x: dict) -> dict:
    """Put the named arrays on the target, run the launches, fetch every array again."""
    device = {n: target.to_device(x[n].copy()) if isinstance(x[n], np.ndarray) else x[n] for n in names}
    target.run(build(*(device[n] for n in names)))
    return {n: np.array(target.copy_to_host(a)) if isinstance(x[n], np.ndarray) else a for n, a in device.items()}


def assert_unchanged(x: dict, after: dict, names) -> None:
    for n in names:
        if isinstance(x[n], np.ndarray):
            assert x[n].tobytes() == after[n].tobytes(), f"{n} was changed"


def forward_case(op: Op, shape: str, seed: int, sizes: dict | None = None) -> tuple[dict, dict]:
    """(x with poisoned results, the reference's results)."""
    x = op.make(np.random.default_rng([seed, *map(ord, shape)]), **(sizes or op.shapes[shape]))
    want = op.reference_forward(widen(x))
    return x | {n: poison(a.shape) for n, a in want.items()}, want


def backward_case(op: Op, shape: str, seed: int, sizes: dict | None = None) -> tuple[dict, dict]:
    """(x with saved tensors, incoming gradients, full `+=` buffers and poisoned scratch; the reference's gradients)."""
    rng = np.random.default_rng([seed, 7, *map(ord, shape)])
    x = op.make(rng, **(sizes or op.shapes[shape]))
    x |= narrow(op.reference_forward(widen(x)))
    for d, out in op.incoming.items():
        x[d] = rng.standard_normal(x[out].shape).astype(np.float32)
    want = op.reference_backward(widen(x))
    x |= {n: rng.standard_normal(want[n].shape).astype(np.float32) for n in op.grads}
    return x | {n: poison(want[n].shape) for n in op.scratch}, want


def judge_forward(op: Op, path: str, shape: str, seed: int) -> None:
    x, want = forward_case(op, shape, seed)
    got = launch(op.paths[path][0], op.fwd_args, x)
    assert_unchanged(x, got, set(op.fwd_args) - set(want))
    for n in want:
        if n in op.fwd_args:
            assert_close(f"{op.name} {path} forward, {shape}: {n}", got[n], want[n], KERNEL_LIMIT)


def judge_backward(op: Op, path: str, shape: str, seed: int) -> None:
    x, want = backward_case(op, shape, seed)
    empty = x | {n: np.zeros_like(x[n]) for n in op.grads}
    got = launch(op.paths[path][1], op.bwd_args, empty)
    assert_unchanged(x, got, set(op.bwd_args) - set(op.grads) - set(op.scratch))
    scratch = op.scratch if path in op.scratch_paths else ()
    zero_scale = op.zero_scale(x)
    for n in (*op.grads, *scratch):
        if n in op.bwd_args:
            what = f"{op.name} {path} backward, {shape}: {n}"
            assert_close(what, got[n], want[n], KERNEL_LIMIT, zero_scale.get(n, 1.0))


def judge_adds(op: Op, path: str, shape: str, seed: int = 0) -> None:
    """Backward twice from zero doubles the increment; from full buffers it adds the increment."""
    x, _ = backward_case(op, shape, seed)
    build = op.paths[path][1]
    grads = [n for n in op.grads if n in op.bwd_args]
    once = launch(build, op.bwd_args, x | {n: np.zeros_like(x[n]) for n in grads})
    twice = launch(build, op.bwd_args, x | {n: once[n] for n in grads})
    full = launch(build, op.bwd_args, x)
    for n in grads:
        assert_close(f"{op.name} {path}, second backward: {n}", twice[n], 2.0 * once[n], 1e-6)
        size = np.abs(x[n]) + np.abs(once[n])
        assert (np.abs(full[n] - (x[n] + once[n])) <= 1e-5 * size.max()).all(), f"{op.name} {path}: {n} is not added to"


def tasks(build: Callable, names: tuple[str, ...], x: dict) -> list[int]:
    """Into how many tasks the target cuts each of the launches."""
    args = (target.to_device(x[n].copy()) if isinstance(x[n], np.ndarray) else x[n] for n in names)
    return [len(one.tasks) for one in build(*args)]


def judge_bits(op: Op, path: str, shape: str = "blocks", seed: int = 0) -> None:
    """The same bits from two runs and from 1, 2 and 3 workers, at sizes that give several workers something to do."""
    forward, backward = op.paths[path]
    x, want = forward_case(op, shape, seed, op.wide)
    y, _ = backward_case(op, shape, seed, op.wide)
    if op.wide and target.current() == "cpu":
        assert max(tasks(forward, op.fwd_args, x)) > 1 and max(tasks(backward, op.bwd_args, y)) > 1, "one task only"
    before, seen = target.threads(), {}
    try:
        for workers in (1, 1, 2, 3):
            target.set_threads(workers)
            f, b = launch(forward, op.fwd_args, x), launch(backward, op.bwd_args, y)
            for name, a in [(n, f[n]) for n in want if n in f] + [(n, b[n]) for n in op.grads if n in b]:
                same = seen.setdefault(name, a.tobytes()) == a.tobytes()
                assert same, f"{op.name} {path}: {name} has other bits with {workers} workers"
    finally:
        target.set_threads(before)


def judge_differences(op: Op, shape: str, seed: int = 0, step: float = 1e-5) -> None:
    """d(sum of incoming * result)/d(input) against the reference's backward, in float64.

    Central differences of fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h.
    """
    x, _ = backward_case(op, shape, seed, op.difference_sizes.get(shape))
    x = widen(x)
    x |= op.reference_forward(x)
    want = op.reference_backward(x)

    def scalar() -> float:
        y = op.reference_forward(x)
        return sum((x[d] * y[out])[np.isfinite(y[out])].sum() for d, out in op.incoming.items())

    for grad, name in op.grads.items():
        a, got = x[name], np.empty(x[name].shape)
        for i in np.ndindex(a.shape):
            kept, h, value = a[i], step * max(1.0, abs(a[i])), {}
            for k in (-2, -1, 1, 2):
                a[i] = kept + k * h
                value[k] = scalar()
            a[i] = kept
            got[i] = (8.0 * (value[1] - value[-1]) - (value[2] - value[-2])) / (12.0 * h)
        assert_close(f"{op.name} reference, {shape}: {grad}", want[grad], got, DIFFERENCES_LIMIT)


def judge_fixture(op: Op) -> None:
    """The reference against PyTorch float64, stored in fixtures/<op>.npz: inputs, results and gradients by name."""
    with np.load(FIXTURES / f"{op.fixture or op.name}.npz", allow_pickle=False) as stored:
        x = {n: stored[n] if stored[n].ndim or stored[n].dtype.kind == "f" else int(stored[n]) for n in stored.files}
    results = op.reference_forward(x)
    gradients = op.reference_backward(x | results)
    checked = 0
    for n, a in (results | gradients).items():
        if n in x:
            assert_close(f"{op.name} reference against PyTorch: {n}", a, x[n], FIXTURE_LIMIT)
            checked += 1
    assert checked >= len(op.grads) + len(op.incoming), f"{op.name}: the fixture holds only {checked} results"
