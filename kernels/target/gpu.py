"""The same sources for Numba's own CUDA compiler, PTX and simulator: device functions put in their place."""

import functools
import types as pytypes

from .errors import LaunchError
from .source import Source


def rebuilt(fn, make, seen=None):
    """A copy of a function in which every device function it reaches is replaced by make(its copy)."""
    seen = {} if seen is None else seen
    source = Source.bare(fn)
    replaced = {}
    for chain in source.chains():
        value = source.lookup(chain[0])
        if getattr(value, "is_device", False):
            if id(value) not in seen:
                seen[id(value)] = make(rebuilt(value.fn, make, seen))
            replaced[chain[0]] = seen[id(value)]
    names = fn.__globals__.copy()
    names.update({k: v for k, v in replaced.items() if k not in fn.__code__.co_freevars})
    cells = None
    if fn.__closure__:
        pairs = zip(fn.__code__.co_freevars, fn.__closure__, strict=True)
        cells = tuple(pytypes.CellType(replaced[name]) if name in replaced else cell for name, cell in pairs)
    copy = pytypes.FunctionType(fn.__code__, names, fn.__name__, fn.__defaults__, cells)
    copy.__module__, copy.__doc__, copy.__qualname__ = fn.__module__, fn.__doc__, fn.__qualname__
    return copy


def for_cuda(fn):
    """The function with its device functions compiled for CUDA: inlined, which asks for no device at compile time."""
    from numba import cuda

    return rebuilt(fn, functools.partial(cuda.jit, device=True, inline="always"))


def bind(kernel, grid, block, args):
    """A Launch on the GPU. The compiled kernel is kept for the outside values it was made with."""
    from numba import cuda

    from .launch import Launch

    if len(args) != len(kernel.params):
        from .arguments import count_error

        raise count_error(kernel.name, kernel.params, args)
    for name, value in zip(kernel.params, args, strict=True):
        if type(value) is float:
            raise LaunchError(f"kernel {kernel.name}: argument '{name}' is a Python float; pass np.float32({value!r})")
    values = Source.bare(kernel.fn).values()
    if kernel._on_cuda is None or kernel._on_cuda[0] != values:
        kernel._on_cuda = values, cuda.jit(for_cuda(kernel.fn))
    return Launch(kernel.name, [(kernel._on_cuda[1][grid, block], args)])
