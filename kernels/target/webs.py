"""One name, one meaning: variables that are reused for unrelated values get a name for each.

Two assignments belong together when some read can see either of them. `s = 64 ... s = x[i] ...` becomes `s` and
`s_1`, so that each has its own type and its own place, and a loop counter used twice does not tie two loops together.
"""

import ast

from .syntax import assign, assigned, load, place


def split_webs(program):
    """Rename the variables of a Program in place."""
    touched = assigned(program.body)
    for name in reversed([p for p in program.params if p in touched]):
        program.body.insert(0, place(assign(name, load(name)), program.source.tree))
    _Webs(program).rename()


class _Webs:
    def __init__(self, program):
        self.program = program
        self.parent = []
        self.defs = {}
        self.nodes = []
        self.uses = {}
        state = {p: frozenset([self.define(None, p)]) for p in program.params}
        self.block(program.body, state, None)

    # ---- union-find over definitions
    def define(self, node, name):
        if node is not None and id(node) in self.defs:
            return self.defs[id(node)]
        number = len(self.parent)
        self.parent.append(number)
        self.nodes.append((node, name))
        if node is not None:
            self.defs[id(node)] = number
        return number

    def root(self, a):
        while self.parent[a] != a:
            self.parent[a] = self.parent[self.parent[a]]
            a = self.parent[a]
        return a

    def use(self, tree, state):
        for n in ast.walk(tree):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and state.get(n.id):
                first, *rest = sorted(state[n.id])
                self.uses[id(n)] = (n, first)
                for other in rest:
                    a, b = self.root(first), self.root(other)
                    self.parent[max(a, b)] = min(a, b)

    # ---- reaching definitions; a state of None means that control cannot come here
    def block(self, body, state, jumps):
        for st in body:
            if state is None:
                return None
            state = self.statement(st, dict(state), jumps)
        return state

    def statement(self, st, state, jumps):
        if isinstance(st, ast.Assign):
            self.use(st, state)
            if isinstance(st.targets[0], ast.Name):
                name = st.targets[0]
                state[name.id] = frozenset([self.define(name, name.id)])
        elif isinstance(st, ast.If):
            self.use(st.test, state)
            state = _join(self.block(st.body, state, jumps), self.block(st.orelse, state, jumps))
        elif isinstance(st, (ast.For, ast.While)):
            state = self.loop(st, state)
        elif isinstance(st, ast.Break):
            jumps[0].append(state)
            return None
        elif isinstance(st, ast.Continue):
            jumps[1].append(state)
            return None
        else:
            self.use(st, state)
        return state

    def loop(self, st, entry):
        if isinstance(st, ast.For):
            self.use(st.iter, entry)
        head = entry
        while True:
            jumps = ([], [])
            inside = dict(head)
            if isinstance(st, ast.For):
                inside[st.target.id] = frozenset([self.define(st.target, st.target.id)])
            else:
                self.use(st.test, inside)
            end = self.block(st.body, inside, jumps)
            new = entry
            for other in [end, *jumps[1]]:
                new = _join(new, other)
            if new == head:
                break
            head = new
        for other in jumps[0]:
            head = _join(head, other)
        return head

    # ---- names
    def rename(self):
        taken = {name for _, name in self.nodes} | set(self.program.shared) | set(self.program.local)
        taken |= set(self.program.constants) | set(self.program.devices)
        chosen, used = {}, set(self.program.params)
        for number, (node, name) in enumerate(self.nodes):
            root = self.root(number)
            if root in chosen:
                continue
            new = name
            if node is not None and name in used:
                k = 1
                while f"{name}_{k}" in taken:
                    k += 1
                new = f"{name}_{k}"
            used.add(new)
            taken.add(new)
            chosen[root] = new
        for number, (node, _) in enumerate(self.nodes):
            if node is not None:
                if node.id in self.program.lane_temps:
                    self.program.lane_temps.add(chosen[self.root(number)])
                node.id = chosen[self.root(number)]
        for node, number in self.uses.values():
            node.id = chosen[self.root(number)]


def _join(a, b):
    if a is None:
        return b
    if b is None:
        return a
    return {k: a.get(k, frozenset()) | b.get(k, frozenset()) for k in a.keys() | b.keys()}
