"""Exceptions as plain values, so that an engine in another process raises what one in this process would."""

from typing import Any

from andrea_lab.checkpoint.lock import LockError
from andrea_lab.checkpoint.save import SaveError
from andrea_lab.checkpoint.single import CheckpointError
from andrea_lab.engine.errors import EngineError, TrainingStopped
from andrea_lab.engine.lines import to_line
from andrea_lab.engine.signals import Aborted, Stopped
from andrea_lab.model.config import ConfigError
from andrea_lab.text import TextError
from kernels.target import KernelError

CARRIED = (EngineError, TrainingStopped, ConfigError, TextError, CheckpointError, SaveError, LockError, KernelError)
CARRIED += (Aborted, Stopped, MemoryError, OSError, RuntimeError)
TYPES = {kind.__name__: kind for kind in CARRIED}


def known(error: BaseException) -> str | None:
    """The name under which an exception is carried: that of its nearest type on the list; None: it is on no list."""
    return next((kind.__name__ for kind in type(error).__mro__ if TYPES.get(kind.__name__) is kind), None)


def to_plain(error: BaseException) -> dict[str, Any]:
    """{type, message, fields}: the fields are those that JSON can hold. An unknown type becomes a RuntimeError."""
    name = known(error)
    if name is None:
        first = (str(error).splitlines() or [""])[0]
        return {"type": "RuntimeError", "message": f"{type(error).__name__}: {first}", "fields": {}}
    fields = dict(vars(error))
    if isinstance(error, OSError):
        parts = {"errno": error.errno, "strerror": error.strerror, "filename": error.filename}
        fields |= {key: value for key, value in parts.items() if value is not None}  # set to None they would be shown
    return {"type": name, "message": str(error), "fields": {k: v for k, v in fields.items() if _is_plain(v)}}


def from_plain(plain: dict[str, Any]) -> BaseException:
    """The exception again: the same type, message and fields."""
    kind, message, fields = TYPES.get(plain["type"], RuntimeError), plain["message"], plain["fields"]
    if kind is OSError and fields.get("strerror"):
        return OSError(fields["errno"], fields["strerror"], fields.get("filename"))
    error = kind.__new__(kind, message)
    error.args = (message,)
    for key, value in fields.items():
        setattr(error, key, value)
    return error


def _is_plain(value: Any) -> bool:
    try:
        to_line({"value": value})
    except (TypeError, ValueError, RecursionError):
        return False
    return True
