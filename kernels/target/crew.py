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
FUNCTION, COUNT, BLOCKS, SLOTS = range(JOB, JOB + 4)
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
    _serve(module, pause)
    _lead(module, pause)
    serve, lead = loader.link(str(module), ("crew_serve", "crew_lead"))
    return _SERVE(serve), _LEAD(lead)


def make_box():
    """An empty box, and its address on a cache line of its own."""
    raw = (ctypes.c_int64 * (SIZE + 8))()
    offset = -ctypes.addressof(raw) % 64
    box = (ctypes.c_int64 * SIZE).from_buffer(raw, offset)
    return box, ctypes.addressof(box)


def _at(builder, box, place):
    return builder.gep(box, [ir.Constant(I64, place)])


def _work(builder, box):
    """Call what the job says: i32 function(count, blocks, slots)."""
    function, count, blocks, slots = (builder.load(_at(builder, box, p)) for p in (FUNCTION, COUNT, BLOCKS, SLOTS))
    kind = ir.FunctionType(I32, [I64, I64, ir.IntType(8).as_pointer()])
    pointer = builder.inttoptr(function, kind.as_pointer())
    return builder.call(pointer, [count, blocks, builder.inttoptr(slots, kind.args[2])])


def _rest(builder, give_way):
    """A few pauses, which leave the other half of a core alone, then the processor to whoever waits for it."""
    hint = ir.FunctionType(ir.VoidType(), [])
    text = "pause" if "86" in loader.triple() else "yield"
    for _ in range(PAUSES):
        builder.asm(hint, text, "", [], side_effect=True)
    builder.call(give_way, [])


def _serve(module, give_way):
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
    status = _work(b, box)
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


def _lead(module, give_way):
    function = ir.Function(module, ir.FunctionType(I32, [I64.as_pointer(), I64]), "crew_lead")
    box, job = function.args
    start, look, wait, out = (function.append_basic_block(n) for n in ("start", "look", "wait", "out"))
    zero = ir.Constant(I64, 0)
    b = ir.IRBuilder(start)
    b.store_atomic(zero, _at(b, box, STATUS), "seq_cst", 8)
    b.store_atomic(job, _at(b, box, STATE), "seq_cst", 8)
    mine = _work(b, box)
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
