"""What a resume mends before its first step, log and chooser, and what it says of the repeated steps at the end."""

from collections.abc import Callable
from typing import Any, Protocol

from andrea_lab.run.directory import RunDirectory
from andrea_lab.run.losslog import Audit, LossLog, entries_after, read_log
from andrea_lab.run.segments import Segment
from andrea_lab.run.state import State, recover_state

Note = Callable[[str], None]


class Chooser(Protocol):
    """What chooses the source of each step, and learns from what came of it. `step` is the last one it knows of."""

    sources: list[str]
    step: int

    @property
    def policy(self) -> str: ...
    def choose(self, step: int) -> tuple[str, int]: ...
    def learn(self, entry: dict[str, Any]) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> list[str]: ...
    def reset(self) -> None: ...


def mend_log(run: RunDirectory, log: LossLog, loaded: dict[str, Any], note: Note) -> dict[int, dict[str, Any]]:
    """Append the entry that only the weight file's sum holds; return the entries logged after the loaded step.

    loaded: what the engine began with, {file, step, entry, ...}. Raises LogError, OSError.
    """
    step, entry = loaded["step"], loaded["entry"]
    after = entries_after(run.log, step - 1)
    if after.pop(step, None) is None and entry:
        log.append(entry)
        note(f"{run.log.name}: appended the entry of step {step}, which only the sum of {loaded['file']} held")
    return after


def bring_to(chooser: Chooser, run: RunDirectory, step: int, segment: int, note: Note) -> None:
    """Put a fresh chooser into the state it had after `step`: from the state file, and from the log what that lacks.

    A state of an earlier step is carried on with the log's entries. One of a later step, of another policy, or damaged
    is built anew from the log. Only entries of the chooser's own policy count: what another one earned says nothing of
    this one. Arms without a source are dropped and named.
    """
    state, damage = recover_state(run, segment)
    if damage:
        note(f"{damage}; built anew from the log")
    restored = state is not None and state.step <= step and _restore(chooser, state, run, note)
    if state is not None and not restored:
        note(f"{run.state.name}: found the state of step {state.step}: built anew from the log up to step {step}")
    elif restored and state.step < step:
        note(f"{run.state.name}: found the state of step {state.step}: brought to step {step} with the log")
    if chooser.step < step:
        for entry in _canonical(run, chooser.step, step):
            if entry.get("policy") == chooser.policy:
                chooser.learn(entry)


def _restore(chooser: Chooser, state: State, run: RunDirectory, note: Note) -> bool:
    """Try to go on from a saved state; what does not fit is told."""
    try:
        dropped = chooser.restore(state.chooser)
    except ValueError as error:
        note(f"{run.state.name}: {error}")
        return False
    if dropped:
        note(f"{run.state.name}: dropped the state of {', '.join(dropped)}: no source of that name")
    if state.policy != chooser.policy:
        note(f"{run.state.name}: found policy {state.policy}, expected {chooser.policy}")
        chooser.reset()
    return state.policy == chooser.policy


def _canonical(run: RunDirectory, after: int, to: int) -> list[dict[str, Any]]:
    """The last entry of each step in (after, to], by step."""
    entries = read_log(run.log).canonical() if not after else entries_after(run.log, after).values()
    return [entry for entry in entries if after < entry["step"] <= to]


def audit_line(audit: Audit, segments: list[Segment], segment: int) -> str:
    """The replay audit in one line. segments: the run's, for what they ran on; segment: the one that replayed."""
    logged, different = len(audit.expected), audit.different
    replayed = audit.equal + different
    if not logged:
        return "replay audit: the log ended where the weights did, nothing to replay"
    rest = "" if replayed == logged else f" ({logged - replayed} logged steps not reached)"
    if not different:
        return f"replay audit: {audit.equal} of {replayed} replayed steps equal to the log{rest}"
    first = audit.first
    before = audit.expected[first["step"]].get("segment")
    return (
        f"replay audit: {different} of {replayed} replayed steps differ from the log and were appended{rest}; "
        f"first step {first['step']}, {first['field']}: found {first['now']} in {_ran_on(segments, segment)}, "
        f"expected {first['logged']} as in {_ran_on(segments, before)}"
    )


def _ran_on(segments: list[Segment], number: int | None) -> str:
    facts = next((each.begin for each in segments if each.number == number), {})
    known = [str(facts[key]) for key in ("target", "gemm", "cpu") if key in facts]
    return f"segment {number}" + (f" ({', '.join(known)})" if known else "")
