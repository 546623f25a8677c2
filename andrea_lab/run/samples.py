"""The sample log: texts the model wrote while it learnt, one JSON object a line."""

import json
from typing import Any

from andrea_lab.checkpoint.files import REAL, Files
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.lines import append_line, backwards, forwards, good

FIELDS = ("step", "segment", "prompt", "tokens", "temperature", "seed", "text")


def append(run: RunDirectory, sample: dict[str, Any], files: Files = REAL) -> bool:
    """Log one sample {step, segment, prompt, tokens, temperature, seed, text}.

    A repeated step whose sample is there already, all but its segment equal, adds nothing. Returns whether a line was
    added. Raises RunError for other fields, OSError.
    """
    if set(sample) != set(FIELDS) or type(sample["step"]) is not int:
        raise RunError(f"{run.samples}: found a sample of {', '.join(sample)}, expected {', '.join(FIELDS)}")
    if _same(_last_of(run, sample["step"]), sample):
        return False
    append_line(run.samples, json.dumps(sample, allow_nan=False), files)
    return True


def read(run: RunDirectory) -> list[dict[str, Any]]:
    """All samples in file order, lines that a crash tore left out. Empty without a log. Raises RunError."""
    try:
        return [sample for sample in good(forwards(run.samples)) if type(sample.get("step")) is int]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"{run.samples}: found {error.strerror or error}, expected a sample log") from None


def _last_of(run: RunDirectory, step: int) -> dict[str, Any] | None:
    """The last sample of a step, searched for from the end and no further than an earlier step."""
    try:
        for sample in good(backwards(run.samples)):
            found = sample.get("step")
            if type(found) is int and found <= step:
                return sample if found == step else None
    except FileNotFoundError:
        pass
    return None


def _same(logged: dict[str, Any] | None, sample: dict[str, Any]) -> bool:
    return logged is not None and logged | {"segment": None} == sample | {"segment": None}
