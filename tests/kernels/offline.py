"""Kernels without a GPU: PTX by numba-cuda, machine code by ptxas, a run in Numba's simulator."""

import re
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numba
import numpy as np
from numba import cuda
from numba.cuda import compiler, dispatcher
from numba.cuda.simulator.kernel import FakeCUDAKernel

CAPABILITIES = ((7, 5), (8, 6), (8, 9), (9, 0))


def with_devices(fn, wrap):
    """`fn` with every device function that it can see, and that those can see, wrapped for another compiler."""
    seen = dict(fn.__globals__)
    for name, value in fn.__globals__.items():
        if name in fn.__code__.co_names and hasattr(value, "fn") and type(value).__name__ == "Device":
            seen[name] = wrap(with_devices(value.fn, wrap))
    return types.FunctionType(fn.__code__, seen, fn.__name__, fn.__defaults__, fn.__closure__)


def signature(args) -> tuple:
    """Types of a launch's arguments: C-contiguous arrays, 64-bit integers, float32."""
    return tuple(numba.int64 if isinstance(a, int) else numba.typeof(a) for a in args)


def compile_ptx(kernel) -> dict[tuple[int, int], str]:
    """PTX of a registered kernel's example by compute capability: typed once, then given to NVVM for each of them.

    Numba asks the device in hand for its capability when it types a device function; there is none here.
    """
    _, args = kernel.example(kernel.default_block)
    oldest = types.SimpleNamespace(compute_capability=CAPABILITIES[0])
    with mock.patch.object(dispatcher, "get_current_device", lambda: oldest):
        fn = with_devices(kernel.fn, cuda.jit(device=True))
        library, _ = compiler._compile_pyfunc_with_fixup(
            fn, signature(args), device=False, abi="numba", cc=CAPABILITIES[0]
        )
    return {cc: library.get_asm_str(cc=cc) for cc in CAPABILITIES}


@dataclass(frozen=True)
class Usage:
    """What ptxas reports: registers a thread, bytes of stack frame, bytes spilled."""

    registers: int
    stack: int
    spills: int


def ptxas() -> str:
    """Path of ptxas from the nvidia-cuda-nvcc wheel."""
    folders = [Path(p) / "nvidia" for p in sys.path if (Path(p) / "nvidia").is_dir()]
    found = sorted(path for folder in folders for path in folder.glob("*/bin/ptxas"))
    assert found, "ptxas is missing: pip install 'cuda-toolkit[nvcc]' (it is among the test extras)"
    return str(found[0])


def assemble(ptx: str, cc: tuple[int, int], folder: Path) -> Usage:
    """Machine code for one compute capability, and what it takes."""
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    command = [ptxas(), "-v", f"-arch=sm_{cc[0]}{cc[1]}", str(source), "-o", str(folder / "kernel.cubin")]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    stack, stores, loads = map(
        int, re.search(r"(\d+) bytes stack.* (\d+) bytes spill st.* (\d+) bytes spill", report).groups()
    )
    return Usage(int(re.search(r"Used (\d+) registers", report)[1]), stack, stores + loads)


def simulate(kernel, block) -> list[np.ndarray]:
    """Arrays of the kernel's example after a run in the simulator, thread by thread."""
    grid, args = kernel.example(block)
    fn = with_devices(kernel.fn, lambda f: FakeCUDAKernel(f, device=True))
    with np.errstate(all="ignore"):
        FakeCUDAKernel(fn, device=False)[grid, block](*args)
    return [a for a in args if isinstance(a, np.ndarray)]


def launch_example(kernel, block) -> list[np.ndarray]:
    """Arrays of the kernel's example after a launch on the current target."""
    from kernels import target

    grid, args = kernel.example(block)
    held = [target.to_device(a) if isinstance(a, np.ndarray) else a for a in args]
    target.run([kernel[grid, block].bind(*held)])
    return [np.array(target.copy_to_host(h)) for h, a in zip(held, args, strict=True) if isinstance(a, np.ndarray)]
