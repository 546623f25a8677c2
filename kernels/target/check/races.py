"""Races: two threads, one address, at least one write, and no barrier between them.

Inside a block the question is asked of the accesses between two barriers; threads of one warp are also kept apart by
syncwarp. Between blocks it is asked once, of the whole run: only a fence followed by an atomic on an address, and an
atomic on that address by the other block, put two blocks in order. Atomics among themselves are no race.
"""

import numpy as np

from .arith import array

MOST = 3_000_000  # accesses kept before they are thinned out
READ, WRITE, ATOMIC = 0, 1, 2
KINDS = {"read": READ, "write": WRITE, "atomic": ATOMIC}


class Access:
    """One access of some lanes: element offsets (one or one a lane), what was written, when."""

    __slots__ = ("epoch", "m", "off", "site", "step", "values")

    def __init__(self, site, off, m, step, g, values):
        self.site, self.off, self.m, self.step, self.epoch, self.values = site, off, m, step, g.epoch, values

    def columns(self, valued):
        n = self.m.n
        lane = self.m.idx
        off = self.off if type(self.off) is array else np.full(n, self.off)
        bits = _bits(self.values, n) if valued else None
        one = np.full(n, self.site.number)
        return off, lane, one, np.full(n, self.step), self.epoch[lane], bits


class Table:
    """Accesses as columns: offset, lane, number of the site, step, epoch of the warp, bits written."""

    __slots__ = ("bits", "epoch", "lane", "off", "site", "step")

    def __init__(self, off, lane, site, step, epoch, bits=None):
        self.off, self.lane, self.site, self.step, self.epoch, self.bits = off, lane, site, step, epoch, bits

    def columns(self, valued):
        bits = self.bits if self.bits is not None or not valued else np.zeros(len(self.off), np.uint64)
        return self.off, self.lane, self.site, self.step, self.epoch, bits

    def take(self, chosen):
        return Table(*(None if c is None else c[chosen] for c in self.columns(False)[:5]), _take(self.bits, chosen))


def _take(column, chosen):
    return None if column is None else column[chosen]


def _bits(values, n):
    """What was written, as whole numbers that are equal if and only if the bits are."""
    if values is None:
        return np.zeros(n, np.uint64)
    v = np.ascontiguousarray(np.broadcast_to(values, (n,)))
    return v.view(f"u{v.dtype.itemsize}").astype(np.uint64)


def table(log, valued=False):
    parts = [a.columns(valued) for a in log]
    if len(parts) == 1:
        return Table(*parts[0])
    columns = list(zip(*parts, strict=True))
    return Table(*(np.concatenate(c) for c in columns[:5]), np.concatenate(columns[5]) if valued else None)


def squash(buffer):
    """Thin out a long log: of the same thing done again by the same thread, once is enough."""
    if len(buffer.log) < 2:
        return
    t = table(buffer.log, True)
    keys = np.lexsort((t.epoch, t.site, t.lane, t.off))
    same = np.ones(len(keys), bool)
    for c in (t.epoch, t.site, t.lane, t.off):
        c = c[keys]
        same[1:] &= c[1:] == c[:-1]
    same[0] = False
    buffer.log = [t.take(np.sort(keys[~same]))]


def interval(mc, buffer, blocks):
    """Look at the accesses of a buffer since the last barrier of the blocks that `blocks` marks (None: all)."""
    log, buffer.log = buffer.log, []
    if blocks is not None and not blocks.all():
        t = table(log, True)
        ours = blocks[t.lane // mc.threads]
        if not ours.all():
            buffer.log = [t.take(~ours)]
            t = t.take(ours)
        log = [t]
    sites = mc.family.sites
    quiet = all(type(a) is Access and a.site.kind == "read" for a in log)
    if not quiet:
        found = _several(buffer, log, sites)
        if found is not None:
            _inside(mc, buffer, log, found)
    if buffer.space == "global" and mc.launch.blocks > 1:
        _keep_far(mc, buffer, log)


def _several(buffer, log, sites):
    """The elements that several threads touch, one of them to write: a boolean for each, None if there is none."""
    t = table(log)
    owner = np.empty(buffer.size, np.int64)
    owner[t.off] = t.lane
    shared = owner[t.off] != t.lane
    if not shared.any():
        return None
    kind = kinds(sites)[t.site]
    return _contested(buffer.size, t.off, t.off[shared], kind)


def _contested(size, off, candidates, kind):
    hot, flag = np.zeros(size, bool), np.zeros(size, bool)
    hot[candidates] = True
    flag[off[kind != READ]] = True
    hot &= flag
    flag[:] = False
    flag[off[kind != ATOMIC]] = True
    hot &= flag
    return hot if hot.any() else None


def kinds(sites):
    return np.array([KINDS[s.kind] for s in sites], np.int64)


def _inside(mc, buffer, log, hot):
    """Races among the threads of a block."""
    t = table(log, True)
    t = t.take(hot[t.off])
    block = t.lane // mc.threads
    place = t.off + block * buffer.size if buffer.space == "global" else t.off
    if (t.epoch == t.epoch[0]).all():
        views = [(place, t.lane)]
    else:
        warp = (t.lane % mc.threads) // 32 + block * 32
        top = int(t.epoch.max()) + 1
        views = [(place, warp), ((place * 32 + warp % 32) * top + t.epoch, t.lane)]
    for where, owner in views:
        for pair in conflicts(where, owner, t.site, mc.family.sites):
            mc.findings.add(mc, buffer, t, pair)


def conflicts(place, owner, site, sites):
    """(site a, site b, entries, entries) of every pair of sites at which two owners meet, one entry a place."""
    order = np.lexsort((owner, site, place))
    p, s, o = place[order], site[order], owner[order]
    new = np.ones(len(order), bool)
    new[1:] = (p[1:] != p[:-1]) | (s[1:] != s[:-1])
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(order)) - 1
    gp, gs = p[first], s[first]
    lo, hi, lo_at, hi_at = o[first], o[last], order[first], order[last]
    present = np.unique(gs).tolist()
    for i, a in enumerate(present):
        for b in present[i:]:
            ka, kb = sites[a].kind, sites[b].kind
            if ka == kb == "read" or ka == kb == "atomic":
                continue
            if a == b:
                hit = np.flatnonzero(gs == a)
                hit = hit[lo[hit] != hi[hit]]
                if len(hit):
                    yield a, b, lo_at[hit], hi_at[hit]
                continue
            ia, ib = np.flatnonzero(gs == a), np.flatnonzero(gs == b)
            _, xa, xb = np.intersect1d(gp[ia], gp[ib], assume_unique=True, return_indices=True)
            ia, ib = ia[xa], ib[xb]
            apart = ~((lo[ia] == hi[ia]) & (lo[ib] == hi[ib]) & (lo[ia] == lo[ib]))
            ia, ib = ia[apart], ib[apart]
            if len(ia):
                ea, eb = lo_at[ia], np.where(hi[ib] != lo[ia], hi_at[ib], lo_at[ib])
                both = (hi[ib] == lo[ia]) & (lo[ib] == lo[ia])
                yield a, b, np.where(both, hi_at[ia], ea), eb


# ---- between blocks --------------------------------------------------------------------------------------------------
def _keep_far(mc, buffer, log):
    """Remember the accesses of these blocks for the end of the run."""
    t = table(log, True)
    t.lane = mc.numbers[t.lane // mc.threads] * mc.threads + t.lane % mc.threads
    buffer.far.append(t)
    if sum(len(x.off) for x in buffer.far) > MOST:
        log, buffer.log = buffer.log, buffer.far
        squash(buffer)
        buffer.log, buffer.far = log, buffer.log


def across_blocks(mc):
    """Races between blocks, over the whole run."""
    if mc.launch.blocks < 2:
        return
    for buffer in mc.buffers:
        if not buffer.far:
            continue
        t = table(buffer.far, True)
        buffer.far = []
        kind = kinds(mc.family.sites)[t.site]
        if (kind == READ).all():
            continue
        block = t.lane // mc.threads
        owner = np.empty(buffer.size, np.int64)
        owner[t.off] = block
        shared = owner[t.off] != block
        hot = _contested(buffer.size, t.off, t.off[shared], kind) if shared.any() else None
        if hot is None:
            continue
        chosen = hot[t.off]
        t, block = t.take(chosen), block[chosen]
        pairs = conflicts(t.off, block, t.site, mc.family.sites)
        if mc.order.used:
            pairs = _unordered(mc, t, block)
        for pair in pairs:
            mc.findings.add(mc, buffer, t, pair, far=True)


def _unordered(mc, t, block):
    """As conflicts, for the pairs that no fence and atomic put in order."""
    sites, order = mc.family.sites, np.argsort(t.off, kind="stable")
    cuts = np.flatnonzero(np.diff(t.off[order])) + 1
    found = {}
    for group in np.split(order, cuts):
        seen = set()
        entries = group.tolist()
        for i, x in enumerate(entries):
            for y in entries[i + 1 :]:
                a, b = (x, y) if t.site[x] <= t.site[y] else (y, x)
                pair = (int(t.site[a]), int(t.site[b]))
                if block[x] == block[y] or pair in seen:
                    continue
                ka, kb = sites[pair[0]].kind, sites[pair[1]].kind
                if ka == kb == "read" or ka == kb == "atomic":
                    continue
                if not mc.order.ordered(t, x, y):
                    seen.add(pair)
                    found.setdefault(pair, ([], []))
                    found[pair][0].append(a)
                    found[pair][1].append(b)
    for (a, b), (x, y) in sorted(found.items()):
        yield a, b, np.array(x), np.array(y)


class BlockOrder:
    """What fences and atomics promise between blocks.

    A fence makes earlier writes of its thread visible, and those of its block from before its last barrier. An atomic
    after it publishes them at an address; an atomic of another block on that address takes them over.
    """

    def __init__(self, threads):
        self.threads, self.used = threads, False
        self.fences, self.starts, self.published, self.known = {}, {}, {}, {}

    def interval(self, numbers, step):
        """A barrier of these blocks."""
        if self.used:
            for b in numbers:
                self.starts[int(b)] = step

    def fence(self, mc, g, m, step):
        self.used = True
        for k in m.idx.tolist():
            b, t = int(mc.numbers[g.blk[k]]), int(g.lanes[k] % self.threads)
            steps, starts = self.fences.setdefault(
                b, (np.full(self.threads, -1, np.int64), np.full(self.threads, -1, np.int64))
            )
            steps[t], starts[t] = step, self.starts.get(b, -1)

    def atomic(self, mc, g, number, off, m, step):
        if not mc.family.fences:
            return
        self.used = True
        for k, x in zip(m.idx.tolist(), off.tolist(), strict=True):
            b, t = int(mc.numbers[g.blk[k]]), int(g.lanes[k] % self.threads)
            held = self.published.setdefault((number, x), {})
            if held:
                known = dict(self.known[b][-1][1]) if b in self.known else {}
                for p, cover in held.items():
                    known[p] = np.maximum(known[p], cover) if p in known else cover
                self.known.setdefault(b, []).append((step, known))
            if b in self.fences:
                for p, cover in {**(self.known[b][-1][1] if b in self.known else {}), b: self._cover(b, t)}.items():
                    held[p] = np.maximum(held[p], cover) if p in held else cover

    def _cover(self, b, t):
        """For each thread of block b: up to which step its writes are visible to who takes over from thread t."""
        steps, starts = self.fences[b]
        cover = np.where(steps < self.starts.get(b, -1), steps, -1)
        if steps[t] >= 0:
            cover = np.maximum(cover, starts[t])
            cover[t] = max(cover[t], steps[t])
        return cover

    def ordered(self, t, x, y):
        return self._before(t, x, y) or self._before(t, y, x)

    def _before(self, t, x, y):
        p, thread = divmod(int(t.lane[x]), self.threads)
        for step, known in self.known.get(int(t.lane[y]) // self.threads, ()):
            if step < t.step[y] and p in known and known[p][thread] >= t.step[x]:
                return True
        return False
