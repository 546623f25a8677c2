"""The score card: one small file for each exercise that was tried, in the user's data folder (see `andrea_lab.paths`).

A file of its own for each exercise, so that two notebooks open at once cannot take each other's entries away.
"""

from __future__ import annotations

import json

from andrea_lab.checkpoint.files import make_folders, replace_with
from andrea_lab.lesson.exercises import CATALOGUE
from andrea_lab.paths import progress_dir


class Card:
    """The score card as text, one line an exercise."""

    def __init__(self, lines: list[str]):
        self.lines = lines

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def note(name: str, passed: bool, reason: str) -> None:
    """Remember how an exercise stands; one that was passed once stays passed. What cannot be written is let go."""
    before = state(name)
    if reason == "not attempted" or before.get("passed"):
        return
    entry = {"exercise": name, "passed": passed, "reason": reason}
    folder = progress_dir()
    try:
        make_folders(folder)
        text = json.dumps(entry).encode() + b"\n"
        replace_with(folder / f"{name}.json", lambda write: write(memoryview(text)), size=len(text))
    except OSError as error:
        print(f"progress: cannot be kept in {folder.name}: {error.strerror}; set ANDREA_PROGRESS")


def state(name: str) -> dict:
    """What is remembered of an exercise; nothing if it was never tried, or its file cannot be read."""
    try:
        found = json.loads((progress_dir() / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def progress(notebook: int | None = None) -> Card:
    """The score card of one notebook, or of all."""
    chosen = [e for e in CATALOGUE.values() if notebook in (None, e.notebook)]
    lines, done = [], 0
    for exercise in chosen:
        found = state(exercise.id)
        done += bool(found.get("passed"))
        word = "passed" if found.get("passed") else f"not yet: {found['reason']}" if found else "not attempted"
        lines.append(f"{exercise.notebook:02d}  {exercise.id:<28}{exercise.title:<52}{word}")
    return Card([*lines, f"{done} of {len(chosen)} passed"])
