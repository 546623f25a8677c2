"""`andrea pin`: keep a checkpoint from rotation."""

from pathlib import Path
from typing import Annotated

import typer

from andrea_lab.commands.show import as_json, printable


def pin(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    step: Annotated[int | None, typer.Option(min=0, help="The step to pin. Default: list the pins.")] = None,
    why: Annotated[str, typer.Option(help="A reason to remember.")] = "",
    remove: Annotated[bool, typer.Option("--remove", help="Take the pin away.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the pins as JSON for scripts.")] = False,
) -> None:
    """Pin a checkpoint, so that no rotation removes it; or take the pin away; or list the pins."""
    from andrea_lab.checkpoint import rotation
    from andrea_lab.run.directory import RunDirectory, RunError

    folder = RunDirectory.open(run).path
    if step is None and (remove or why):
        raise RunError(f"{run}: --step: found nothing, expected the step to {'unpin' if remove else 'pin'}")
    if step is not None and remove:
        rotation.unpin(folder, step)
    elif step is not None:
        rotation.pin(folder, step, why)
    pins = sorted(rotation.pins(folder).items())
    if json:
        as_json({"run": str(run), "pins": {str(number): reason for number, reason in pins}})
    elif not pins:
        print("no pins")
    else:
        for number, reason in pins:
            print(printable(f"step {number}: {reason or 'no reason given'}"))
