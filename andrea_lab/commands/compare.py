"""`andrea compare`: two runs side by side."""

from pathlib import Path
from typing import Annotated, Any

import typer

from andrea_lab.commands.show import as_json, check_figure, out, printable, table


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run directory.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one, such as a fork of it.")],
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw both loss curves to this .png.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Say from which step on two runs differ, in what, and which of them converges.

    Losses are smoothed over the steps that both runs made. A run converges when its loss stays finite, does not rise
    above where it began, and ends below the other's.
    """
    from andrea_lab.progress import progress
    from andrea_lab.run import compare as runs
    from andrea_lab.run.directory import RunError

    check_figure(figure)
    if figure is not None and a.resolve() == b.resolve():
        raise RunError(f"--figure: found the run {a} twice, expected two runs")
    with progress("reading both logs", silent=json):
        found = runs.compare(a, b)
    if figure is not None:
        from andrea_lab.view import LossView

        LossView([a, b]).save(figure)
        found["figure"] = str(figure)
    as_json(found) if json else _tell(found)


def _tell(found: dict[str, Any]) -> None:
    both = found["a"], found["b"]
    shown = table("two runs", "", "A", "B")
    shown.add_row("run", *(printable(run["run"]) for run in both))
    shown.add_row("steps", *(f"{run['first']:,} to {run['last']:,}" for run in both))
    shown.add_row("forked", *("no" if run["fork"] is None else f"at step {run['fork']['step']:,}" for run in both))
    for key, values in found["config"].items():
        shown.add_row(printable(key), *(printable(str(value)) for value in values))
    if any(run["torn"] for run in both):
        shown.add_row("torn lines", *(f"{run['torn']:,}" for run in both))
    shown.add_row("smoothed loss", *(_loss(run["smoothed"]) for run in both))
    shown.add_row("diverged", *("no" if run["diverged_at"] is None else f"step {run['diverged_at']:,}" for run in both))
    out.print(shown)
    common, first = found["common"], found["first_difference"]
    span = f"{common['first']:,} to {common['last']:,}"
    print(f"{common['steps']:,} in common, steps {span}; losses smoothed over {common['span']}")
    if first is None:
        print("no difference in any of them")
    else:
        print(printable(f"first difference: step {first['step']}, {first['field']}: {first['a']} and {first['b']}"))
        at = found["first_loss_difference"]
        print("the losses are equal" if at is None else f"the losses differ from step {at} on")
    print(printable(found["why"]))
    if "figure" in found:
        print(printable(f"figure: {found['figure']}"))


def _loss(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4f}"
