"""Every shipped kernel: registered, legal blocks alone, one result for all of them, PTX, simulator."""

import hashlib
import importlib
import inspect
import pkgutil
import re

import numpy as np
import pytest
from judges import assert_close
from offline import CAPABILITIES, assemble, compile_for, launch_example, simulate

import kernels
from kernels.pairs import KERNELS
from kernels.registry import ANY_BLOCK, Registered, block3, register
from kernels.target import KernelError, kernel

EACH = pytest.mark.parametrize("name", sorted(KERNELS))


def sha256(arrays) -> str:
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()


def test_every_kernel_of_the_package_is_registered():
    names = [m.name for m in pkgutil.iter_modules(kernels.__path__) if not m.ispkg]
    assert {"embed", "attention", "loss", "clip", "adamw"} <= set(names)
    for name in names:
        for value in vars(importlib.import_module(f"kernels.{name}")).values():
            if hasattr(value, "bind") or type(value).__name__ == "Kernel":
                pytest.fail(f"kernels/{name}.py: {value.fn.__name__} is not registered")
            if isinstance(value, Registered):
                assert value.name in KERNELS


def test_helpers_of_the_optimiser_are_there():
    wanted = {"k_grad_norm_partial", "k_grad_norm_final", "k_grad_scale", "k_scale_grads", "k_zero_grads", "k_adamw"}
    assert wanted | {"k_matmul_naive", "k_matmul_tiled", "k_matmul_blocked"} <= set(KERNELS)


@EACH
def test_float_atomics_only_in_lessons(name):
    k = KERNELS[name]
    assert ("cuda.atomic" in inspect.getsource(k.fn)) <= k.teaching


@EACH
def test_example_has_no_gaps(name):
    """An example is a function of the block alone, and of finite numbers."""
    k = KERNELS[name]
    (grid, args), (grid2, args2) = k.example(k.default_block), k.example(k.default_block)
    assert grid == grid2
    for a, b in zip(args, args2, strict=True):
        assert isinstance(a, int | np.float32 | np.ndarray), f"{name}: {type(a).__name__} argument"
        if isinstance(a, np.ndarray):
            assert a is not b and a.tobytes() == b.tobytes() and np.isfinite(a).all()
            assert a.dtype in (np.float32, np.int32) and a.flags.c_contiguous


@EACH
def test_one_result_for_every_legal_block(name):
    """any_block: one sha256 for blocks of 32 to 1024 threads. Listed blocks: one sha256 each, twice."""
    k = KERNELS[name]
    digests = {block: {sha256(launch_example(k, block)) for _ in range(2)} for block in k.proof_blocks}
    assert all(len(d) == 1 for d in digests.values()), "two runs differ"
    if k.any_block:
        assert len(set.union(*digests.values())) == 1, f"{name}: the result depends on the block: {digests}"


@EACH
def test_illegal_blocks_are_refused_by_name(name):
    k = KERNELS[name]
    grid, _ = k.example(k.default_block)
    illegal = [0, 1025, (8, 8)] if k.any_block else [48, 1025, (3, 5)]
    for block in illegal:
        with pytest.raises(KernelError, match=rf"{name}: block {re.escape(str(block))} is not legal"):
            k[grid, block]
    for block in k.blocks:
        assert k[grid, block] is not None


@EACH
def test_agrees_with_the_simulator(name):
    k = KERNELS[name]
    if k.shuffles:
        assert "shfl" in inspect.getsource(k.fn)
        return
    block = 32 if k.any_block else min(k.blocks, key=lambda b: int(np.prod(block3(b))))
    for got, want in zip(launch_example(k, block), simulate(k, block), strict=True):
        assert_close(name, got, want, 1e-6)


@EACH
def test_compiles_for_four_gpus(name, tmp_path):
    """PTX without a GPU, no float64 in it, and machine code that spills nothing."""
    compiled = compile_for(KERNELS[name])
    assert tuple(compiled) == CAPABILITIES == ((7, 5), (8, 6), (8, 9), (9, 0))
    for cc, ptx in compiled.items():
        assert f".target sm_{cc[0]}{cc[1]}" in ptx
        assert ".f64" not in ptx, f"{name}: float64 for compute capability {cc}"
        usage = assemble(ptx, cc, tmp_path)
        assert usage.spills == 0 and usage.registers <= 255, f"{name}: {usage} for compute capability {cc}"


def test_a_second_kernel_of_one_name_is_guarded_too():
    def k_twin(out):
        """Nothing."""

    first = register((64,), None)(kernel(k_twin))
    second = register(ANY_BLOCK, None)(kernel(k_twin))
    try:
        assert KERNELS["k_twin"] is first and second is not first
        with pytest.raises(KernelError, match="k_twin: block 32 is not legal; legal blocks: 64"):
            first[1, 32]
    finally:
        del KERNELS["k_twin"]
