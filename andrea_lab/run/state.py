"""The chooser's state on disk. It names the step and the length of the log it belongs to, and is only ever a shortcut:
the state at any other step is found by feeding the log to a fresh chooser.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from andrea_lab import strict_json
from andrea_lab.checkpoint.files import REAL, Files, replace_with
from andrea_lab.run.directory import RunDirectory, RunError, free_name

LARGEST = 16 * 2**20  # bytes; a longer file is not ours
Number = Annotated[int, Field(ge=0)]


class State(BaseModel):
    """What `.state.json` says: the last step the chooser learnt from, and where the log ended then."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_: Annotated[int, Field(ge=1, le=1, alias="schema")]
    step: Number
    segment: Number
    log_bytes: Number
    policy: str
    chooser: dict[str, Any]


def write_state(run: RunDirectory, state: dict[str, Any], files: Files = REAL) -> None:
    """Replace the state as a whole. state: {step, segment, log_bytes, policy, chooser}. Raises RunError, OSError."""
    checked = _checked({"schema": 1} | state, run.state)
    try:
        text = json.dumps(checked.model_dump(by_alias=True), indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise RunError(f"{run.state}: chooser: found {error}, expected plain JSON values") from None
    replace_with(run.state, lambda write: write(memoryview(text.encode())), files=files)


def read_state(run: RunDirectory) -> State | None:
    """The state, None when there is none. Raises RunError for a damaged one, which is never written over."""
    path = run.state
    try:
        with REAL.open(path) as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path}: found {error.strerror or error}, expected a readable file") from None
    if len(data) > LARGEST:
        raise RunError(f"{path}: found more than {LARGEST} bytes, expected a chooser's state")
    try:
        found = strict_json.parse(data)
    except ValueError as error:
        raise RunError(f"{path}: found text that is no JSON ({error}), expected a chooser's state") from None
    return _checked(found, path)


def recover_state(run: RunDirectory, segment: int, files: Files = REAL) -> tuple[State | None, str | None]:
    """The state, and None; or, when it is damaged, None and a line to report: it then lies aside, to be looked at.

    segment: of the start that found it; the file goes to `.state.json.bad-<segment>`, `-2`, ... when that is taken.
    """
    try:
        state = read_state(run)
        if state is not None and state.log_bytes > (size := run.log.stat().st_size if run.log.exists() else 0):
            raise RunError(f"{run.state}: log_bytes: found {state.log_bytes}, expected at most the log's {size}")
        return state, None
    except RunError as error:
        aside = free_name(run.state.with_name(f"{run.state.name}.bad-{segment}"))
        files.rename(run.state, aside)
        files.sync_folder(run.path)
        return None, f"{error}; it was moved to {aside.name}"


def _checked(found: Any, path: Path) -> State:
    try:
        return State.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "state"
        raise RunError(f"{path}: {field}: found {_short(first['input'])}, {_expected(first)}") from None


def _expected(complaint: dict[str, Any]) -> str:
    if complaint["type"] == "missing":
        return "expected this field"
    if complaint["type"] == "extra_forbidden":
        return "expected no such field"
    return f"expected {complaint['msg'].removeprefix('Input should be ')}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
