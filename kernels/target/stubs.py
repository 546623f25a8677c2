"""Which names in a kernel mean Numba's CUDA intrinsics, however they were imported."""

import ast
import types as pytypes

_HOMES = ("numba.cuda.stubs", "numba.cuda.intrinsics")
_table = {}


def is_cuda_module(value):
    return isinstance(value, pytypes.ModuleType) and (
        value.__name__ == "numba.cuda" or value.__name__.startswith("numba.cuda.simulator")
    )


def _stubs():
    if not _table:
        from numba import cuda

        for name in dir(cuda):
            value = getattr(cuda, name)
            if getattr(value, "__module__", None) in _HOMES:
                _table[id(value)] = name
    return _table


def cuda_path(node, lookup, local_names):
    """'threadIdx.x' for `cuda.threadIdx.x` and its other spellings, None for what is not CUDA's."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in local_names:
        return None
    parts.reverse()
    value = lookup(node.id)
    if is_cuda_module(value):
        return ".".join(parts)
    if isinstance(value, pytypes.ModuleType) and value.__name__ == "numba" and parts[:1] == ["cuda"]:
        return ".".join(parts[1:])
    if value is not None and id(value) in _stubs():
        return ".".join([_stubs()[id(value)], *parts])
    return None
