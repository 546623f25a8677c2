"""Kernels without a GPU: PTX by numba-cuda, machine code by ptxas, a run in Numba's simulator."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
from numba.cuda import compiler

from kernels import target
from kernels.target import ptx
from kernels.target.gpu import for_cuda

CAPABILITIES = ((7, 5), (8, 6), (8, 9), (9, 0))


def signature(args) -> tuple:
    """Types of a launch's arguments: C-contiguous arrays, 64-bit integers, float32."""
    return tuple(numba.int64 if isinstance(a, int) else numba.typeof(a) for a in args)


def compile_for(kernel, capabilities=CAPABILITIES) -> dict[tuple[int, int], str]:
    """PTX of a registered kernel's example by compute capability: typed once, then given to NVVM for each of them."""
    _, args = kernel.example(kernel.default_block)
    library, _ = compiler._compile_pyfunc_with_fixup(
        for_cuda(kernel.fn), signature(args), device=False, abi="numba", cc=capabilities[0]
    )
    return {cc: library.get_asm_str(cc=cc) for cc in capabilities}


def compile_ptx(kernel, cc: tuple[int, int]) -> str:
    """PTX of a registered kernel's example for one compute capability."""
    return compile_for(kernel, (cc,))[cc]


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


def assemble(text: str, cc: tuple[int, int], folder: Path) -> Usage:
    """Machine code for one compute capability, and what it takes."""
    source = folder / "kernel.ptx"
    source.write_text(text)
    command = [ptxas(), "-v", f"-arch=sm_{cc[0]}{cc[1]}", str(source), "-o", str(folder / "kernel.cubin")]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    stack, stores, loads = map(
        int, re.search(r"(\d+) bytes stack.* (\d+) bytes spill st.* (\d+) bytes spill", report).groups()
    )
    return Usage(int(re.search(r"Used (\d+) registers", report)[1]), stack, stores + loads)


def simulate(kernel, block) -> list[np.ndarray]:
    """Arrays of the kernel's example after a run in the simulator, thread by thread."""
    grid, args = kernel.example(block)
    with np.errstate(all="ignore"):
        ptx.simulate(kernel, grid, block, args)
    return [a for a in args if isinstance(a, np.ndarray)]


def launch_example(kernel, block) -> list[np.ndarray]:
    """Arrays of the kernel's example after a launch on the current target."""
    grid, args = kernel.example(block)
    held = [target.to_device(a) if isinstance(a, np.ndarray) else a for a in args]
    target.run([kernel[grid, block].bind(*held)])
    return [np.array(target.copy_to_host(h)) for h, a in zip(held, args, strict=True) if isinstance(a, np.ndarray)]
