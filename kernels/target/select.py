"""Which target launches go to: cpu, cuda or check."""

import functools
import os

from .errors import TargetError

NAMES = ("cpu", "cuda", "check")
_chosen = None


@functools.cache
def device_answers():
    """True if a real NVIDIA device answers; Numba's simulator, which claims to be one, does not count."""
    from numba.core import config

    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0") or getattr(config, "ENABLE_CUDASIM", 0):
        return False
    try:
        from numba import cuda

        if "simulator" in type(getattr(cuda, "jit", None)).__module__ or "simulator" in cuda.jit.__module__:
            return False
        return bool(cuda.is_available()) and len(cuda.gpus) > 0
    except Exception:
        return False


def _checked(name, where):
    if name not in NAMES:
        raise TargetError(f"{where} is {name!r}, expected one of {', '.join(NAMES)}")
    if name == "cuda" and not device_answers():
        raise TargetError(f"{where} is 'cuda', but no NVIDIA driver answers here; use \"cpu\"")
    return name


def current():
    """The target in use: "cpu", "cuda" or "check".

    use() decides, else $ANDREA_TARGET, else cuda if a real device answers, else cpu.
    """
    global _chosen
    if _chosen is None:
        given = os.environ.get("ANDREA_TARGET", "auto")
        if given in ("", "auto"):
            given = "cuda" if device_answers() else "cpu"
        _chosen = _checked(given, "ANDREA_TARGET")
    return _chosen


class use:
    """Send launches to a target: `use("cpu")` from now on, `with use("cpu"):` until the end of the block."""

    def __init__(self, name):
        global _chosen
        self.before = _chosen
        _chosen = _checked(name, "the target")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        global _chosen
        _chosen = self.before

    def __repr__(self):
        return f"<target {current()}>"
