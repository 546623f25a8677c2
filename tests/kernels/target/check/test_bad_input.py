"""Bad kernels, bad arguments, bad launches and Ctrl-C: one explained answer each, and the next check works."""

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest
from bad_kernels import BAD
from bugs_common import ramp, zeros
from numba import cuda, float32

import kernels
from kernels import target


def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * float32(2)


def the_next_check_works() -> None:
    x, y = ramp(50), zeros(50)
    assert kernels.check(double)[2, 32](x, y).ok
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("kernel, args, words", BAD, ids=[fn.__name__ for fn, _, _ in BAD])
def test_a_kernel_no_card_takes_is_explained(kernel, args, words, capfd):
    report = kernels.check(kernel)[1, 64](*args())
    assert not report.ok, "no fault"
    fault = report.faults[0]
    assert fault.kind in ("unsupported", "error", "limits"), repr(report)
    assert fault.message and "\n" not in fault.message and len(fault.message) < 200
    said = f"{fault.message} {fault.hint} {fault.source} line {fault.line} {report!r}".lower()
    assert not [word for word in words if word.lower() not in said], repr(report)
    assert "traceback" not in said and "0x" not in said
    # The line is one of the kernel's own, or its arguments are at fault.
    first = kernel.__code__.co_firstlineno
    length = len(__import__("inspect").getsource(kernel).splitlines())
    if kernel.__name__ != "calls_a_recursive_function":
        assert fault.line == 0 or first <= fault.line < first + length, repr(report)
    assert len(repr(report).splitlines()) <= 6
    assert capfd.readouterr() == ("", "")
    the_next_check_works()


NO_KERNELS = [None, 3, "kernel", [], len, object(), np.zeros(3), print, int, type("K", (), {}), lambda x: x[0]]


@pytest.mark.parametrize("thing", NO_KERNELS, ids=lambda v: type(v).__name__)
def test_what_is_no_kernel(thing):
    try:
        report = kernels.check(thing)[1, 1](np.zeros(1))
    except (TypeError, target.KernelError) as error:
        assert "\n" not in str(error) and str(error)
    else:
        assert not report.ok or thing.__class__.__name__ == "function"
        assert len(repr(report).splitlines()) <= 6
    the_next_check_works()


LAUNCHES = [(0, 32), (1, 0), (-1, 32), (1, 2000), (1, (1, 1, 65)), ((1, 2, 3, 4), 1), (1.5, 32), ("1", 32), (1, None),
            ((1, 70_000), 1), (2**31, 1)]  # fmt: skip


@pytest.mark.parametrize("launch", LAUNCHES, ids=str)
def test_a_launch_no_card_takes(launch):
    try:
        report = kernels.check(double)[launch](ramp(10), zeros(10))
    except (TypeError, ValueError, target.KernelError) as error:
        assert "\n" not in str(error) and str(error)
    else:
        assert not report.ok
        assert report.faults[0].kind in ("limits", "unsupported", "error"), repr(report)
    the_next_check_works()


def test_a_lambda_and_a_text_from_nowhere():
    space = {"cuda": cuda}
    exec("def typed_in(x):\n    x[cuda.grid(1)] = 1\n", space)
    report = kernels.check(space["typed_in"])[1, 4](zeros(4))
    assert report.ok or report.faults[0].message
    the_next_check_works()


def test_print_does_no_harm():
    def talks(x):
        i = cuda.grid(1)
        print("thread", i, x[i])
        x[i] = float32(1)

    x = zeros(4)
    report = kernels.check(talks)[1, 4](x)
    assert report.ok or report.faults[0].kind == "unsupported"
    if report.ok:
        assert x.tolist() == [1, 1, 1, 1]


def test_a_jitted_kernel_is_a_kernel():
    jitted = cuda.jit(double)
    x, y = ramp(50), zeros(50)
    assert kernels.check(jitted)[2, 32](x, y).ok
    np.testing.assert_array_equal(y, 2 * x)


def test_an_endless_kernel_answers_soon_and_says_how_often():
    def spins(x):
        i = cuda.grid(1)
        while x[i] >= 0:
            x[i] += float32(1)

    started = time.perf_counter()
    report = kernels.check(spins, budget=5_000)[1, 32](zeros(32))
    assert time.perf_counter() - started < 5
    fault = report.endless[0]
    assert fault.line == spins.__code__.co_firstlineno + 2
    assert "5,000" in fault.message or "5000" in fault.message
    the_next_check_works()


def test_a_launch_under_the_target_raises_its_report():
    @target.kernel
    def no_guard(x, y):
        i = cuda.grid(1)
        y[i] = x[i] + float32(1)

    y = zeros(40)
    with target.use("check"):
        with pytest.raises(target.KernelFault) as caught:
            no_guard[2, 32](ramp(40), y)
        no_guard[1, 40](ramp(40), y)
    assert "out_of_bounds" in str(caught.value).lower() or "bounds" in str(caught.value).lower()
    np.testing.assert_array_equal(y, ramp(40) + 1)


def accumulate(x, y, rounds):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for r in range(rounds):
        s[t] = x[t] + float32(r)
        cuda.syncthreads()
        y[t] += s[63 - t]
        cuda.syncthreads()


def interrupted_after(seconds: float) -> tuple[bool, float]:
    """Send SIGINT after so long into a check that takes longer; whether it came through, and how late."""
    x, y = ramp(64), zeros(64)
    before = y.copy()
    sent = []

    def send(*_):
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    old = signal.signal(signal.SIGALRM, send)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        kernels.check(accumulate, budget=10**9)[1, 64](x, y, 10**5)
        came = False
    except KeyboardInterrupt:
        came = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    np.testing.assert_array_equal(y, before, err_msg="an argument is half written")
    np.testing.assert_array_equal(x, ramp(64))
    return came, time.perf_counter() - sent[0] if sent else float("inf")


def interrupts(count: int) -> None:
    moments = np.random.default_rng(count).uniform(0.001, 0.25, count)
    threads = threading.active_count()
    for seconds in moments:
        came, late = interrupted_after(float(seconds))
        assert came and late < 1
        assert threading.active_count() == threads
    the_next_check_works()


def test_ctrl_c_ends_a_check_and_leaves_nothing_behind():
    interrupts(8)


@pytest.mark.full
def test_ctrl_c_at_many_moments():
    interrupts(120)


@pytest.mark.parametrize("orders", [0, 2])
def test_ctrl_c_never_leaves_a_half_written_argument(orders):
    """A short check, interrupted anywhere: the result is all there, or nothing of it."""
    whole = zeros(64)
    kernels.check(accumulate, orders=orders)[1, 64](ramp(64), whole, 40)
    old = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    seen = set()
    try:
        for k in range(40):
            y = zeros(64)
            with contextlib.suppress(KeyboardInterrupt):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0007 * k)
                    kernels.check(accumulate, orders=orders)[1, 64](ramp(64), y, 40)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            assert not y.any() or (y == whole).all()
            seen.add(bool(y.any()))
    finally:
        signal.signal(signal.SIGALRM, old)
    assert False in seen
    the_next_check_works()
