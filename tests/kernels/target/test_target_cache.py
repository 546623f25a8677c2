"""The compile cache: what makes an entry another one, damage, two processes, a warm start."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core import config
from texts import GIVEN, HEADER, load

from kernels.target import cache, kernel

F = np.float32
ROOT = Path(__file__).parents[3]
TEXT = """
SIZE = 8
FACTOR = float32(2)


@device
def inner(v):
    return v + float32(1)


@device
def twice(v):
    return inner(v) * float32(2)


def make(shift):
    @kernel
    def k(x, out, n):
        s = cuda.shared.array(SIZE, float32)
        i = cuda.grid(1)
        if i < n:
            s[0] = x[i]
            out[i] = twice(x[i]) * FACTOR + float32(shift)
    return k
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A cache and a module `text -> kernel` in a folder of their own; run(...) counts compilations."""
    monkeypatch.setenv("ANDREA_CACHE", str(tmp_path / "cache"))

    class Home:
        folder = tmp_path / "cache"
        number = 0

        def run(self, text=TEXT, shift=3, block=32, dtype=F, n=20, shared=False, change=None):
            """Define the kernels anew, launch one, and say how many variants were compiled."""
            self.number += 1
            path = tmp_path / f"m{self.number}.py"
            path.write_text(HEADER + text)
            module = load(path)
            if change:
                change(module)
            x = np.arange(20).astype(dtype)
            out = x if shared else np.zeros(20, dtype)
            before = cache.counts.compiled
            module.make(shift)[4, block](x, out, n)
            return cache.counts.compiled - before

        def entries(self):
            return sorted(self.folder.rglob("*.bin"))

    return Home()


def test_the_same_kernel_is_compiled_once(home):
    assert home.run() == 1
    assert [home.run() for _ in range(3)] == [0, 0, 0]
    assert len(home.entries()) == 1
    assert home.run(text="\n# moved down\n\n" + TEXT) == 0


CHANGES = {
    "the kernel's text": {"text": TEXT.replace("* FACTOR +", "* FACTOR -")},
    "a device function": {"text": TEXT.replace("* float32(2)", "* float32(4)")},
    "a device function's device function": {"text": TEXT.replace("v + float32(1)", "v + float32(2)")},
    "a constant": {"text": TEXT.replace("SIZE = 8", "SIZE = 16")},
    "a constant's type": {"text": TEXT.replace("FACTOR = float32(2)", "FACTOR = np.float64(2)")},
    "a constant changed later": {"change": lambda module: setattr(module, "FACTOR", F(5))},
    "a closure value": {"shift": 4},
    "a closure value's type": {"shift": F(3)},
    "the block": {"block": 64},
    "the block's shape": {"block": (8, 4)},
    "the arrays' type": {"dtype": np.float64},
    "a scalar's type": {"n": np.int32(20)},
    "arrays that overlap": {"shared": True},
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_part_of_the_key(home, change):
    assert home.run() == 1
    assert home.run(**CHANGES[change]) == 1
    assert home.run(**CHANGES[change]) == 0
    assert home.run() == 0


def surroundings(monkeypatch, name):
    if name == "our own source":
        monkeypatch.setattr(cache, "own_source", lambda: "another")
    elif name == "processor":
        monkeypatch.setattr(config, "CPU_NAME", "haswell")
    elif name == "features":
        monkeypatch.setattr(config, "CPU_FEATURES", "+sse2,+sse4.2" if os.uname().machine == "x86_64" else "+neon")
    elif name == "python":
        monkeypatch.setattr(cache.platform, "python_version", lambda: "3.99.0")
    else:
        monkeypatch.setattr(getattr(cache, name), "__version__", "99")


@pytest.mark.parametrize("name", ["our own source", "processor", "features", "python", "numba", "llvmlite", "numpy"])
def test_each_part_of_the_surroundings(home, monkeypatch, name):
    """The digest alone: what is compiled for another processor need not run here."""
    from kernels.target.arguments import types_of
    from kernels.target.source import Source

    def plain(x):
        x[0] = 1

    types, readonly = types_of((("float32", 1, True),))

    def digest():
        return cache.digest(Source(plain), (32, 1, 1), types, readonly, True)

    before = digest()
    assert digest() == before
    surroundings(monkeypatch, name)
    assert digest() != before


@pytest.mark.parametrize("damage", ["empty", "short", "flipped", "head", "longer", "text"])
def test_a_damaged_entry_is_compiled_again(home, damage):
    assert home.run() == 1
    (entry,) = home.entries()
    data = bytearray(entry.read_bytes())
    if damage == "empty":
        data = b""
    elif damage == "short":
        data = data[: len(data) // 2]
    elif damage == "flipped":
        data[len(data) // 2] ^= 1
    elif damage == "head":
        data[len(cache.MAGIC) + 33] ^= 1
    elif damage == "longer":
        data += b"x"
    else:
        data = b"not an entry at all, but long enough to be one: " * 10
    entry.write_bytes(bytes(data))
    assert home.run() == 1
    assert home.run() == 0


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path, monkeypatch, write):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ANDREA_CACHE", str(blocked / "cache"))
    module = write("\n@kernel\ndef k(x):\n    x[0] = float32(7)\n")
    x = np.zeros(1, F)
    with pytest.warns(RuntimeWarning, match="set ANDREA_CACHE"):
        module.k[1, 1](x)
    assert x[0] == 7


def test_where_the_cache_is(monkeypatch):
    monkeypatch.delenv("ANDREA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.folder() == Path("/somewhere/andrea-lab/kernels")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/elsewhere")
    assert cache.folder() == Path("/elsewhere/.cache/andrea-lab/kernels")


def start(code, folder, *arguments):
    env = os.environ | {"PYTHONPATH": str(ROOT), "ANDREA_CACHE": str(folder), "ANDREA_TARGET": "cpu"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=env, cwd=ROOT, **pipes)


BOTH = """
import sys; sys.path.insert(0, sys.argv[1])
import numpy as np, shared_kernels as m
from kernels.target import cache
total = 0
for shift in range(4):
    x, out = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    m.make(shift)[4, 32](x, out, 20)
    total += float(out.sum())
print(total, cache.counts.compiled, cache.counts.loaded)
"""


def test_two_processes_at_once(tmp_path):
    (tmp_path / "shared_kernels.py").write_text(HEADER + TEXT)
    pair = [start(BOTH, tmp_path / "cache", str(tmp_path)) for _ in range(2)]
    answers = [p.communicate(timeout=120) for p in pair]
    assert all(p.returncode == 0 for p in pair), answers
    totals = {out.split()[0] for out, _ in answers}
    assert len(totals) == 1
    third, errors = start(BOTH, tmp_path / "cache", str(tmp_path)).communicate(timeout=120)
    assert third.split()[1:] == ["0", "4"], errors
    assert not list((tmp_path / "cache").rglob("*.tmp"))


SHIPPED = """
import time, sys
import numpy as np
from kernels import pairs
from kernels.registry import KERNELS
from kernels.target import cache
cases = [(k, k.default_block, *k.example(k.default_block)) for k in KERNELS.values()]
start = time.perf_counter()
for k, block, grid, args in cases:
    k[grid, block].bind(*args)
print(len(cases), cache.counts.compiled, cache.counts.loaded, time.perf_counter() - start)
"""


def test_a_warm_start_loads_every_shipped_kernel_without_compiling():
    """In the cache that the other tests of kernels use, where most of them are already."""
    folder = GIVEN or cache.folder_of({k: v for k, v in os.environ.items() if k != "ANDREA_CACHE"})
    cold, errors = start(SHIPPED, folder).communicate(timeout=500)
    assert cold, errors
    count = int(cold.split()[0])
    seconds = []
    for _ in range(3):
        out, errors = start(SHIPPED, folder).communicate(timeout=120)
        assert out, errors
        assert [int(v) for v in out.split()[:3]] == [count, 0, count]
        seconds.append(float(out.split()[3]))
        if seconds[-1] < 0.5:
            break
        time.sleep(1)
    assert min(seconds) < 0.5, seconds


def test_a_kernel_decorated_twice_is_refused():
    from kernels.target import KernelError

    @kernel
    def k(x):
        x[0] = 1

    with pytest.raises(KernelError, match="k is a kernel already"):
        kernel(k)
    with pytest.raises(KernelError, match="@kernel decorates a function, got a int"):
        kernel(3)
