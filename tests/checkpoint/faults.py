"""File systems that break: one that fails, one that dies, one that lies. Each stands where `Files` stands."""

import errno
import os
from threading import Lock

from andrea_lab.checkpoint.files import Files

# What changes the disk, or says that it is safe there; the rest only looks.
CHANGES = {"create", "append", "write", "sync", "datasync", "truncate", "close", "rename", "remove"}
CHANGES |= {"make_folder", "remove_folder", "sync_folder"}
LOOKS = {"open", "read", "size", "free"}


class Crash(BaseException):
    """The process is dead; nothing that catches errors may catch it."""


class Watched(Files):
    """The real file system with every operation counted. `ops` names those that were begun, in order.

    only: the operations that count, all of them when None. A subclass says in `act` what becomes of one.
    """

    def __init__(self, only=None):
        self.only = CHANGES | LOOKS if only is None else set(only)
        assert self.only <= CHANGES | LOOKS
        self.ops, self._lock = [], Lock()

    def act(self, number, name, do, *args):
        """Do an operation. number: how many have counted so far, this one with them; None for one that does not."""
        return do(*args)

    def _op(self, name, *args):
        number = None
        if name in self.only:
            with self._lock:
                self.ops.append(name)
                number = len(self.ops)
        return self.act(number, name, getattr(super(), name), *args)


def _method(name):
    def method(self, *args):
        return self._op(name, *args)

    return method


for _name in sorted(CHANGES | LOOKS):
    setattr(Watched, _name, _method(_name))


class Faulty(Watched):
    """The `fail_at`-th operation, from 1, raises OSError(error), once or from then on; it does nothing but a close.

    short: the most bytes that one write takes. `failed` counts the errors raised.
    """

    def __init__(self, fail_at=0, error=errno.EIO, *, persistent=False, only=None, short=None):
        super().__init__(only)
        self.fail_at, self.error, self.persistent, self.short, self.failed = fail_at, error, persistent, short, 0

    def act(self, number, name, do, *args):
        hit = self.fail_at and number and (number >= self.fail_at if self.persistent else number == self.fail_at)
        if hit:
            if name == "close":
                do(*args)
            self.failed += 1
            raise OSError(self.error, f"planted {errno.errorcode[self.error]} in {name}")
        if name == "write" and self.short:
            fd, data = args
            return do(fd, data[: self.short])
        return do(*args)


class Crashing(Watched):
    """The process dies at the `at`-th operation: "before" it, "after" it, or "halfway" through a write.

    From then on nothing is done any more, whatever is tried: each operation raises Crash. Descriptors are closed, as
    the system does for a dead process.
    """

    def __init__(self, at, when="before", *, only=CHANGES):
        super().__init__(only)
        self.at, self.when, self.dead = at, when, False

    def act(self, number, name, do, *args):
        if self.dead:
            if name == "close":
                os.close(*args)
            raise Crash(f"{name} by a dead process")
        if number != self.at:
            return do(*args)
        self.dead = True
        if name == "write" and self.when == "halfway":
            fd, data = args
            do(fd, data[: max(1, data.nbytes // 2)])
        elif self.when == "after" or name == "close":
            done = do(*args)
            if name in ("create", "append"):
                os.close(done)
        raise Crash(f"{self.when} {name}, operation {number}")


class Lying(Watched):
    """The `at`-th write says that all is well and puts something else on the disk.

    how: "flip" one bit in the middle, "zeros" instead of the bytes, or "lose" the last byte.
    """

    def __init__(self, at, how="flip"):
        super().__init__({"write"})
        self.at, self.how = at, how

    def act(self, number, name, do, *args):
        if number != self.at:
            return do(*args)
        fd, data = args
        changed = bytearray(data)
        if self.how == "flip":
            changed[len(changed) // 2] ^= 1
        elif self.how == "zeros":
            changed = bytearray(len(changed))
        else:
            changed = changed[:-1]
        do(fd, memoryview(changed))
        return data.nbytes
