"""The three matrix-product kernels against the reference, and against each other."""

import itertools

import numpy as np
import pytest
from cases import normal
from judges import KERNEL_LIMIT, SEEDS, assert_close, launch, poison
from offline import assemble, compile_ptx

from kernels import target
from kernels.matmul import EDGE, ROWS, k_matmul_naive, k_matmul_tiled, make_blocked
from kernels.registry import cdiv
from kernels.target import KernelError

SHAPES = {
    "one": (1, 1, 1, 1.0),
    "odd": (7, 5, 3, 1.0),
    "blocks": (70, 45, 50, 1.0),
    "large": (33, 20, 17, 1e15),
    "dead": (40, 33, 35, 0.0),
}


def naive(block):
    def build(A, B, C):
        (M, N), K = C.shape, A.shape[1]
        return [k_matmul_naive[(cdiv(N, block[0]), cdiv(M, block[1])), block].bind(A, B, C, M, N, K)]

    return build


def tiled(A, B, C):
    (M, N), K = C.shape, A.shape[1]
    return [k_matmul_tiled[(cdiv(N, 16), cdiv(M, 16)), (16, 16)].bind(A, B, C, M, N, K)]


def blocked(rows):
    def build(A, B, C):
        (M, N), K = C.shape, A.shape[1]
        k = make_blocked(False, False, False, rows)
        return [k[(cdiv(N, EDGE), cdiv(M, EDGE)), (EDGE, EDGE // rows)].bind(A, B, C, M, N, K)]

    return build


BUILDS = {"naive": naive((16, 16)), "naive wide": naive((32, 8)), "tiled": tiled} | {
    f"blocked {rows}": blocked(rows) for rows in (2, 4, 8)
}


def product(shape, seed):
    M, N, K, scale = SHAPES[shape]
    rng = np.random.default_rng(seed)
    A, B = normal(rng, M, K, scale=scale), normal(rng, K, N, scale=scale or 1.0)
    return {"A": A, "B": B, "C": poison((M, N))}, A.astype(np.float64) @ B


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", BUILDS)
def test_product(name, shape):
    for seed in SEEDS:
        x, want = product(shape, seed)
        got = launch(BUILDS[name], ("A", "B", "C"), x)
        assert_close(f"{name}, {shape}", got["C"], want, KERNEL_LIMIT)
        assert got["A"].tobytes() == x["A"].tobytes() and got["B"].tobytes() == x["B"].tobytes()


def test_bits_depend_neither_on_workers_nor_on_the_rows_a_thread_owns():
    x, _ = product("blocks", 0)
    before, seen = target.threads(), {}
    try:
        for workers in (1, 1, 2, 3):
            target.set_threads(workers)
            for name in BUILDS:
                bits = launch(BUILDS[name], ("A", "B", "C"), x)["C"].tobytes()
                assert seen.setdefault(name.split()[0], bits) == bits, f"{name}, {workers} workers"
    finally:
        target.set_threads(before)


def test_other_blocks_are_refused_by_name():
    x, _ = product("odd", 0)
    with pytest.raises(KernelError, match=r"k_matmul_tiled: block \(32, 8\) is not legal; legal blocks: \(16, 16\)"):
        k_matmul_tiled[(1, 1), (32, 8)].bind(x["A"], x["B"], x["C"], 7, 5, 3)


def test_every_form_compiles_and_spills_nothing(tmp_path):
    for ta, tb, add in itertools.product((False, True), repeat=3):
        kernel = make_blocked(ta, tb, add, ROWS["cuda"])
        ptx = compile_ptx(kernel, (7, 5))
        assert ".f64" not in ptx and assemble(ptx, (7, 5), tmp_path).spills == 0
