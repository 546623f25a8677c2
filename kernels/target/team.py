"""The threads that run launches: each takes the next task of the launch at hand, then all go on to the next launch.

A helper that wakes up on the caller's processor would wait there until the system moves it, 10 to 20 ms later: longer
than most kernels take. So helpers are kept off the processor that the caller is on.

Which thread runs which task is left to chance; the cut of a launch into tasks depends on its grid alone, and tasks
never touch each other's results, so neither chance nor the number of threads shows in the bits.
"""

import ctypes
import os
import queue
import threading
import time
from contextlib import contextmanager, nullcontext, suppress

from . import crew, loader
from .errors import KernelError

_SPINS = 2000
_LOOKS = 300  # how long a helper stays awake after a run, since runs often follow each other closely
_NAP = 5e-5
_SHORT = 0.02  # seconds: nobody minds if Ctrl-C is heard that late
_STACK = 16 * 1024 * 1024


class _Member:
    """What one helper thread shows to the others."""

    __slots__ = ("asleep", "busy", "gate", "thread")

    def __init__(self):
        self.asleep = self.busy = False
        self.gate = queue.SimpleQueue()
        self.thread = None


class Team:
    """The caller's thread and `size - 1` helpers. Helpers sleep while no run is going on.

    A launch that is known to be short is handed over in compiled code (see `crew`); of others the threads take one
    task after the other here, so that Ctrl-C is heard between tasks.
    """

    def __init__(self, size):
        self.size = size
        self.tasks = iter(())
        self.epoch = 0
        self.running = False
        self.error = None
        self.retired = False
        self.processor = None
        self.members = [_Member() for _ in range(size - 1)]
        if size > 1:
            self.box, self.address = crew.make_box()
            self.serve, self.lead = crew.functions()
        before = threading.stack_size(_STACK)
        try:
            for member in self.members:
                member.thread = threading.Thread(target=self._help, args=(member,), daemon=True, name="kernels")
                member.thread.start()
        finally:
            threading.stack_size(before)

    # ---- a helper's life
    def _help(self, member):
        while not self.retired:
            self._sleep(member)
            seen = idle = 0
            while True:
                word = self.serve(self.address, seen, _LOOKS)
                if word < 0:
                    seen, idle = word, 0
                    self._join(member)
                elif not self.running:
                    break
                else:
                    idle += 1
                    time.sleep(_NAP if idle > 1 else 0)

    def _sleep(self, member):
        member.asleep = True
        if not self.running and not self.retired:
            member.gate.get()
        member.asleep = False

    def _join(self, member):
        member.busy = True
        try:
            self._work()
        except BaseException as error:
            self.error = error
        member.busy = False

    def _work(self):
        for function, arguments in self.tasks:
            function(*arguments)
            if self.error is not None or not self.running:
                return

    # ---- the caller
    def run(self, launches, timer):
        """Run launches in order; timer, a dict, gathers seconds by name."""
        self.error = None
        self.running = True
        try:
            if self.members:
                self._wake()
            for launch in launches:
                self._launch(launch, timer)
        finally:
            self.running = False
            if self.members:
                self._wait()

    def _wake(self):
        self._make_room()
        for member in self.members:
            if member.asleep:
                member.asleep = False
                member.gate.put(None)

    def _make_room(self):
        """Keep the helpers off the caller's processor, where there are enough others."""
        here = _processor()
        if here == self.processor:
            return
        self.processor = here
        others = os.sched_getaffinity(0) - {here}
        if len(others) >= len(self.members):
            with suppress(OSError):  # a container may forbid it; the system then moves them in its own time
                for member in self.members:
                    os.sched_setaffinity(member.thread.native_id, others)

    def retire(self):
        """Let the helpers go."""
        self.retired = True
        for member in self.members:
            member.gate.put(None)

    def _launch(self, launch, timer):
        start = time.perf_counter()
        if len(launch.tasks) == 1:
            function, arguments = launch.tasks[0]
            function(*arguments)
        elif launch.shared and launch.seconds < _SHORT:
            self._share(launch)
        else:
            self._hand_out(launch.tasks)
        launch.seconds = time.perf_counter() - start
        if timer is not None:
            timer[launch.name] = timer.get(launch.name, 0.0) + launch.seconds

    def _share(self, launch):
        """All threads at once in compiled code, each taking ranges of blocks until none is left."""
        for function, arguments in launch.shared:
            arguments[-1][-1] = 0
            if not self.members:
                function(*arguments)
        if not self.members:
            return
        if launch.table is None:
            launch.table = crew.table(launch.shared)
        self.box[crew.PARTS], self.box[crew.TABLE] = len(launch.shared), ctypes.addressof(launch.table)
        self.epoch += 1
        loader.check(self.lead(self.address, self.epoch))

    def _hand_out(self, tasks):
        """Task by task, each thread taking the next one."""
        self.tasks = iter(tasks)
        self.epoch += 1
        if self.members:
            self.box[crew.STATE] = -self.epoch
        self._work()
        self._wait()
        if self.error is not None:
            raise self.error

    def _wait(self):
        """Until no helper is inside a task. A helper that has not woken up yet finds no task left."""
        self.tasks = iter(())
        if self.members:
            self.box[crew.STATE] = 0
        spins = 0
        for member in self.members:
            while member.busy:
                spins += 1
                _yield() if spins < _SPINS else time.sleep(_NAP)


def _find_processor():
    """A function that says which processor the calling thread is on; always None where the system does not tell."""
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError, AttributeError):
            return ctypes.PyDLL(None).sched_getcpu  # PyDLL: a call too short to let go of the interpreter for
    return lambda: None


_processor = _find_processor()


def _yield():
    os.sched_yield() if hasattr(os, "sched_yield") else time.sleep(0)


# ---- the process's team
_team = None
_size = None
_lock = threading.Lock()
_blas = None


def _default_size():
    given = os.environ.get("ANDREA_THREADS")
    if given is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if not given.isdigit() or int(given) < 1:
        raise KernelError(f"ANDREA_THREADS is {given!r}, expected a whole number of threads, at least 1")
    return int(given)


def threads():
    """How many threads run launches: set_threads, else $ANDREA_THREADS, else the processors this process may use."""
    return _size if _size is not None else _default_size()


def set_threads(count):
    """Run launches on `count` threads from now on. The results do not depend on it."""
    global _size
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise KernelError(f"set_threads got {count!r}, expected a whole number of threads, at least 1")
    _size = count


def run(launches, timer=None):
    """Run launches one after the other, each on all threads; timer, a dict, gathers seconds by launch name.

    While launches that call the BLAS library are among them, its own threads are held at one. Called from a thread
    while another thread's run is going on, it runs on the calling thread alone.
    """
    if not _lock.acquire(blocking=False):
        return _alone(launches, timer)
    try:
        team = _current_team()
        with _one_blas_thread() if any(launch.blas for launch in launches) else nullcontext():
            team.run(launches, timer)
    finally:
        _lock.release()


def _alone(launches, timer):
    for launch in launches:
        start = time.perf_counter()
        for function, arguments in launch.tasks:
            function(*arguments)
        if timer is not None:
            timer[launch.name] = timer.get(launch.name, 0.0) + time.perf_counter() - start


def _current_team():
    global _team
    size = threads()
    if _team is None or _team.size != size:
        if _team is not None:
            _team.retire()
        _team = Team(size)
    return _team


@contextmanager
def _one_blas_thread():
    global _blas
    if _blas is None:
        from threadpoolctl import ThreadpoolController

        _blas = [_switch(lib) for lib in ThreadpoolController().select(user_api="blas").lib_controllers]
    before = [count() for count, _ in _blas]
    try:
        for (_, limit), count in zip(_blas, before, strict=True):
            if count != 1:
                limit(1)
        yield
    finally:
        for (_, limit), count in zip(_blas, before, strict=True):
            if count != 1:
                limit(count)


def _switch(library):
    """(get, set) of a BLAS library's number of threads; OpenBLAS' own functions, which allocate nothing."""
    for name in getattr(library, "check_symbols", ()):
        if name.split("openblas_")[-1].startswith("get_num_threads") and hasattr(library.dynlib, name):
            change = name.replace("get_num_threads", "set_num_threads")
            return getattr(library.dynlib, name), getattr(library.dynlib, change)
    return library.get_num_threads, library.set_num_threads


def _after_fork():
    global _team, _lock
    _team, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
