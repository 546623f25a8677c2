"""float32 exp, log and tanh: error in units of the last place, special values, the same bits everywhere."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

F = np.float32
ROOT = Path(__file__).parents[3]
TEXT = """
@kernel
def k_exp(x, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = math.exp(x[i])


@kernel
def k_log(x, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = math.log(x[i])


@kernel
def k_tanh(x, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = math.tanh(x[i])


@kernel
def k_other(x, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i, 0] = math.floor(x[i])
        out[i, 1] = math.ceil(x[i])
        out[i, 2] = math.trunc(x[i])
        out[i, 3] = math.sqrt(abs(x[i]))
        out[i, 4] = cuda.fma(x[i], x[i], float32(-1))
        out[i, 5] = min(x[i], float32(1), float32(0.5))


@kernel
def k_wide(x, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = math.exp(x[i]) + math.tanh(x[i]) + math.log(x[i] * x[i])


@kernel
def k_fused(x, y, z, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i, 0] = z[i] + x[i] * y[i]
        out[i, 1] = x[i] * y[i] - z[i]
        out[i, 2] = z[i] - x[i] * y[i]
        p = x[i] * y[i]
        out[i, 3] = p + z[i]
        out[i, 4] = p
"""


@pytest.fixture(scope="module")
def m(tmp_path_factory):
    from texts import HEADER, load

    path = tmp_path_factory.mktemp("math") / "functions.py"
    path.write_text(HEADER + TEXT)
    return load(path)


def compute(kernel, x):
    x = np.ascontiguousarray(x, F)
    out = np.empty_like(x)
    kernel[(x.size + 255) // 256, 256](x, out, x.size)
    return out


def ulps(got, exact):
    """Distance in units of the last place of the exact value rounded to float32."""
    return np.abs(got.astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(F)).astype(np.float64)


def everywhere(low, high):
    """Samples by value, and all magnitudes between."""
    r = np.random.default_rng(0)
    flat = np.concatenate([np.linspace(low, high, 200_001), r.uniform(low, high, 100_000)])
    small = np.exp2(r.uniform(-149, 0, 100_000)) * r.choice([-1, 1], 100_000)
    return np.concatenate([flat, small[(small >= low) & (small <= high)]]).astype(F)


def test_exp(m):
    x = everywhere(-103.0, 88.7)
    exact = np.exp(x.astype(np.float64))
    assert ulps(compute(m.k_exp, x), exact).max() <= 1.0
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 89, 1000, -104, -1000, 1e-45], F)
    got = compute(m.k_exp, special)
    assert np.isnan(got[0])
    assert got[1:].tolist() == [np.inf, 0, 1, 1, np.inf, np.inf, 0, 0, 1]


def test_log(m):
    r = np.random.default_rng(0)
    bits = r.integers(1, 0x7F800000, 300_000).astype(np.int32)
    x = np.concatenate([bits.view(F), np.linspace(0.5, 2, 200_001).astype(F)])
    exact = np.log(x.astype(np.float64))
    wrong = ulps(compute(m.k_log, x[exact != 0]), exact[exact != 0])
    assert wrong.max() <= 1.5
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, -1, 1, 1e-45], F)
    got = compute(m.k_log, special)
    assert np.isnan(got[[0, 2, 5]]).all()
    assert got[[1, 3, 4, 6]].tolist() == [np.inf, -np.inf, -np.inf, 0] and abs(got[7] + 103.27893) < 1e-4


def test_tanh(m):
    x = everywhere(-12.0, 12.0)
    got = compute(m.k_tanh, x)
    exact = np.tanh(x.astype(np.float64))
    assert ulps(got, exact)[x != 0].max() <= 6.0
    assert np.abs(got).max() == 1
    assert np.array_equal(compute(m.k_tanh, -x), -got)
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e-45], F)
    got = compute(m.k_tanh, special)
    assert np.isnan(got[0]) and got[1:].tolist() == [1, -1, 0, 0, F(1e-45)] and np.signbit(got[4])


def test_other_functions(m):
    x = np.random.default_rng(0).standard_normal(300).astype(F) * 3
    out = np.zeros((300, 6), F)
    m.k_other[2, 256](x, out, 300)
    fused = (x.astype(np.float64) ** 2 - 1).astype(F)
    expected = [np.floor(x), np.ceil(x), np.trunc(x), np.sqrt(np.abs(x)), fused, np.minimum(x, F(0.5))]
    assert np.array_equal(out, np.stack(expected, 1))


def test_float64_arrays_keep_full_precision(m):
    x = np.random.default_rng(0).uniform(0.1, 3, 300)
    out = np.zeros(300)
    m.k_wide[2, 256](x, out, 300)
    assert np.allclose(out, np.exp(x) + np.tanh(x) + np.log(x * x), rtol=1e-14)


def test_a_product_used_once_in_a_sum_is_fused_and_no_other(m):
    r = np.random.default_rng(0)
    x, y, z = (r.standard_normal(1000).astype(F) for _ in range(3))
    out = np.zeros((1000, 5), F)
    m.k_fused[4, 256](x, y, z, out, 1000)
    p = x.astype(np.float64) * y
    once = [(z + p).astype(F), (p - z).astype(F), (z - p).astype(F)]
    assert np.array_equal(out[:, :3], np.stack(once, 1))
    assert np.array_equal(out[:, 3], p.astype(F) + z)


PROGRAM = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import functions as m
x = np.linspace(-20, 20, 4099).astype(np.float32)
total = hashlib.sha256()
for k in (m.k_exp, m.k_tanh, m.k_log):
    for block in (32, 256, 96):
        out = np.zeros_like(x)
        k[(x.size + block - 1) // block, block](x, out, x.size)
        total.update(out.tobytes())
out = np.zeros((x.size, 5), np.float32)
m.k_fused[41, 100](x, x[::-1].copy(), x + np.float32(1), out, x.size)
total.update(out.tobytes())
print(total.hexdigest())
"""
HASWELL = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+bmi,+bmi2,+f16c,+popcnt,+sse4.2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4",
}


def test_the_same_bits_as_another_processor(m, tmp_path):
    """Also for the plainest x86-64, which has no fused multiply-add and calls a function for it."""
    if os.uname().machine != "x86_64":
        processors = [{}]
    else:
        processors = [{}, HASWELL, {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2"}]
    seen = set()
    for k, extra in enumerate(processors):
        env = (
            os.environ
            | {"PYTHONPATH": str(ROOT), "ANDREA_CACHE": str(tmp_path / str(k)), "ANDREA_TARGET": "cpu"}
            | extra
        )
        command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", PROGRAM, str(Path(m.__file__).parent)]
        seen.add(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    assert len(seen) == 1


def test_no_wide_registers_for_a_processor_without_them(m, tmp_path):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import functions as m, numpy as np\n"
        "from kernels.target import arguments, codegen, infer, intrinsics, variant\n"
        "x = np.zeros(8, np.float32)\n"
        "key = arguments.describe('k', m.k_exp.params, (x, x.copy(), 8))[0]\n"
        "types = arguments.types_of(key)[0]\n"
        "program, tree, stacks = variant.transform(m.k_exp.source, (256, 1, 1), types)[:3]\n"
        "fn = infer.build(tree, program, intrinsics.namespace(program, stacks))\n"
        "print(codegen.emit_assembly(codegen.compile_module(fn, types, True, 'k_shown')))\n"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT), "ANDREA_CACHE": str(tmp_path)} | HASWELL
    command = [sys.executable, "-c", program, str(Path(m.__file__).parent)]
    text = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert "ymm" in text and "vfmadd" in text and "zmm" not in text
