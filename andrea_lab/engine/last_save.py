"""The save at the end, which is not given up for the failure of an older one."""

from typing import Any


def save_last(engine: Any, request: dict[str, Any]) -> dict[str, Any]:
    """engine.save(request), tried once more after a failure: it may be that of a save in the background, heard now.

    A failure after the file was committed is not tried again: the second try would find the file there and call it
    saved, though nobody knows whether it is on the disk. An engine that is gone since is told by its first failure.
    """
    try:
        return engine.save(request)
    except OSError as error:
        if getattr(error, "committed", False):
            raise
        try:
            return engine.save(request)
        except RuntimeError:
            raise error from None
