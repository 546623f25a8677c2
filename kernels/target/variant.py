"""One compiled form of a kernel: for a block shape, argument types and the outside values it uses."""

import ast
import json
from dataclasses import dataclass

from numba.np.numpy_support import from_dtype

from . import cache
from .syntax import array_name, range_args


@dataclass(frozen=True)
class Variant:
    """A loaded kernel. `entry` runs a range of blocks; `share` takes ranges until none is left.

    `serial`: the blocks run in order; `weight`: rough number of operations of one thread.
    """

    entry: object
    share: object
    serial: bool
    weight: int


def get(source, block, argtypes, readonly, distinct):
    """Load a variant from the cache, or compile it and store it."""
    from . import loader

    digest = cache.digest(source, block, argtypes, readonly, distinct)
    symbol = "k_" + digest[:32]
    found = cache.read(digest)
    if found is None:
        meta, code = make(source, block, argtypes, readonly, distinct, symbol)
        cache.counts.compiled += 1
        cache.write(digest, json.dumps(meta).encode(), code)
    else:
        meta, code = json.loads(found[0]), found[1]
        cache.counts.loaded += 1
    return Variant(*loader.load(code, symbol), meta["serial"], meta["weight"])


def transform(source, block, argtypes, readonly=()):
    """The Program of a kernel, its generated function as a tree, and the arrays that tree declares."""
    from . import emit, infer, lower, normal

    program = normal.normalise(source, block)
    types = infer.Types(program, infer.seal(argtypes, readonly))
    items, facts = lower.lower(program)
    kept = lower.spilled(program, items, facts)
    tree = emit.Emitter(program, facts, kept, types).function(items)
    stacks = {n: (a.shape, from_dtype(a.dtype)) for n, a in program.shared.items()}
    stacks |= {n: ((*a.shape, program.threads), from_dtype(a.dtype)) for n, a in program.local.items()}
    stacks |= {f"{n}__a": ((program.threads,), types.dtype(n)) for n in kept}
    program.check_stack(stacks)
    return program, tree, stacks


def make(source, block, argtypes, readonly, distinct, symbol):
    """Compile a variant: (what to remember of it, object code)."""
    from . import codegen, infer, intrinsics

    program, tree, stacks = transform(source, block, argtypes, readonly)
    fn = infer.build(tree, program, intrinsics.namespace(program, stacks))
    with infer.translated(program):
        module = codegen.compile_module(fn, argtypes, distinct, symbol)
    return {"serial": program.serial, "weight": weigh(program.body, program.constants)}, codegen.emit_object(module)


def generated(source, block, argtypes):
    """The generated function as Python text."""
    return ast.unparse(transform(source, block, argtypes)[1])


def weigh(body, constants):
    """A rough count of the operations of one thread; loops of unknown length count 32 times."""
    total = 0
    for st in body:
        inner = [getattr(st, "body", []), getattr(st, "orelse", [])] if not isinstance(st, ast.Assign) else []
        own = sum(isinstance(n, (ast.BinOp, ast.Call)) or array_name(n) is not None for n in _heads(st))
        inside = sum(weigh(b, constants) for b in inner)
        times = 1
        if isinstance(st, ast.For):
            values = _trips(st, constants)
            times = 32 if values is None else len(values)
        elif isinstance(st, ast.While):
            times = 8
        total += own + times * inside
    return max(1, total)


def _heads(st):
    if isinstance(st, (ast.If, ast.While)):
        return ast.walk(st.test)
    return ast.walk(st.iter if isinstance(st, ast.For) else st)


def _trips(st, constants):
    """The values a for loop runs through, if its range is written in constants, else None."""
    values = []
    for arg in range_args(st):
        value = constants.get(arg.id) if isinstance(arg, ast.Name) else getattr(arg, "value", None)
        if type(value) is not int:
            return None
        values.append(value)
    return range(*values) if values[2] else None
