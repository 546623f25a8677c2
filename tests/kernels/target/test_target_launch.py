"""Launches: what is checked, what is kept, and that results depend on neither threads nor aliasing."""

import numpy as np
import pytest

from kernels.target import KernelError, LaunchError, run, set_threads, threads

F = np.float32
TEXT = """
@kernel
def k_scale(x, factor, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = factor * x[i]


@kernel
def k_shape(out):
    if cuda.grid(1) == 0:
        out[0] = cuda.blockDim.x
        out[1] = cuda.gridDim.x


@kernel
def k_previous(x, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = x[i] + float32(1)


@kernel
def k_heavy(x, out, rounds):
    i = cuda.grid(1)
    v = x[i]
    for _ in range(rounds):
        v = v * float32(0.999) + math.exp(-v) * float32(0.25)
    out[i] = v
""".replace("_ in", "r in")


@pytest.fixture
def module(write):
    return write(TEXT)


def arrays(n=100):
    return np.arange(n, dtype=F), np.zeros(n, F)


def test_one_line_for_every_mistake(module):
    x, out = arrays()
    k = module.k_scale
    wide = np.zeros((20, 10), F)[:, ::2]
    cases = [
        (lambda: k[4, 32](x, F(2), out), "takes 4 arguments (x, factor, out, n), got 3"),
        (
            lambda: k[4, 32](x, 2.0, out, 100),
            "argument 'factor' is a Python float, which would make the kernel compute",
        ),
        (lambda: k[4, 32](x, np.float64(2), out, 100), "argument 'factor' is a NumPy float64"),
        (lambda: k[4, 32]([1.0], F(2), out, 100), "argument 'x' is a list, expected a NumPy array"),
        (lambda: k[4, 32](x, F(2), None, 100), "argument 'out' is a NoneType"),
        (lambda: k[4, 32](wide, F(2), out, 100), "argument 'x' is not contiguous (shape (20, 5), strides (40, 8))"),
        (lambda: k[4, 32](x.astype(np.complex64), F(2), out, 100), "argument 'x' has dtype <c8, expected one of bool"),
        (lambda: k[4, 32](x.astype(">f4"), F(2), out, 100), "argument 'x' has dtype >f4"),
        (lambda: k[4, 32](np.array(1, F), F(2), out, 100), "argument 'x' is an array without axes"),
        (lambda: k[4, 32](x, F(2), out, 2**63), "argument 'n' is 9223372036854775808, beyond 64 bits"),
        (lambda: k[4, 2048], "block 2048 has 2,048 threads, expected at most 1,024"),
        (lambda: k[4, (64, 64)], "block (64, 64) has 4,096 threads, expected at most 1,024"),
        (lambda: k[4, (1, 1, 128)], "block has 128 along z, expected at most 64"),
        (lambda: k[0, 32], "grid is 0, expected every part to be at least 1"),
        (lambda: k[(4, -1), 32], "grid is (4, -1), expected every part to be at least 1"),
        (lambda: k[(1, 70000), 32], "grid has 70,000 along y, expected at most 65,535"),
        (lambda: k[4.0, 32], "grid is 4.0, expected one to three integers"),
        (lambda: k[True, 32], "grid is True, expected one to three integers"),
        (lambda: k[(1, 1, 1, 1), 32], "expected one to three integers"),
        (lambda: k[4], "launch it as k_scale[grid, block](...)"),
        (lambda: k[4, 32, 0, 1024], "no stream or dynamic shared memory"),
        (lambda: k(x, F(2), out, 100), "launch it with a grid and a block"),
    ]
    for call, words in cases:
        with pytest.raises(LaunchError) as caught:
            call()
        message = str(caught.value)
        assert words in message and "\n" not in message and message.startswith("kernel k_scale: "), message
    assert not out.any()


def test_a_type_that_the_kernel_cannot_take_is_refused_before_anything_runs(module):
    x, out = arrays()
    with pytest.raises(KernelError, match="kernel k_scale: "):
        module.k_scale[4, 32](F(1), F(2), out, 100)
    assert not out.any()


def test_a_kept_configuration_keeps_its_shape(module):
    small, large = module.k_shape[3, 32], module.k_shape[5, 64]
    a, b = np.zeros(2, np.int64), np.zeros(2, np.int64)
    large(b)
    small(a)
    assert a.tolist() == [32, 3] and b.tolist() == [64, 5]


def test_bind_runs_nothing_and_a_launch_may_run_again(module):
    x, out = arrays()
    launch = module.k_scale[4, 32].bind(x, F(2), out, 100)
    assert launch.name == "k_scale" and not out.any()
    run([launch])
    assert np.array_equal(out, 2 * x)
    x += 1
    launch.run()
    assert np.array_equal(out, 2 * x)
    out[:] = 0
    for function, arguments in launch.tasks:
        function(*arguments)
    assert np.array_equal(out, 2 * x)


def test_a_launch_keeps_its_arrays_alive(module):
    x, out = arrays()
    tasks = module.k_scale[4, 32].bind(x.copy(), F(3), out, 100).tasks
    trash = [np.full(100, 7, F) for _ in range(50)]
    for function, arguments in tasks:
        function(*arguments)
    assert np.array_equal(out, 3 * x) and len(trash) == 50


def test_arguments_that_overlap(module):
    """In place, and shifted by one element: compiled for arrays that overlap; blocks of a small launch run in order."""
    x, _ = arrays()
    module.k_previous[4, 32](x, x, 100)
    assert np.array_equal(x, np.arange(100) + 1)
    one = np.zeros(33, F)
    module.k_previous[32, 1](one[:-1], one[1:], 32)
    assert np.array_equal(one, np.arange(33))


def test_empty_arrays_and_unsigned_scalars(module):
    module.k_scale[1, 32](np.zeros(0, F), F(1), np.zeros(0, F), 0)
    x, out = arrays()
    for n in (np.int32(100), np.uint8(100), np.uint64(100)):
        out[:] = 0
        module.k_scale[4, 32](x, F(2), out, n)
        assert np.array_equal(out, 2 * x)


def test_bits_do_not_depend_on_the_number_of_threads(module):
    n = 64 * 256
    x = np.random.default_rng(0).standard_normal(n).astype(F)
    before, seen = threads(), set()
    try:
        for count in (1, 2, 3):
            set_threads(count)
            out = np.zeros(n, F)
            launch = module.k_heavy[64, 256].bind(x, out, 40)
            assert len(launch.tasks) > 1
            run([launch])
            seen.add(out.tobytes())
    finally:
        set_threads(before)
    assert len(seen) == 1


def test_small_launches_are_one_task(module):
    x, out = arrays()
    assert len(module.k_scale[4, 32].bind(x, F(2), out, 100).tasks) == 1


def test_the_cut_into_tasks_is_a_function_of_the_grid(module):
    x, out = arrays(64 * 256)
    before = threads()
    try:
        cuts = []
        for count in (1, 4):
            set_threads(count)
            cuts.append([arguments[:2] for _, arguments in module.k_heavy[64, 256].bind(x, out, 40).tasks])
    finally:
        set_threads(before)
    assert cuts[0] == cuts[1]
    assert cuts[0][0][0] == 0 and cuts[0][-1][1] == 64


def test_a_step_of_zero_is_an_error(write):
    module = write("\n@kernel\ndef k(x, n):\n    for j in range(0, 4, n):\n        x[j] = float32(1)\n")
    with pytest.raises(KernelError, match="step of zero"):
        module.k[1, 1](np.zeros(4, F), 0)


def test_code_shows_what_the_cpu_target_runs(module):
    x, out = arrays()
    text = module.k_scale.code(32, x, F(2), out, 100)
    assert "def k_scale(_lo, _hi" in text and "for _tx in range(" in text


@pytest.mark.parametrize("text", ["1.5", True, 0, -1, None])
def test_set_threads_takes_a_count(text):
    with pytest.raises(KernelError, match="expected a whole number of threads, at least 1"):
        set_threads(text)
