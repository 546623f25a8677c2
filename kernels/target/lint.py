"""float64 where it was not meant: on a GPU it is many times slower, and it changes the result."""

from . import arguments, infer, normal


def lint(kernel, *args, block=(32, 1, 1)):
    """Where a kernel computes in float64, for arguments or Numba argument types: a list of (file, line, what).

    A literal like 0.5 is float64, and so is what it is combined with: write float32(0.5).
    """
    from numba.core import types

    if all(isinstance(a, types.Type) for a in args):
        argtypes = args
    else:
        key, _, _ = arguments.describe(kernel.name, kernel.params, args)
        argtypes, _ = arguments.types_of(key)
    program = normal.normalise(kernel.source, arguments.shape(kernel.name, "block", block))
    return infer.Types(program, argtypes).wide
