"""Small tools over Python's syntax trees, and the names that generated code reserves."""

import ast
import copy

THREAD = ("_tx", "_ty", "_tz")
BLOCK = ("_bx", "_by", "_bz")
GRID = ("_gx", "_gy", "_gz")
IDS = THREAD + BLOCK + GRID

UNSUPPORTED = {  # statements that a kernel cannot hold, in words
    "Try": "try",
    "With": "with",
    "Raise": "raise",
    "Assert": "assert",
    "Delete": "del",
    "Global": "global",
    "Nonlocal": "nonlocal",
    "Import": "import",
    "ImportFrom": "import",
    "FunctionDef": "a function inside the kernel",
    "ClassDef": "a class",
    "Match": "match",
    "AsyncFor": "async",
}


def load(name):
    return ast.Name(name, ast.Load())


def store(name):
    return ast.Name(name, ast.Store())


def expr(text):
    """The tree of one expression."""
    return ast.parse(text, mode="eval").body


def stmt(text):
    """The tree of one statement."""
    return ast.parse(text).body[0]


def binop(left, op, right):
    return ast.BinOp(left, op, right)


def assign(name, value):
    return ast.Assign([store(name)], value)


def call(name, *args):
    return ast.Call(load(name), list(args), [])


def loop(name, args, body):
    return ast.For(store(name), call("range", *args), body or [ast.Pass()], [])


def branch(test, body, orelse=()):
    return ast.If(test, list(body) or [ast.Pass()], list(orelse))


def walk(nodes):
    """Every node below a node or a list of nodes."""
    for node in nodes if isinstance(nodes, list) else [nodes]:
        yield from ast.walk(node)


def names(nodes):
    """Every name that occurs below."""
    return {n.id for n in walk(nodes) if isinstance(n, ast.Name)}


def assigned(nodes):
    """Every name that is assigned below, loop variables included."""
    return {n.id for n in walk(nodes) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def has(nodes, *kinds):
    return any(isinstance(n, kinds) for n in walk(nodes))


def target_name(st):
    """The name that a plain assignment sets, else None."""
    if isinstance(st, ast.Assign) and isinstance(st.targets[0], ast.Name):
        return st.targets[0].id
    return None


def array_name(node):
    """The name of the array that a subscript reads or writes, else None."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return node.value.id
    return None


def indices(node):
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def range_args(st):
    """Start, stop and step of a for loop over a range."""
    args = st.iter.args
    if len(args) == 1:
        return [ast.Constant(0), args[0], ast.Constant(1)]
    return list(args) + [ast.Constant(1)] * (3 - len(args))


def is_marker(st, *kinds):
    """True for the barrier markers `_sync()` (a block's) and `_warp()` (a warp's)."""
    value = st.value if isinstance(st, ast.Expr) else None
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in kinds


def has_marker(st, *kinds):
    return any(is_marker(n, *kinds) for n in ast.walk(st) if isinstance(n, ast.Expr))


def own_jumps(body):
    """The break and continue statements that belong to the loop with this body."""
    for st in body:
        if isinstance(st, (ast.Break, ast.Continue)):
            yield st
        elif isinstance(st, ast.If):
            yield from own_jumps(st.body)
            yield from own_jumps(st.orelse)


def stores_memory(nodes, but=()):
    """True if something below writes into an array other than those named in `but`."""
    for n in walk(nodes):
        if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and array_name(n) not in but:
            return True
        if isinstance(n, ast.Expr):
            return True
    return False


def place(node, origin):
    """Give every node of a new tree the line of the statement it came from."""
    line = getattr(origin, "lineno", None) or 1
    for n in ast.walk(node):
        if isinstance(n, (ast.expr, ast.stmt)):
            n.lineno = n.end_lineno = line
            n.col_offset = n.end_col_offset = 0
    return node


class Substitute(ast.NodeTransformer):
    """Replace names by copies of other expressions, repeatedly."""

    def __init__(self, table):
        self.table = table

    def visit_Name(self, node):
        value = self.table(node.id)
        return node if value is None else self.visit(copy.deepcopy(value))


def substitute(tree, table):
    """A copy of `tree` in which table(name), where it is not None, stands for the name."""
    return Substitute(table).visit(copy.deepcopy(tree))
