"""Threads that meet in compiled code: how a short launch is handed to helpers without the interpreter's lock.

All of them look at one array of numbers, the box. The caller writes what to run into it and opens a job; a helper that
waits in `serve` joins it within a microsecond. A job is closed before the caller waits for those inside, and a helper
looks again once it has said that it is inside: so nobody joins a job that the caller has left.
"""

import ctypes
import functools

from llvmlite import ir

from . import loader

I32, I64 = ir.IntType(32), ir.IntType(64)
# Places in the box, each with a cache line of its own: what is written often must not slow down its neighbours.
STATE, INSIDE, STATUS, JOB = 0, 8, 16, 24
SIZE = 32
PARTS, TABLE = JOB, JOB + 1  # how many parts the job has, and where their four numbers each are
PAUSES = 8  # a look at the box, then this many pauses, then the system may run someone else

_SERVE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_LEAD = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)


@functools.cache
def functions():
    """(serve, lead), C functions that let go of the interpreter.

    serve(box, seen, looks): join every job that is opened, until nothing has happened for so many looks: returns 0.
    STATE below 0 is not for compiled code and is returned, unless it is `seen`.
    lead(box, job): open the job, work at it, close it, wait for those inside; returns what failed, or 0.
    """
    module = ir.Module("crew")
    pause = ir.Function(module, ir.FunctionType(I32, []), "sched_yield")
    work = _parts(module)
    _serve(module, pause, work)
    _lead(module, pause, work)
    serve, lead = loader.link(str(module), ("crew_serve", "crew_lead"))
    return _SERVE(serve), _LEAD(lead)


def table(shares):
    """The parts of a job, a list of (function, (count, blocks, slots)), as numbers: four for each."""
    numbers = [(f.address, count, blocks, ctypes.addressof(slots)) for f, (count, blocks, slots) in shares]
    return (ctypes.c_int64 * (4 * len(shares)))(*[n for part in numbers for n in part])


def make_box():
    """An empty box, and its address on a cache line of its own."""
    raw = (ctypes.c_int64 * (SIZE + 8))()
    offset = -ctypes.addressof(raw) % 64
    box = (ctypes.c_int64 * SIZE).from_buffer(raw, offset)
    return box, ctypes.addressof(box)


def _at(builder, box, place):
    return builder.gep(box, [ir.Constant(I64, place)])


def _parts(module):
    """A function that works at every part of the job in turn: i32 function(count, blocks, slots)."""
    do = ir.Function(module, ir.FunctionType(I32, [I64.as_pointer()]), "crew_work")
    (box,) = do.args
    start, look, part, out = (do.append_basic_block(n) for n in ("start", "look", "part", "out"))
    b = ir.IRBuilder(start)
    parts = b.load(_at(b, box, PARTS))
    numbers = b.inttoptr(b.load(_at(b, box, TABLE)), I64.as_pointer())
    b.branch(look)
    b = ir.IRBuilder(look)
    i, failed = b.phi(I64), b.phi(I32)
    b.cbranch(b.icmp_signed("<", i, parts), part, out)
    b = ir.IRBuilder(part)
    row = b.gep(numbers, [b.mul(i, ir.Constant(I64, 4))])
    function, count, blocks, slots = (b.load(_at(b, row, k)) for k in range(4))
    kind = ir.FunctionType(I32, [I64, I64, ir.IntType(8).as_pointer()])
    pointer = b.inttoptr(function, kind.as_pointer())
    status = b.or_(failed, b.call(pointer, [count, blocks, b.inttoptr(slots, kind.args[2])]))
    following = b.add(i, ir.Constant(I64, 1))
    b.branch(look)
    for phi, first, after in ((i, ir.Constant(I64, 0), following), (failed, ir.Constant(I32, 0), status)):
        phi.add_incoming(first, start)
        phi.add_incoming(after, part)
    ir.IRBuilder(out).ret(failed)
    return do


def _rest(builder, give_way):
    """A few pauses, which leave the other half of a core alone, then the processor to whoever waits for it."""
    hint = ir.FunctionType(ir.VoidType(), [])
    text = "pause" if "86" in loader.triple() else "yield"
    for _ in range(PAUSES):
        builder.asm(hint, text, "", [], side_effect=True)
    builder.call(give_way, [])


def _serve(module, give_way, do):
    function = ir.Function(module, ir.FunctionType(I64, [I64.as_pointer(), I64, I64]), "crew_serve")
    box, seen_first, looks = function.args
    names = ("start", "look", "news", "join", "check", "work", "failed", "leave", "idle", "wait", "out")
    start, look, news, join, check, work, failed, leave, idle, wait, out = (
        function.append_basic_block(n) for n in names
    )
    zero, one = ir.Constant(I64, 0), ir.Constant(I64, 1)
    ir.IRBuilder(start).branch(look)

    b = ir.IRBuilder(look)
    seen, left = b.phi(I64), b.phi(I64)
    state = b.load_atomic(_at(b, box, STATE), "acquire", 8)
    b.cbranch(b.or_(b.icmp_signed("==", state, zero), b.icmp_signed("==", state, seen)), idle, news)
    b = ir.IRBuilder(news)
    b.cbranch(b.icmp_signed("<", state, zero), out, join)
    b = ir.IRBuilder(join)
    b.atomic_rmw("add", _at(b, box, INSIDE), one, "seq_cst")
    b.branch(check)
    b = ir.IRBuilder(check)
    b.cbranch(b.icmp_signed("==", b.load_atomic(_at(b, box, STATE), "seq_cst", 8), state), work, leave)
    b = ir.IRBuilder(work)
    status = b.call(do, [box])
    b.cbranch(b.icmp_signed("==", status, ir.Constant(I32, 0)), leave, failed)
    b = ir.IRBuilder(failed)
    b.store_atomic(b.sext(status, I64), _at(b, box, STATUS), "seq_cst", 8)
    b.branch(leave)
    b = ir.IRBuilder(leave)
    b.atomic_rmw("sub", _at(b, box, INSIDE), one, "seq_cst")
    b.branch(look)

    b = ir.IRBuilder(idle)
    b.cbranch(b.icmp_signed(">", left, zero), wait, out)
    b = ir.IRBuilder(wait)
    _rest(b, give_way)
    fewer = b.sub(left, one)
    b.branch(look)
    for phi, after_work, after_wait, first in ((seen, state, seen, seen_first), (left, looks, fewer, looks)):
        phi.add_incoming(first, start)
        phi.add_incoming(after_work, leave)
        phi.add_incoming(after_wait, wait)
    b = ir.IRBuilder(out)
    answer = b.phi(I64)
    answer.add_incoming(state, news)
    answer.add_incoming(zero, idle)
    b.ret(answer)


def _lead(module, give_way, do):
    function = ir.Function(module, ir.FunctionType(I32, [I64.as_pointer(), I64]), "crew_lead")
    box, job = function.args
    start, look, wait, out = (function.append_basic_block(n) for n in ("start", "look", "wait", "out"))
    zero = ir.Constant(I64, 0)
    b = ir.IRBuilder(start)
    b.store_atomic(zero, _at(b, box, STATUS), "seq_cst", 8)
    b.store_atomic(job, _at(b, box, STATE), "seq_cst", 8)
    mine = b.call(do, [box])
    b.store_atomic(zero, _at(b, box, STATE), "seq_cst", 8)
    b.branch(look)
    b = ir.IRBuilder(look)
    inside = b.load_atomic(_at(b, box, INSIDE), "seq_cst", 8)
    b.cbranch(b.icmp_signed("==", inside, zero), out, wait)
    b = ir.IRBuilder(wait)
    _rest(b, give_way)
    b.branch(look)
    b = ir.IRBuilder(out)
    theirs = b.trunc(b.load_atomic(_at(b, box, STATUS), "seq_cst", 8), I32)
    b.ret(b.or_(mine, theirs))
