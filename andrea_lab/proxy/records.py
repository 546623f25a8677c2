"""What a segment writes beside the weights: the log, the chooser's state, samples, its own record."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from andrea_lab.engine.client import EngineDied
from andrea_lab.engine.errors import TrainingStopped
from andrea_lab.engine.signals import Aborted
from andrea_lab.proxy.recovery import Chooser, Note, audit_line, bring_to, mend_log
from andrea_lab.run import samples, segments
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.losslog import Audit, LossLog
from andrea_lab.run.state import write_state

TEMPERATURE = 0.8  # of the samples


class Records:
    """The files of one segment. A context manager: the segment begins with the block and ends with it.

    engine: whose `loaded` says what it began with, None for a new run, and whose `machine` what it runs on. patient:
    state and samples that cannot be written are told, not raised; the log always raises.
    """

    def __init__(self, run: RunDirectory, log: LossLog, chooser: Chooser, engine: Any, patient: bool, note: Note):
        self.run, self.log, self.chooser, self.engine, self.note = run, log, chooser, engine, note
        self.patient, self.loaded = patient, engine.loaded
        self.audit = Audit(mend_log(run, log, self.loaded, note) if self.loaded else {})
        self.segment, self.outcome = 0, "finished"

    def __enter__(self) -> "Records":
        loaded = self.loaded or {"step": 0, "file": None, "rejected": []}
        began = {"from_step": loaded["step"], "from_file": loaded["file"], "rejected": loaded["rejected"]}
        self._say_what_was_killed()
        self.segment = segments.begin(self.run, **began, **self.engine.machine)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, Aborted):
            self.asked("abort")
        if error is None:
            self._end(self.outcome)
        else:
            with suppress(OSError):  # the disk may be what failed; the error that came first is the one to hear
                self._end(_outcome(error), reason=" ".join(str(error).split()))
        if self.loaded:
            self.note(audit_line(self.audit, self._known(), self.segment))

    def bring_chooser(self) -> None:
        """In the block, before the first step: the chooser gets the state it had after the step of the weights."""
        if self.loaded:
            bring_to(self.chooser, self.run, self.loaded["step"], self.segment, self.note)

    def entry(self, entry: dict[str, Any]) -> None:
        """A step was done: log it, unless a line of the log says the very same already; let the chooser learn."""
        if self.audit.see(entry) != "equal":
            self.log.append(entry)
        self.chooser.learn(entry)

    def state(self, step: int) -> None:
        """Write the chooser's state as of `step`; not when a step was chosen after it that came to nothing."""
        if self.chooser.step == step:
            facts = {"step": step, "segment": self.segment, "log_bytes": self.run.log.stat().st_size}
            facts |= {"policy": self.chooser.policy, "chooser": self.chooser.state()}
            self._write(self.run.state, write_state, self.run, facts)

    def sample(self, step: int, tokens: int) -> None:
        """Let the model write `tokens` tokens, drawn by the step's number, and log them; not what a stop cut short."""
        asked = {"prompt": "", "tokens": tokens, "temperature": TEMPERATURE, "seed": step}
        written = self.engine.sample(asked)
        if written["tokens"] < tokens:
            return  # a resume from this step begins with the whole sample
        found = {"step": step, "segment": self.segment} | asked | {"text": written["text"]}
        self._write(self.run.samples, samples.append, self.run, found)

    def asked(self, wish: str) -> None:
        """Something asked for from outside was met after the last step done. A note: without it the run goes on too."""
        try:
            segments.note(self.run, self.segment, wish, self.engine.done)
        except OSError as error:
            self.note(f"{self.run.segments}: found {error.strerror or error}, expected to note a {wish}; going on")

    def _write(self, path: Path, write: Callable[..., Any], *what: Any) -> None:
        try:
            write(*what)
        except OSError as error:
            if not self.patient:
                raise
            self.note(f"{path}: found {error.strerror or error}, expected to write it; going on")

    def _end(self, outcome: str, **facts: Any) -> None:
        segments.end(self.run, self.segment, outcome, audit=self.audit.summary(), **facts)

    def _known(self) -> list[segments.Segment]:
        """All segments; none when their record cannot be read, which is no reason to hide how this one ended."""
        try:
            return segments.read(self.run)
        except RunError:
            return []

    def _say_what_was_killed(self) -> None:
        known = segments.read(self.run)
        if known and known[-1].outcome is None:
            self.note(f"segment {known[-1].number} has no end: it was killed")


def _outcome(error: BaseException) -> str:
    """The word for an end by an exception."""
    if getattr(error, "verdict", "") == "non-finite":
        return "diverged"
    words = {
        KeyboardInterrupt: "aborted",
        OSError: "save failed",
        TrainingStopped: "diverged",
        EngineDied: "engine died",
    }
    return next((word for known, word in words.items() if isinstance(error, known)), "broke down")
