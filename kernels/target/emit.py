"""From block-level items to one Python function that runs the blocks `_lo` to `_hi` of a grid."""

import ast
import copy

from .bounds import split_guards
from .lower import Barrier, Choice, Region, Rows, Strided, Uniform
from .rows import group_rows
from .syntax import (
    BLOCK,
    GRID,
    THREAD,
    assign,
    branch,
    call,
    expr,
    indices,
    load,
    loop,
    names,
    place,
    range_args,
    store,
    target_name,
    walk,
)

LANE = "_t"


class Emitter:
    """Writes the function; `spilled` are the names kept in arrays with an element for each thread."""

    def __init__(self, program, facts, spilled, types):
        self.program, self.facts, self.spilled, self.types = program, facts, spilled, types
        self.counter = 0
        self.rows = False
        self.dropped = set()  # guards that hold for every thread in the rounds being written

    # ---- the function around the blocks
    def function(self, items):
        p = self.program
        head = [
            assign(name, call(f"_stack_{name}"))
            for name in [*p.shared, *p.local, *(n + "__a" for n in sorted(self.spilled))]
        ]
        views = []
        params = ["_lo", "_hi", *GRID]
        for name in p.params:
            ndim = self.types.ndim(name)
            if ndim is None:
                params.append(name)
                continue
            dims = [f"{name}__{k}" for k in range(ndim)]
            params += [f"{name}__p", *dims]
            views.append(
                assign(name, call("_view", load(f"{name}__p"), ast.Tuple([load(d) for d in dims], ast.Load())))
            )
        first = [
            assign(BLOCK[0], expr("_lo % _gx")),
            assign(BLOCK[1], expr("_lo // _gx % _gy")),
            assign(BLOCK[2], expr("_lo // (_gx * _gy)")),
        ]
        blocks = loop("_b", [load("_lo"), load("_hi")], self.items(items) + next_block())
        body = [*head, *views, *first, blocks]
        args = ast.arguments([], [ast.arg(n) for n in params], None, [], [], None, [])
        fn = ast.FunctionDef(p.name, args, body, [], type_params=[])
        fn.lineno = fn.end_lineno = p.source.tree.lineno
        fn.col_offset = fn.end_col_offset = 0
        return ast.fix_missing_locations(fn)

    def items(self, items):
        if self.program.block[1] * self.program.block[2] > 1 and not self.rows:
            items = group_rows(items, self.facts)
        out = []
        for item in items:
            out += self.item(item)
        return out

    def item(self, item):
        if isinstance(item, Barrier):
            return []
        if isinstance(item, Region):
            return self.region(item)
        if isinstance(item, Choice):
            return self.choice(item)
        if isinstance(item, Uniform):
            return [self.rewrite(item.st)]
        if isinstance(item, Rows):
            self.rows = True
            body = self.items(item.body)
            self.rows = False
            return self.row_loops(body)
        if isinstance(item, Strided):
            return self.strided(item)
        return [self.nest(item)]

    def nest(self, item):
        st, body = item.st, self.items(item.body) or [ast.Pass()]
        if isinstance(st, ast.For):
            new = ast.For(store(st.target.id), self.rewrite(st.iter), body, [])
        elif isinstance(st, ast.While):
            new = ast.While(self.rewrite(st.test), body, [])
        else:
            new = ast.If(self.rewrite(st.test), body, self.items(item.orelse))
        return ast.copy_location(new, st)

    # ---- loops over threads
    def row_loops(self, body):
        for k in (1, 2):
            if self.program.block[k] > 1:
                body = [loop(THREAD[k], [ast.Constant(self.program.block[k])], body)]
        return body

    def around(self, out):
        """The loops over the rows of a block, unless something outside provides them."""
        return out if self.rows else self.row_loops(out)

    def lane_loops(self, body, before=(), lo=None, hi=None, tests=()):
        """The loop over threads around `body`; `before` and `tests` stand just outside the loop over threadIdx.x."""
        args = [lo or ast.Constant(0), hi or ast.Constant(self.program.block[0])]
        out = [*before, loop(THREAD[0], args, body)]
        for test in reversed(tests):
            out = [branch(test, out)]
        return self.around(out)

    # ---- for j in range(start of the thread, stop, step): one counter for all
    def strided(self, item):
        start, stop, step = range_args(item.st)
        m = item.counter
        lo, hi = f"_from{m}", f"_to{m}"
        first, last = self.facts.expand(start), self.facts.expand(stop)
        out = []
        least = self.facts.expand(first, THREAD) if monotone(first, self.facts) else None
        steady = not self.facts.var(last)
        if least is not None:
            out.append(assign(lo, least))
        if steady:
            out.append(assign(hi, last))
        inner = []
        if least is None:
            out.append(assign(lo, self.facts.expand(first, THREAD)))
            inner.append(assign(lo, call("_min", load(lo), first)))
        if not steady:
            out.append(assign(hi, load(lo)))
            inner.append(assign(hi, call("_max", load(hi), last)))
        if inner:
            out += self.lane_loops(inner)
        begin = ast.Constant(0)
        if steady and least is not None and self.contiguous(first):
            # The rounds in which no thread has gone beyond the end: no condition, and as many threads in each.
            full, step_ = f"_full{m}", self.rewrite(step)
            spare = self.program.block[0] - 1
            out.append(assign(full, _whole(hi, lo, spare, step_)))
            self.dropped.add(id(item.inside))
            out.append(self.rounds(item, lo, [begin, load(full), step_]))
            self.dropped.discard(id(item.inside))
            begin = load(full)
        span = ast.BinOp(load(hi), ast.Sub(), load(lo))
        out.append(self.rounds(item, lo, [begin, span, self.rewrite(step)]))
        return [place(n, item.st) if not isinstance(n, ast.For) else ast.copy_location(n, item.st) for n in out]

    # ---- two arms, each with its threads
    def choice(self, item):
        tests, lower, upper, inner = split_guards([item.st.test], self.facts, self.types)
        if inner or (lower and upper):
            return self.region(item.body[0])
        first, last = ast.Constant(0), ast.Constant(self.program.block[0])
        self.counter += 1
        edge = f"_e{self.counter}"
        if lower:
            nobody, bound = last, _fold("_min", _fold("_max", first, lower), [last])
        else:
            nobody, bound = first, _fold("_max", _fold("_min", last, upper), [first])
        out = [assign(edge, nobody)]
        find = [assign(edge, bound)]
        for test in reversed(tests):
            find = [branch(test, find)]
        out += find
        spans = [(load(edge), last), (first, load(edge))] if lower else [(first, load(edge)), (load(edge), last)]
        for arm, span in zip((item.st.body, item.st.orelse), spans, strict=True):
            if arm:
                inside = self.settled(arm)
                statements = self.statements(arm, inside)
                out.append(loop(THREAD[0], list(span), [*self.cheap_values(statements, inside), *statements]))
        return self.around(out)

    def contiguous(self, start):
        """True if a loop's start is threadIdx.x and something that is the same for all threads."""
        return self.facts.coefficient(start, THREAD[0]) == 1 and not names(start) & set(THREAD[1:])

    def rounds(self, item, lo, args):
        body = self.items(item.body)
        if item.st.target.id not in self.facts.cheap:
            body = [assign(item.st.target.id, ast.BinOp(load(lo), ast.Add(), load(item.counter))), *body]
        return loop(item.counter, args, body)

    # ---- regions
    def region(self, item):
        body, guards = item.body, [g for g in item.guards if id(g) not in self.dropped]
        while len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
            guards.append(body[0].test)
            body = body[0].body
        tests, lower, upper, inner = split_guards(guards, self.facts, self.types)
        before, lo, hi = [], None, None
        if lower or upper:
            self.counter += 1
            lo, hi = f"_l{self.counter}", f"_h{self.counter}"
            first, last = ast.Constant(0), ast.Constant(self.program.block[0])
            before.append(assign(lo, _fold("_max", first, lower)))
            before.append(assign(hi, _fold("_min", last, upper)))
            lo, hi = load(lo), load(hi)
        inside = self.settled(body)
        statements = self.statements(body, inside)
        if inner:
            test = inner[0] if len(inner) == 1 else ast.BoolOp(ast.And(), inner)
            statements = [branch(self.rewrite(test), statements)]
        lane = self.cheap_values(statements, inside)
        return self.lane_loops([*lane, *statements], before, lo, hi, tests)

    def settled(self, body):
        """Cheap names that must be computed in place: they follow a loop inside the region."""
        facts = self.facts
        moving = {n.target.id for n in walk(body) if isinstance(n, ast.For)}
        found = set()
        for name in [n for n in facts.cheap if n in facts.defs] if moving else ():
            if names(facts.expand(load(name))) & moving:
                found.add(name)
        return found

    def cheap_values(self, statements, inside):
        """The definitions of the cheap names that the statements need, in order, and the thread's number."""
        facts, need = self.facts, []
        seen = set(inside)

        def visit(name):
            if name in seen or name not in facts.cheap or name not in facts.defs:
                return
            seen.add(name)
            for other in sorted(names(facts.defs[name])):
                visit(other)
            need.append(assign(name, copy.deepcopy(facts.defs[name])))

        used = names(statements)
        for name in sorted(used):
            visit(name)
        if LANE in used:
            need.insert(0, assign(LANE, call("_u", expr(self.program.lane_text()))))
        return need

    def statements(self, body, inside):
        out = []
        for st in body:
            if isinstance(st, ast.If):
                arms = self.statements(st.body, inside), self.statements(st.orelse, inside)
                new = branch(self.rewrite(st.test), *arms)
            elif isinstance(st, ast.While):
                new = ast.While(self.rewrite(st.test), self.statements(st.body, inside) or [ast.Pass()], [])
            elif isinstance(st, ast.For):
                new = self.inner_loop(st, self.statements(st.body, inside))
            elif target_name(st) in self.facts.cheap and target_name(st) not in inside:
                continue
            else:
                new = self.rewrite(st)
            out.append(ast.copy_location(new, st))
        return out

    def inner_loop(self, st, body):
        """A loop that each thread runs by itself; its variable may be one that is kept for every thread."""
        if st.target.id not in self.spilled:
            return ast.For(store(st.target.id), self.rewrite(st.iter), body or [ast.Pass()], [])
        keep = self.rewrite(place(assign(st.target.id, load("_i")), st))
        return ast.For(store("_i"), self.rewrite(st.iter), [keep, *body], [])

    def rewrite(self, tree):
        return _Rewrite(self).visit(copy.deepcopy(tree))


class _Rewrite(ast.NodeTransformer):
    """Reads and writes of arrays: unsigned indices, an element of its own for each thread."""

    def __init__(self, emitter):
        self.spilled, self.local = emitter.spilled, emitter.program.local

    def visit_Name(self, node):
        if node.id in self.spilled:
            return ast.Subscript(load(node.id + "__a"), load(LANE), node.ctx)
        if node.id in self.local:
            axes = [ast.Slice() for _ in self.local[node.id].shape]
            return ast.Subscript(node, ast.Tuple([*axes, load(LANE)], ast.Load()), ast.Load())
        return node

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id == "_lane":
            return ast.Subscript(load(node.args[0].id + "__a"), self.index(node.args[1]), ast.Load())
        return self.generic_visit(node)

    def index(self, node):
        node = self.visit(node)
        if isinstance(node, (ast.Slice, ast.Constant, ast.UnaryOp)):
            return node
        return call("_u", node)

    def visit_Subscript(self, node):
        ix = [self.index(i) for i in indices(node)]
        if isinstance(node.value, ast.Name) and node.value.id in self.local:
            ix.append(load(LANE))
            value = node.value
        elif isinstance(node.value, ast.Attribute):
            return ast.Subscript(self.visit(node.value), indices(node)[0], node.ctx)
        else:
            value = self.visit(node.value)
        return ast.Subscript(value, ix[0] if len(ix) == 1 else ast.Tuple(ix, ast.Load()), node.ctx)


def next_block():
    """Statements that go on to the next block of the grid: counting is cheaper than dividing."""
    x, y, z = BLOCK
    return ast.parse(
        f"{x} += 1\nif {x} == {GRID[0]}:\n {x} = 0\n {y} += 1\n if {y} == {GRID[1]}:\n  {y} = 0\n  {z} += 1"
    ).body


def _whole(hi, lo, spare, step):
    """Where the rounds end in which `lo` plus the counter plus `spare` stays below `hi`: a multiple of the step."""
    step = ast.unparse(step)
    return expr(f"_max(0, ({hi} - {lo} - {spare} + {step} - 1) // ({step}) * ({step}))")


def _fold(function, first, others):
    for other in others:
        first = call(function, first, other)
    return first


def monotone(tree, facts):
    """True if an expression is least at thread 0 along every axis."""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
        return monotone(tree.left, facts) and monotone(tree.right, facts)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult) and isinstance(tree.right, ast.Constant):
        return tree.right.value >= 0 and monotone(tree.left, facts)
    return (isinstance(tree, ast.Name) and tree.id in THREAD) or not facts.var(tree)
