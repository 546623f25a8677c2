"""What the engine raises, and how it reads a request."""

from numbers import Integral, Real
from typing import Any

KINDS = {int: (Integral, "a whole number"), float: (Real, "a number"), str: (str, "text"), dict: (dict, "an object")}
KINDS[bool] = (bool, "true or false")
_MISSING = object()


class EngineError(ValueError):
    """A request the engine cannot serve; the message is one line."""


class TrainingStopped(RuntimeError):
    """A loss or gradient that is no finite number. The weights are those of before the step.

    step: the step that failed and was not applied. tensor: name of the first bad tensor. advice: what to change.
    result: what the step would have returned.
    """

    def __init__(self, step: int, tensor: str, advice: str, result: dict):
        super().__init__(f"step {step}: {tensor} is not finite, the step was not applied; {advice}")
        self.step, self.tensor, self.advice, self.result = step, tensor, advice, result


def wanted(request: dict[str, Any], verb: str, name: str, kind: type, default: Any = _MISSING) -> Any:
    """A field of a request, as an int, float, str, dict or bool. None or no field gives `default`, if there is one.

    Raises EngineError for a field that is missing or of another kind.
    """
    value = request.get(name)
    if value is None and default is not _MISSING:
        return default
    accepted, word = KINDS[kind]
    if not isinstance(value, accepted) or (kind is not bool and isinstance(value, bool)):
        found = "nothing" if value is None else f"{value!r:.60}"
        where = verb if name == verb else f"{verb}: {name}"
        raise EngineError(f"{where}: found {found}, expected {word}")
    return value if isinstance(value, kind) else kind(value)
