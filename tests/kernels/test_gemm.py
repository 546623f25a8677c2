"""gemm(): every form of the product, both libraries, the same bits for any number of threads, one-line errors."""

import ctypes
import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cases import normal
from judges import KERNEL_LIMIT, SEEDS, assert_close, launch, poison

from kernels import blas, matmul, target
from kernels.matmul import gemm, gemm_library, gemm_with, panels, together
from kernels.target import KernelError

ROOT = Path(__file__).parents[2]
SHAPES = {"one": (1, 1, 1), "odd": (7, 5, 3), "blocks": (70, 45, 50), "row": (1, 40, 33), "panels": (523, 300, 250)}
FORMS = list(itertools.product((False, True), repeat=3))


def operands(shape, ta, tb, seed, scale=1.0):
    M, N, K = SHAPES[shape]
    rng = np.random.default_rng([seed, M])
    A = normal(rng, *((K, M) if ta else (M, K)), scale=scale)
    B = normal(rng, *((N, K) if tb else (K, N)), scale=scale)
    return {"A": A, "B": B, "C": normal(rng, M, N)}


def want(x, ta, tb, add):
    A, B, C = (x[n].astype(np.float64) for n in "ABC")
    return (A.T if ta else A) @ (B.T if tb else B) + (C if add else 0.0)


@pytest.mark.parametrize("library", ["blas", "kernels", "numpy"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_form(shape, library, monkeypatch):
    """ "numpy" is what runs where no BLAS can be reached through ctypes."""
    if library == "numpy":
        monkeypatch.setattr(blas, "numpy_blas", lambda: None)
    for (ta, tb, add), seed in itertools.product(FORMS, SEEDS):
        x = operands(shape, ta, tb, seed)
        y = x if add else x | {"C": poison(x["C"].shape)}
        with gemm_with("kernels" if library == "kernels" else "blas"):
            got = launch(lambda A, B, C: gemm(A, B, C, ta, tb, add), ("A", "B", "C"), y)  # noqa: B023
        assert_close(f"{library} {shape} {ta=} {tb=} {add=}", got["C"], want(x, ta, tb, add), KERNEL_LIMIT)
        assert got["A"].tobytes() == x["A"].tobytes() and got["B"].tobytes() == x["B"].tobytes()


@pytest.mark.parametrize("library", ["blas", "kernels"])
def test_large_values_and_zeros(library):
    for scale in (1e15, 0.0):
        x = operands("blocks", False, False, 0, scale)
        with gemm_with(library):
            got = launch(gemm, ("A", "B", "C"), x | {"C": poison(x["C"].shape)})["C"]
        assert_close(f"{library}, {scale}", got, want(x, False, False, False), KERNEL_LIMIT)


def test_rows_further_apart_than_their_length():
    rng = np.random.default_rng(0)
    A, B, C = normal(rng, 300, 500)[:, 7:250], normal(rng, 243, 600)[:, :200], normal(rng, 300, 230)[:, 20:220]
    before = C.base.copy()
    target.run(gemm(A, B, C))
    assert_close("strided", C, A.astype(np.float64) @ B, KERNEL_LIMIT)
    assert (C.base[:, :20] == before[:, :20]).all() and (C.base[:, 220:] == before[:, 220:]).all()


def test_panels_cover_the_rows_and_follow_from_the_shape():
    for M, N, K in [(1, 1, 1), (17, 3000, 3000), (384, 1536, 1024), (1000, 2305, 384), (8192, 384, 384)]:
        cut = panels(M, N, K)
        assert cut[0][0] == 0 and cut[-1][1] == M
        assert all(hi == lo for (_, hi), (lo, _) in itertools.pairwise(cut)) and all(lo < hi for lo, hi in cut)
    assert panels(64, 64, 64) == [(0, 64)], "a small product is one panel"
    assert len(panels(1024, 384, 384)) >= 2, "a product of the training step keeps two threads busy"


# Prints one digest of every form of the product, cut into panels, for 1, 2 and 3 workers.
DIGESTS = """
import hashlib, itertools, sys
import numpy as np
from kernels import target
from kernels.matmul import gemm, gemm_with
out = []
for workers in (1, 2, 3):
    target.set_threads(workers)
    digest = hashlib.sha256()
    for ta, tb, add in itertools.product((False, True), repeat=3):
        rng = np.random.default_rng(0)
        A = rng.standard_normal((250, 523) if ta else (523, 250), np.float32)
        B = rng.standard_normal((300, 250) if tb else (250, 300), np.float32)
        C = rng.standard_normal((523, 300), np.float32)
        with gemm_with(sys.argv[1]):
            target.run(gemm(A, B, C, ta, tb, add))
        digest.update(C.tobytes())
    out.append(digest.hexdigest())
print(*out)
"""


@pytest.mark.parametrize("core", ["", "Haswell", "SandyBridge"])
def test_bits_do_not_depend_on_workers(core):
    """Also with the code that OpenBLAS takes on another processor, where the bits themselves are others."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "ANDREA_TARGET": "cpu"} | ({"OPENBLAS_CORETYPE": core} if core else {})
    command = [sys.executable, "-c", DIGESTS, "blas"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert len(set(done.stdout.split())) == 1, done.stdout


def test_our_kernels_give_the_same_bits_on_any_number_of_workers():
    command = [sys.executable, "-c", DIGESTS, "kernels"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "ANDREA_TARGET": "cpu"}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert len(set(done.stdout.split())) == 1, done.stdout


def test_the_library_is_held_at_one_thread_and_handed_back():
    library = blas.numpy_blas()
    before = library.threads.num_threads
    x = operands("panels", False, False, 0)
    try:
        seen = set()
        for threads in (1, 2, 3):
            library.threads.set_num_threads(threads)
            C = poison(x["C"].shape)
            for task, args in gemm(x["A"], x["B"], C)[0].tasks:
                task(*args)
                assert library.threads.num_threads == 1
            seen.add(C.tobytes())
        assert len(seen) == 1
        library.threads.set_num_threads(2)
        with blas.one_thread():
            assert library.threads.num_threads == 1
        assert library.threads.num_threads == 2
        target.run(gemm(x["A"], x["B"], C))
        assert C.tobytes() in seen
    finally:
        library.threads.set_num_threads(before)


def test_the_library_is_the_one_that_numpy_loaded():
    """A second library loaded by another package, also in front of NumPy's, is not taken."""
    library = blas.numpy_blas()
    assert "numpy.libs" in library.threads.filepath or "numpy" not in library.threads.filepath


def test_launches_share_the_workers():
    x, y = operands("panels", False, False, 0), operands("blocks", False, False, 1)
    for a in (x, y):
        a["C"][:] = np.nan
    launches = together(gemm(**x), gemm(**y))
    assert len(launches) == 1 and len(launches[0].tasks) == len(gemm(**x)[0].tasks) + len(gemm(**y)[0].tasks)
    target.run(launches)
    for a in (x, y):
        assert_close("together", a["C"], want(a, False, False, False), KERNEL_LIMIT)


def test_the_library_is_chosen_when_a_launch_is_built():
    assert gemm_library() == "blas"
    x = operands("odd", False, False, 0)
    with gemm_with("kernels"):
        assert gemm_library() == "kernels" and gemm(**x)[0].name == "k_matmul_blocked"
        with gemm_with("blas"):
            assert gemm(**x)[0].name == "gemm"
        assert gemm_library() == "kernels"
    assert gemm_library() == "blas"
    with pytest.raises(KernelError, match='gemm: library is \'mkl\', expected "blas" or "kernels"'), gemm_with("mkl"):
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": np.zeros((3, 4))}, r"A is float64 of shape \(3, 4\), expected a non-empty 2-D float32 array"),
        ({"A": np.zeros(3, np.float32)}, r"A is float32 of shape \(3,\)"),
        ({"B": [[1.0]]}, r"B is list of shape None"),
        ({"B": np.zeros((4, 0), np.float32)}, r"B is float32 of shape \(4, 0\), expected a non-empty"),
        ({"B": np.zeros((5, 2), np.float32)}, r"B \(5, 2\), tb=False sums over 5 terms, expected 4 as A \(3, 4\)"),
        ({"C": np.zeros((2, 3), np.float32)}, r"C has shape \(2, 3\), expected \(3, 2\)"),
        ({"A": np.zeros((4, 3), np.float32).T}, r"A has strides \(4, 12\), expected neighbours of a row 4 bytes"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(change, message):
    x = {n: np.zeros(s, np.float32) for n, s in (("A", (3, 4)), ("B", (4, 2)), ("C", (3, 2)))} | change
    for library in ("blas", "kernels"):
        with gemm_with(library), pytest.raises(KernelError, match=f"gemm: {message}") as error:
            gemm(**x)
        assert "\n" not in str(error.value)


# ---------------------------------------------------------------- cuBLAS, as far as it goes without a device


class OnDevice(np.ndarray):
    """An array that shows its address as a device array does."""

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.ctypes.data, False)}


def column_major(address, rows, cols, leading):
    floats = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
    return np.lib.stride_tricks.as_strided(np.ctypeslib.as_array(floats, (1,)), (rows, cols), (4, 4 * leading))


def fake_sgemm(handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    """cublasSgemm's contract on host memory: everything by columns."""
    A = column_major(a, k, m, lda).T if ta else column_major(a, m, k, lda)
    B = column_major(b, n, k, ldb).T if tb else column_major(b, k, n, ldb)
    C = column_major(c, m, n, ldc)
    one, scale = (ctypes.cast(p, ctypes.POINTER(ctypes.c_float))[0] for p in (alpha, beta))
    C[:] = one * (A @ B) + (scale * C if scale else 0.0)


def test_cublas_is_called_with_rows_for_columns(monkeypatch):
    library = SimpleNamespace(sgemm=fake_sgemm, Operation=SimpleNamespace(N=0, T=1))
    scalars = np.array([0.0, 1.0], np.float32)
    monkeypatch.setattr(blas, "cublas", lambda: (library, None, scalars))
    monkeypatch.setattr(matmul, "current", lambda: "cuda")
    for (ta, tb, add), shape in itertools.product(FORMS, ("odd", "blocks", "row")):
        x = operands(shape, ta, tb, 0)
        expected = want(x, ta, tb, add)
        y = {n: a.copy().view(OnDevice) for n, a in x.items()}
        if not add:
            y["C"][:] = np.nan
        (launch_,) = gemm(**y, ta=ta, tb=tb, add=add)
        for task, args in launch_.tasks:
            task(*args)
        assert_close(f"{ta=} {tb=} {add=} {shape}", np.asarray(y["C"]), expected, KERNEL_LIMIT)


def test_without_cublas_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvmath.bindings", None)
    monkeypatch.setattr(matmul, "current", lambda: "cuda")
    blas.cublas.cache_clear()
    with pytest.raises(
        KernelError, match=r"gemm: cuBLAS does not load .*andrea-lab\[cu13\].*gemm=\"kernels\""
    ) as error:
        gemm(**operands("odd", False, False, 0))
    assert "\n" not in str(error.value)
