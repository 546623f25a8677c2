"""Numba's own type inference over one thread's body: the types of all variables, and where float64 comes in."""

import ast
import copy
import re

from numba.core import compiler, errors, ir, types
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import (
    FindLiterallyCalls,
    FixupArgs,
    GenericRewrites,
    InlineInlinables,
    IRProcessing,
    RewriteSemanticConstants,
    TranslateByteCode,
)

from . import intrinsics
from .errors import KernelRefused
from .syntax import IDS, assign, call, is_marker


@register_pass(mutates_CFG=False, analysis_only=True)
class _Keep(FunctionPass):
    """Ends a compilation that only wants types."""

    _name = "kernels_keep_types"

    def __init__(self):
        FunctionPass.__init__(self)

    def run_pass(self, state):
        state.cr = (state.typemap, state.func_ir)
        return False


def seal(argtypes, readonly):
    """The argument types with the arrays at the positions `readonly` closed to writing."""
    return tuple(ty.copy(readonly=True) if k in readonly else ty for k, ty in enumerate(argtypes))


def add_untyped(manager):
    """The passes from bytecode to an untyped program that generated code needs."""
    for step in (
        TranslateByteCode,
        FixupArgs,
        IRProcessing,
        RewriteSemanticConstants,
        GenericRewrites,
        InlineInlinables,
        FindLiterallyCalls,
    ):
        manager.add_pass(step, step.__name__)


class _TypesOnly(compiler.CompilerBase):
    def define_pipelines(self):
        manager = PassManager("kernels types")
        add_untyped(manager)
        manager.add_pass(NopythonTypeInference, "types")
        manager.add_pass(_Keep, "keep")
        manager.finalize()
        return [manager]


class Types:
    """The Numba types of a Program's variables for given argument types."""

    def __init__(self, program, argtypes):
        self.program = program
        self.argtypes = dict(zip(program.params, argtypes, strict=True))
        self.table, self.wide = _infer(program, argtypes)

    def ndim(self, name):
        """Number of dimensions of an array parameter, None for a scalar."""
        ty = self.argtypes[name]
        return ty.ndim if isinstance(ty, types.Array) else None

    def of(self, name):
        return self.table.get(name)

    def is_integer(self, name):
        if name in IDS or name.startswith(("_m", "_from", "_to")):
            return True
        if name in self.program.constants:
            return type(self.program.constants[name]) is int
        return isinstance(self.table.get(name), types.Integer)

    def dtype(self, name):
        """The element type for an array that keeps a variable of every thread."""
        if name.startswith("_c"):
            return types.boolean
        ty = self.table.get(name)
        if not isinstance(ty, (types.Number, types.Boolean)):
            kind = "a view of an array" if isinstance(ty, types.Array) else f"a {ty}"
            self.program.refuse(
                self.program.source.tree,
                f"'{name.lstrip('_')}' is {kind} that lives across a barrier or a loop; index the array itself",
            )
        return ty


def _infer(program, argtypes):
    fn = _thread_function(program)
    flags = compiler.Flags()
    flags.enable_ssa = False
    flags.error_model = "numpy"
    typing, target = intrinsics.contexts()
    args = tuple(argtypes) + (types.int64,) * len(IDS)
    with translated(program):
        typemap, func_ir = compiler.compile_extra(
            typing, target, fn, args, types.none, flags, {}, pipeline_class=_TypesOnly
        )
    table = {name: types.unliteral(ty) for name, ty in typemap.items() if not name.startswith(("$", "arg."))}
    return table, _wide(func_ir, typemap)


def _thread_function(program):
    """One thread's body as a Python function: arrays made at the top, barriers left out."""

    class Strip(ast.NodeTransformer):
        def visit_Expr(self, node):
            return ast.Pass() if is_marker(node, "_sync", "_warp") else node

    arrays = [assign(name, call(f"_stack_{name}")) for name in [*program.shared, *program.local]]
    body = arrays + [Strip().visit(copy.deepcopy(st)) for st in program.body]
    body.append(ast.Return(None))
    args = ast.arguments([], [ast.arg(n) for n in [*program.params, *IDS]], None, [], [], None, [])
    fn = ast.FunctionDef(program.name, args, body, [], type_params=[])
    fn.lineno = fn.end_lineno = program.source.tree.lineno
    fn.col_offset = fn.end_col_offset = 0
    return build(fn, program, intrinsics.namespace(program, stacks=None))


def build(tree, program, namespace):
    """Make a Python function of a tree, its lines those of the kernel's own file."""
    module = ast.fix_missing_locations(ast.Module([tree], []))
    exec(compile(module, program.source.file, "exec"), namespace)
    return namespace[program.name]


def _wide(func_ir, typemap):
    """Where a float64 is computed, constants apart: (file, line, what), in order."""
    found, fixed = set(), set()
    for _, block in sorted(func_ir.blocks.items()):
        for inst in block.body:
            if not isinstance(inst, ir.Assign):
                continue
            if _is_fixed(inst.value, fixed) and _inner_name(inst.target.name) is None:
                fixed.add(inst.target.name)
            elif typemap.get(inst.target.name) == types.float64:
                name = _inner_name(inst.target.name)
                kind = "argument " if isinstance(inst.value, ir.Arg) else ""
                what = "an expression" if name is None else f"{kind}'{name}'"
                if name is not None or not isinstance(inst.value, ir.Var):
                    found.add((inst.loc.filename, inst.loc.line, what))
    named = {place[:2] for place in found if place[2] != "an expression"}
    return sorted(f for f in found if f[2] != "an expression" or f[:2] not in named)


def _is_fixed(value, fixed):
    """True for a constant, and for a sum or the like of constants."""
    if isinstance(value, (ir.Const, ir.Global, ir.FreeVar)):
        return True
    return (
        isinstance(value, ir.Expr)
        and value.op in ("getattr", "unary", "binop")
        and all(v.name in fixed for v in value.list_vars())
    )


def _inner_name(name):
    """A variable as its function calls it, None for Numba's temporaries; inlining adds `<function>_v<number>__`."""
    name = re.sub(r"^.*_v\d+__", "", name)
    return None if name.startswith("$") or re.match(r"v(const)?\d", name) else re.sub(r"_\d+$", "", name)


class translated:
    """Turns Numba's typing errors into one line about the kernel."""

    def __init__(self, program):
        self.program = program

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None or not isinstance(error, errors.NumbaError):
            return False
        source = self.program.source
        line, own = locate(error, source)
        text = explain(error) if own else WHOLE
        raise KernelRefused(f"{source.where(line)}: kernel {self.program.name}: {text}") from None


WHOLE = "an operation on whole arrays, or another one that kernels do not have; index the elements"


def locate(error, source):
    """(line of the kernel where a Numba error arose, whether it arose there and not inside Numba's own functions)."""
    loc = getattr(error, "loc", None)
    if loc is not None and loc.filename == source.file:
        return loc.line, True
    lines = re.findall(re.escape(source.file) + r'"?,? (?:line )?\(?(\d+)', str(error))
    return int(lines[-1]) if lines else source.first, False


def explain(error):
    """The gist of a Numba error in one line."""
    text = str(error)
    lines = [x.strip() for x in text.replace("[1m", "").replace("[0m", "").splitlines()]
    lines = [x for x in lines if x and not x.startswith(("File ", "During:", "<source", "Failed in"))]
    for line in lines:
        if "No conversion from" in line or "Cannot unify" in line or "undefined" in line:
            return line
    for line in lines:
        if line.startswith(">>> "):
            return f"no such operation on these types: {line[4:]}"
    return re.sub(r" at 0x[0-9a-f]+", "", lines[0]) if lines else "it cannot be typed"
