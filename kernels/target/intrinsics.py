"""What generated code calls: arrays from pointers, arrays on the stack, unsigned indices, vectorisable float32 math."""

import functools
import math

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from . import fmath
from .source import MATH


@intrinsic
def _u(tyctx, index):
    """An integer index as unsigned: Numba then adds no test for negative values, and loops vectorise."""
    if not isinstance(index, types.Integer):
        return index(index), lambda context, builder, sig, args: args[0]

    def codegen(context, builder, sig, args):
        wide = context.cast(builder, args[0], sig.args[0], types.intp)
        return context.cast(builder, wide, types.intp, types.uintp)

    return types.uintp(index), codegen


@intrinsic
def _view(tyctx, pointer, dims):
    """The C-contiguous array at a pointer."""
    array = types.Array(pointer.dtype, len(dims), "C")

    def codegen(context, builder, sig, args):
        return _build_array(context, builder, array, args[0], cgutils.unpack_tuple(builder, args[1], len(dims)))

    return array(pointer, dims), codegen


def _build_array(context, builder, array, data, shape):
    item = context.get_abi_sizeof(context.get_data_type(array.dtype))
    strides, step = [], context.get_constant(types.intp, item)
    for n in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, n)
    value = make_array(array)(context, builder)
    size = context.get_constant(types.intp, item)
    populate_array(value, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return value._getvalue()


def stack(shape, dtype):
    """An intrinsic for an array on the stack, made once a call: LLVM knows that nothing else points to it."""
    array = types.Array(dtype, len(shape), "C")

    @intrinsic
    def make(tyctx):
        def codegen(context, builder, sig, args):
            element = context.get_data_type(dtype)
            with builder.goto_entry_block():
                space = builder.alloca(ir.ArrayType(element, int(np.prod(shape))))
                space.align = 64
            data = builder.bitcast(space, element.as_pointer())
            return _build_array(context, builder, array, data, [context.get_constant(types.intp, n) for n in shape])

        return array(), codegen

    return make


@intrinsic
def _lane(tyctx, value, lane):
    """Stands for another thread's value while types are inferred."""
    return value(value, lane), lambda context, builder, sig, args: args[0]


@intrinsic
def _fma(tyctx, x, y, z):
    ty = types.float32 if {x, y, z} <= {types.float32} else types.float64

    def codegen(context, builder, sig, args):
        return builder.fma(*[context.cast(builder, a, t, ty) for a, t in zip(args, sig.args, strict=True)])

    return ty(x, y, z), codegen


def _choice(op):
    """min or max of two numbers as Python defines them: the second only if it is truly smaller or larger."""

    @intrinsic
    def pick(tyctx, x, y):
        ty = tyctx.unify_types(x, y)
        if not isinstance(ty, types.Number):
            return None

        def codegen(context, builder, sig, args):
            a, b = (context.cast(builder, v, t, ty) for v, t in zip(args, sig.args, strict=True))
            if isinstance(ty, types.Float):
                better = builder.fcmp_ordered(op, b, a)
            else:
                better = (builder.icmp_signed if ty.signed else builder.icmp_unsigned)(op, b, a)
            return builder.select(better, b, a)

        return ty(x, y), codegen

    return pick


def _unary(function, single):
    """math.`function` as an intrinsic: `single(builder, x)` for float32, Numba's own for other types."""

    @intrinsic
    def op(tyctx, x):
        if x == types.float32:
            return x(x), lambda context, builder, sig, args: single(builder, args[0])
        if not isinstance(x, types.Number):
            return None

        def codegen(context, builder, sig, args):
            wide = context.cast(builder, args[0], sig.args[0], types.float64)
            if function in _ROUNDING:
                return _llvm(_ROUNDING[function])(builder, wide)
            full = types.float64(types.float64)
            tyctx.resolve_function_type(function, (types.float64,), {})
            return context.get_function(function, full)(builder, [wide])

        return types.float64(x), codegen

    return op


def _llvm(name):
    def build(builder, x):
        fn = builder.module.declare_intrinsic(f"llvm.{name}", [x.type])
        return builder.call(fn, [x])

    return build


_ROUNDING = {math.floor: "floor", math.ceil: "ceil", math.trunc: "trunc", math.sqrt: "sqrt"}
_SINGLE = {math.exp: fmath.exp, math.log: fmath.log, math.tanh: fmath.tanh}
_SINGLE.update({f: _llvm(name) for f, name in _ROUNDING.items()})
OPERATIONS = {name: _unary(f, _SINGLE[f]) for f, name in MATH.items()}
OPERATIONS.update(_u=_u, _view=_view, _lane=_lane, _fma=_fma, _min=_choice("<"), _max=_choice(">"))


@functools.cache
def contexts():
    """The typing context and a target context for inference alone (Numba's own)."""
    typing, target = cpu_target.typing_context, cpu_target.target_context
    typing.refresh()
    target.refresh()
    return typing, target


def namespace(program, stacks):
    """Globals of a generated function. `stacks` maps names to (shape, type); None: as declared, for inference."""
    from numba.np.numpy_support import from_dtype

    if stacks is None:
        arrays = {**program.shared, **program.local}
        stacks = {n: (a.shape, from_dtype(a.dtype)) for n, a in arrays.items()}
    out = {"__name__": "kernels.target.generated", **OPERATIONS, **program.constants}
    out.update({name: device.compiled() for name, device in program.devices.items()})
    out.update({f"_stack_{name}": stack(shape, dtype) for name, (shape, dtype) in stacks.items()})
    return out
