"""Which target is in use: by name, by environment, by what answers; imports touch no driver and need no variable."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernels
from kernels.target import TargetError, copy_to_host, current, empty, lint, select, to_device, use, zeros

F = np.float32
ROOT = Path(__file__).parents[3]


def ask(program, **extra):
    env = (
        {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "ANDREA_T"))}
        | {"PYTHONPATH": str(ROOT)}
        | extra
    )
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)


def test_use_sets_and_restores(monkeypatch):
    monkeypatch.setattr(select, "device_answers", lambda: True)
    with use("cpu"):
        assert current() == "cpu"
        with use("cuda"):
            assert current() == "cuda"
        assert current() == "cpu"
        use("cuda")
        assert current() == "cuda" and kernels.current() == "cuda"
        kernels.use("cpu")
        assert current() == "cpu"


@pytest.mark.parametrize("name", ["gpu", "CPU", "", None, 3])
def test_a_target_that_does_not_exist(name):
    with pytest.raises(TargetError, match="expected one of cpu, cuda"):
        use(name)
    assert current() == "cpu"


def test_cuda_without_a_driver_is_one_line(monkeypatch):
    monkeypatch.setattr(select, "device_answers", lambda: False)
    with pytest.raises(TargetError) as caught:
        use("cuda")
    assert str(caught.value) == "the target is 'cuda', but no NVIDIA driver answers here; use \"cpu\""
    assert current() == "cpu"


def test_the_environment_decides_at_first_use(monkeypatch):
    for value, there, wanted in (
        ("cpu", True, "cpu"),
        ("auto", True, "cuda"),
        ("auto", False, "cpu"),
        ("cuda", True, "cuda"),
    ):
        monkeypatch.setattr(select, "_chosen", None)
        monkeypatch.setattr(select, "device_answers", lambda there=there: there)
        monkeypatch.setenv("ANDREA_TARGET", value)
        assert current() == wanted
    for value, words in (
        ("fpga", "ANDREA_TARGET is 'fpga', expected one of"),
        ("cuda", "ANDREA_TARGET is 'cuda', but no"),
    ):
        monkeypatch.setattr(select, "_chosen", None)
        monkeypatch.setattr(select, "device_answers", lambda: False)
        monkeypatch.setenv("ANDREA_TARGET", value)
        with pytest.raises(TargetError, match=words):
            current()


def test_numbas_simulator_is_not_believed():
    program = "from kernels.target import current\nfrom numba import cuda\nprint(cuda.is_available(), current())"
    done = ask(program, NUMBA_ENABLE_CUDASIM="1")
    assert done.stdout.split() == ["True", "cpu"], done.stderr


LAUNCH = """
import numpy as np, tempfile, os, sys
folder = tempfile.mkdtemp()
open(os.path.join(folder, "m.py"), "w").write('''
from numba import cuda, float32
from kernels.target import kernel


@kernel
def k(x, n):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    x[t] = s[31 - t]
''')
sys.path.insert(0, folder)
import m
x = np.arange(32, dtype=np.float32)
m.k[1, 32](x, 32)
print(x[0])
"""


@pytest.mark.parametrize("first", ["import numba", "from numba import cuda", "import numpy", "import kernels", ""])
@pytest.mark.parametrize("simulator", ["0", "1"])
def test_any_order_of_imports(first, simulator, tmp_path):
    done = ask(first + LAUNCH, NUMBA_ENABLE_CUDASIM=simulator, ANDREA_CACHE=str(tmp_path))
    assert done.stdout.strip() == "31.0", done.stderr


def test_importing_touches_no_driver():
    program = (
        "from numba.cuda.cudadrv import driver\n"
        "def touched(*a, **k): raise SystemExit('the driver was touched')\n"
        "driver.Driver.ensure_initialized = driver.Driver.__getattr__ = touched\n"
        "import kernels, kernels.target, kernels.pairs, kernels.target.gpu, kernels.target.ptx\n"
        "print('clean')"
    )
    done = ask(program)
    assert done.stdout.strip() == "clean", done.stdout + done.stderr


def test_a_kernel_sent_to_cuda_is_compiled_by_numba(monkeypatch, write):
    """Without a card: what reaches cuda.jit is the kernel, with its device functions made for CUDA."""
    from numba import cuda

    from kernels.target import LaunchError

    seen = {}

    def jit(fn=None, **options):
        if options.get("device"):
            return "device", fn.__name__
        seen["fn"] = fn
        return {((2, 1, 1), (32, 1, 1)): lambda *args: seen.setdefault("args", args)}

    module = write("\n@device\ndef f(v):\n    return v\n\n\n@kernel\ndef k(x):\n    x[0] = f(x[0])\n")
    monkeypatch.setattr(cuda, "jit", jit)
    monkeypatch.setattr(select, "device_answers", lambda: True)
    with use("cuda"):
        launch = module.k[2, 32].bind("an array")
        launch.run()
        with pytest.raises(LaunchError, match=r"takes 1 argument \(x\), got 2"):
            module.k[2, 32](1, 2)
        with pytest.raises(LaunchError, match="argument 'x' is a Python float"):
            module.k[2, 32](0.5)
    assert seen["args"] == ("an array",)
    assert seen["fn"].__globals__["f"] == ("device", "f") and module.f(3) == 3


def test_arrays_on_the_cpu_are_numpys_own():
    a = empty((3, 5))
    assert a.dtype == F and a.shape == (3, 5) and a.ctypes.data % 64 == 0
    assert not zeros(7, np.int32).any() and zeros((2, 2)).dtype == F
    assert to_device(a) is a and copy_to_host(a) is a


def test_lint_finds_float64(write):
    module = write("""
@kernel
def k_clean(x, n):
    i = cuda.grid(1)
    if i < n:
        acc = float32(0.0)
        for j in range(3):
            acc += x[i] * float32(0.5)
        x[i] = math.exp(acc) ** 2 / float32(n)


@kernel
def k_wide(x, n):
    i = cuda.grid(1)
    acc = 0.0
    if i < n:
        x[i] = x[i] * 0.5
        acc += x[i]
        x[i] = acc / 2
""")
    x = np.zeros(4, F)
    assert lint(module.k_clean, x, 4) == []
    lines = Path(module.__file__).read_text().splitlines()
    found = lint(module.k_wide, x, 4)
    assert {file for file, _, _ in found} == {module.__file__}
    marked = {lines[line - 1].strip(): what for _, line, what in found}
    assert marked["acc = 0.0"] == "'acc'"
    assert marked["x[i] = x[i] * 0.5"] == "an expression"
    assert set(marked) == {"acc = 0.0", "x[i] = x[i] * 0.5", "acc += x[i]", "x[i] = acc / 2"}


def test_no_shipped_kernel_computes_in_float64():
    from kernels import pairs  # noqa: F401 - registers every kernel
    from kernels.registry import KERNELS

    wide = {}
    for name, k in KERNELS.items():
        _, args = k.example(k.default_block)
        found = lint(k.kernel, *args, block=k.default_block)
        if found:
            wide[name] = found
    assert not wide
