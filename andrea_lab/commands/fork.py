"""`andrea fork`: a new run from one checkpoint of another, under another configuration."""

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from andrea_lab.commands.show import as_json, printable


def fork(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run to begin from.")],
    step: Annotated[int, typer.Option(min=0, help="Its checkpoint, step_NNNNNN.bin.")],
    into: Annotated[Path, typer.Option(metavar="DIR", help="Run directory of the fork, new.")],
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A training field, such as lr=1e-3; repeat.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Copy one checkpoint into a new run with other training fields, to see which of the two converges.

    Weights, m, v and step are the parent's, and so are the batches to come; nothing else is shared. The checkpoint is
    pinned in the parent. Then: andrea resume DIR, andrea compare RUN DIR.
    """
    from andrea_lab.model.config import load_config, parse
    from andrea_lab.progress import progress
    from andrea_lab.run import fork as forks
    from andrea_lab.run.directory import RunDirectory

    config = load_config(RunDirectory.open(run).config)
    train = config.model_dump()["train"] | settings(changes or [])
    changed = parse({**config.model_dump(), "train": train}, "--set")
    with progress("checking and copying weights", silent=json):
        made = forks.fork(run, step, into, changed.to_json())
    found = forks.origin(made)
    if json:
        as_json({"run": str(into), **found, "steps": changed.train.steps})
        return
    what = ", ".join(f"{key} {_short(old)} -> {_short(new)}" for key, (old, new) in found["changes"].items())
    print(printable(f"forked {run} at step {step} into {into}: {what or 'nothing changed'}"))
    more = f" --steps {2 * step}" if step >= changed.train.steps else ""
    print(f"go on with:   andrea resume {into}{more}\nthen compare: andrea compare {run} {into} --figure compare.png")


def settings(texts: list[str]) -> dict[str, Any]:
    """{"lr": 0.001} of ["lr=1e-3"]: values are JSON, or else text. Raises ConfigError, one line."""
    from andrea_lab.model.config import ConfigError

    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip().removeprefix("train.")
        if not equals or not key:
            raise ConfigError(f"--set: found {text!r}, expected KEY=VALUE, such as lr=1e-3")
        if key in found:
            raise ConfigError(f"--set: found {key!r} twice, expected it once")
        try:
            found[key] = jsonlib.loads(value)
        except (ValueError, RecursionError):
            found[key] = value
    return found


def _short(value: Any) -> str:
    text = jsonlib.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
