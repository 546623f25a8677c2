"""`andrea verify`: what stands in a run directory, and from which weight file a resume would start."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from andrea_lab.commands.show import as_json, out, printable, sizes, table

ASIDE = {
    ".was-": "good weights that another save of this step replaced",
    ".bad-": "set aside as damaged",
    ".nonfinite-": "numbers that are not finite, never loaded",
}


def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, or any folder of weight files.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Read every weight file of a run and say whether it is whole.

    Committed: the bytes have the digest that was saved beside them. Unverified: whole, but with no digest to compare
    with. Torn, flipped, wrong step, non-finite: never loaded, and never removed by itself. Unreadable: the disk did not
    give its bytes, try again. Exit code 1 when no file loads.
    """
    from andrea_lab.checkpoint.rotation import pins
    from andrea_lab.checkpoint.verify import LOADS, scan, survey
    from andrea_lab.commands.progress import reading
    from andrea_lab.progress import progress
    from andrea_lab.run.directory import RunError

    if not run.is_dir():
        raise RunError(f"{run}: found {'a file' if run.exists() else 'no folder'}, expected a run directory")
    n_params, note = _n_params(run)
    nbytes = sum(file.stat().st_size for file in scan(run) if file.exists())
    with progress("reading weights", nbytes, "B", silent=json) as advance:
        verdicts = survey(run, n_params=n_params, files=reading(advance))
    # A run at work may have removed an old file since the folder was read.
    verdicts = [each for each in verdicts if os.path.lexists(each.file)]
    if not verdicts:
        raise RunError(f"{run}: found no weights, expected a run directory with a step_NNNNNN.bin")
    start = next((each.file.name for each in reversed(verdicts) if each.verdict in LOADS), None)
    found = {
        "run": str(run),
        "checkpoints": [_plain(each) for each in verdicts],
        "resume_from": start,
        "pins": {str(step): why for step, why in sorted(pins(run).items())},
        "litter": litter(run),
        "note": note,
    }
    as_json(found) if json else _tell(found)
    if start is None:
        raise typer.Exit(1)


def litter(folder: Path) -> list[dict[str, str]]:
    """[{file, what}]: everything in a folder that belongs to checkpoints and is none, by name."""
    found = ((name, _what(folder, name)) for name in sorted(os.listdir(folder)))
    return [{"file": name, "what": what} for name, what in found if what]


def _what(folder: Path, name: str) -> str | None:
    from andrea_lab.checkpoint.files import TEMP
    from andrea_lab.checkpoint.single import step_of

    if TEMP.fullmatch(name):
        return "temporary file of a save, removed at the next start"
    if not name.startswith("step_"):
        return None
    if aside := next((what for mark, what in ASIDE.items() if mark in name), None):
        return aside
    if (folder / name).is_dir():
        return "a folder, not a weight file"
    for ending, what in ((".sum", "a digest"), (".pin", "a pin")):
        if name.endswith(ending) and step_of(name.removesuffix(ending)) is not None:
            return None if os.path.lexists(folder / name.removesuffix(ending)) else f"{what} without its weight file"
    return None if step_of(name) is not None else "not the name of a weight file, step_NNNNNN.bin"


def _n_params(run: Path) -> tuple[int | None, str | None]:
    """What the run's model has, and None; or None and why it is not known, in which case any size will do."""
    from andrea_lab.model.config import ConfigError, load_config
    from andrea_lab.model.layout import layout

    try:
        return layout(load_config(run / "config.json").model).n_params, None
    except ConfigError as error:
        return None, f"sizes are not compared with the model's: {error}"


def _plain(verdict: Any) -> dict[str, Any]:
    known = {"file": verdict.file.name, "step": verdict.step, "verdict": verdict.verdict, "reason": verdict.reason}
    return known | {"nbytes": verdict.nbytes, "sha256": verdict.sha256}


def _tell(found: dict[str, Any]) -> None:
    shown = table(printable(found["run"]), "file", ">step", "verdict", ">MB", ">MiB", "reason")
    for each in found["checkpoints"]:
        size = ("", "") if each["nbytes"] is None else sizes(each["nbytes"])
        why = found["pins"].get(str(each["step"]))
        pinned = None if why is None else f"pinned: {why or 'no reason given'}"
        reason = "; ".join(filter(None, (each["reason"], pinned)))
        shown.add_row(each["file"], f"{each['step']:,}", each["verdict"], *size, printable(reason))
    out.print(shown)
    if found["litter"]:
        rest = table("\nbeside them", "file", "what it is")
        for each in found["litter"]:
            rest.add_row(printable(each["file"]), each["what"])
        out.print(rest)
    if found["note"]:
        print(printable(found["note"]))
    start = found["resume_from"]
    print(f"\na resume would start from {start}" if start else "\nno weight file loads: a resume would refuse to start")
