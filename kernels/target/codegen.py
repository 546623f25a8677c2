"""From a generated Python function to object code, with LLVM settings of our own and no effect on other Numba code.

Floating point is exact IEEE arithmetic, never reassociated. A product that is used once, in a sum or difference of
the same stretch of code, becomes one fused multiply-add, by a rule on Numba's code (`fuse_products`) and not by LLVM:
so bits depend neither on the processor nor on which part of a vectorised loop an element falls into.
"""

import copy
import functools

import llvmlite.binding as ll
from llvmlite import ir
from numba.core import codegen as numba_codegen
from numba.core import compiler, cpu, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
)

from . import intrinsics
from .infer import add_untyped
from .loader import SHARE
from .processor import processor

SLOT = 8
I32, I64 = ir.IntType(32), ir.IntType(64)
_MATH_TEXT = (
    "fma exp log pow sin cos tan asin acos atan atan2 sinh cosh tanh log1p expm1 log2 log10 exp2 erf erfc fmod "
    "hypot lgamma tgamma ldexp frexp cbrt "
)
_MATH = _MATH_TEXT.split()
ALLOWED = frozenset(["memset", "memcpy", "memmove", *_MATH, *(f"{name}f" for name in _MATH)])


class _Library(numba_codegen.CPUCodeLibrary):
    """A library that stops at the optimised module."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self):
        self._codegen.optimise(self._final_module)

    def _finalize_final_module(self):
        self._finalized = True

    def get_pointer_to_function(self, name):
        raise RuntimeError("this code is linked elsewhere")

    def _finalize_specific(self):
        pass


class _Codegen(numba_codegen.JITCPUCodegen):
    _library_class = _Library

    def _get_host_cpu_name(self):
        return processor()[0]

    def _get_host_cpu_features(self):
        return processor()[1]

    def _customize_tm_options(self, options):
        super()._customize_tm_options(options)
        options["opt"] = 3

    def optimise(self, module):
        """LLVM's -O3 twice: vectorise first, then unroll.

        A loop over 16 or 32 threads that is unrolled before is lost to the vectoriser; unrolled after it, the running
        sums of a local array move into registers.
        """
        for unroll in (False, True):
            tuning = ll.create_pipeline_tuning_options(speed_level=3)
            tuning.slp_vectorization = False
            tuning.loop_vectorization, tuning.loop_unrolling = not unroll, unroll
            builder = ll.create_pass_builder(self._tm, tuning)
            builder.getModulePassManager().run(module, builder)


class Context(cpu.CPUContext):
    """Numba's CPU context with our code generator and our rule for fused multiply-adds.

    It is a copy of Numba's own, so that implementations registered there while types are inferred are seen here too.
    """

    @classmethod
    def make(cls):
        ctx = copy.copy(intrinsics.contexts()[1])
        ctx.__class__ = cls
        ctx._codelib_stack = []
        ctx.cached_internal_func = {}
        ctx._internal_codegen = _Codegen("kernels")
        return ctx

    distinct = False

    def post_lowering(self, mod, library):
        for function in mod.functions:
            fuse_products(function)
            if self.distinct and not function.is_declaration:
                for arg in function.args[2:]:
                    if isinstance(arg.type, ir.PointerType):
                        arg.add_attribute("noalias")


class _Compiler(compiler.CompilerBase):
    """Numba's pipeline without the passes that generated code never needs."""

    def define_pipelines(self):
        manager = PassManager("kernels")
        add_untyped(manager)
        for step in (NopythonTypeInference, IRLegalization, NativeLowering, NoPythonBackend):
            manager.add_pass(step, step.__name__)
        manager.finalize()
        return [manager]


@functools.cache
def context():
    return Context.make()


def pointer_types(argtypes):
    """Parameters of a generated function: bounds and grid, then pointer and lengths of each array, or the scalar."""
    out = [types.int64] * 5
    for ty in argtypes:
        if isinstance(ty, types.Array):
            out += [types.CPointer(ty.dtype), *[types.int64] * ty.ndim]
        else:
            out.append(ty)
    return tuple(out)


@global_compiler_lock
def compile_module(fn, argtypes, distinct, symbol):
    """The optimised LLVM module of a generated function, with two entries.

    `i32 symbol(i64 lo, i64 hi, i8* slots)` runs a range of blocks; `i32 symbol_share(i64 count, i64 blocks, i8* slots)`
    runs those of the `count` even ranges that no other thread has taken. `distinct` promises that no two array
    arguments overlap.
    """
    typing, ctx = intrinsics.contexts()[0], context()
    flags = compiler.Flags()
    flags.enable_ssa = False
    flags.error_model = "numpy"
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.nrt = False
    library = ctx.codegen().create_library(symbol)
    ctx.distinct = distinct
    parameters = pointer_types(argtypes)
    result = compiler.compile_extra(
        typing, ctx, fn, parameters, types.none, flags, {}, library=library, pipeline_class=_Compiler
    )
    library.add_ir_module(_entry(ctx, result.fndesc, parameters, symbol))
    module = library._final_module
    for item in [*module.functions, *module.global_variables]:
        if not item.is_declaration and item.name not in (symbol, symbol + SHARE):
            item.linkage = "internal"
    library.finalize()
    _check_symbols(module)
    return module


def emit_object(module):
    """Relocatable object code of an optimised module."""
    return context().codegen()._tm.emit_object(module)


def emit_assembly(module):
    return context().codegen()._tm.emit_assembly(module)


def _entry(ctx, fndesc, parameters, symbol):
    """C functions that take the arguments from 8-byte slots and call the generated one."""
    module = ctx.create_module(symbol + ".entry")
    inner = ir.Function(module, ctx.call_conv.get_function_type(fndesc.restype, fndesc.argtypes), fndesc.llvm_func_name)
    kind = ir.FunctionType(I32, [I64, I64, ir.IntType(8).as_pointer()])
    entry = ir.Function(module, kind, symbol)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    values = list(entry.args[:2])
    for k, ty in enumerate(parameters[2:]):
        value = ctx.data_model_manager[ty].get_argument_type()
        values.append(builder.load(_slot(builder, entry.args[2], k, value)))
    hidden = [builder.alloca(arg.type.pointee) for arg in inner.args[:2]]
    builder.ret(builder.call(inner, [*hidden, *values]))
    _share(ir.Function(module, kind, symbol + SHARE), entry, len(parameters) - 2)
    return module


def _slot(builder, slots, k, kind):
    return builder.bitcast(builder.gep(slots, [ir.Constant(I64, k * SLOT)]), kind.as_pointer())


def _share(function, entry, counter):
    """Take the next range from the counter in its slot, run it, and so on until there is none."""
    count, blocks, slots = function.args
    start, head, body, done, failed = (
        function.append_basic_block(n) for n in ("start", "head", "body", "done", "fail")
    )
    ir.IRBuilder(start).branch(head)
    builder = ir.IRBuilder(head)
    mine = builder.atomic_rmw("add", _slot(builder, slots, counter, I64), ir.Constant(I64, 1), "acq_rel")
    builder.cbranch(builder.icmp_signed("<", mine, count), body, done)
    builder = ir.IRBuilder(body)
    end = builder.sub(count, mine)  # from the last: in causal kernels and in those with two jobs it takes longest
    before = builder.sub(end, ir.Constant(I64, 1))
    lo, hi = (builder.sdiv(builder.mul(blocks, edge), count) for edge in (before, end))
    status = builder.call(entry, [lo, hi, slots])
    builder.cbranch(builder.icmp_signed("==", status, ir.Constant(I32, 0)), head, failed)
    ir.IRBuilder(done).ret(ir.Constant(I32, 0))
    ir.IRBuilder(failed).ret(status)


def _check_symbols(module):
    """Generated code may call the C library's memory and math functions, never Python."""
    for fn in module.functions:
        if fn.is_declaration and not fn.name.startswith("llvm.") and fn.name not in ALLOWED:
            raise RuntimeError(f"generated code calls {fn.name}")


def fuse_products(function):
    """x + a*b, a*b + x, x - a*b and a*b - x as one rounded operation, where the product has no other use.

    With products on both sides the right one is fused.
    """
    uses, swaps = {}, {}
    blocks = function.blocks
    for block in blocks:
        for inst in block.instructions:
            for operand in inst.operands:
                uses[id(operand)] = uses.get(id(operand), 0) + 1
    for block in blocks:
        products = {id(i) for i in block.instructions if getattr(i, "opname", "") == "fmul" and uses.get(id(i)) == 1}
        for inst in list(block.instructions):
            if getattr(inst, "opname", "") not in ("fadd", "fsub"):
                continue
            left, right = inst.operands
            builder = ir.IRBuilder(block)
            if id(right) in products:
                a, b = right.operands
                builder.position_before(inst)
                a = builder.fneg(a) if inst.opname == "fsub" else a
                swaps[id(inst)] = builder.fma(a, b, left)
            elif id(left) in products:
                a, b = left.operands
                builder.position_before(inst)
                right = builder.fneg(right) if inst.opname == "fsub" else right
                swaps[id(inst)] = builder.fma(a, b, right)
    if swaps:
        _replace(blocks, swaps)


def _replace(blocks, swaps):
    for block in blocks:
        block.instructions[:] = [i for i in block.instructions if id(i) not in swaps]
        for inst in block.instructions:
            for operand in list(inst.operands):
                if id(operand) in swaps:
                    inst.replace_usage(operand, swaps[id(operand)])
