"""`andrea signal`: asking a running engine to save, to stop or to give up."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Wish(StrEnum):
    """What an engine can be asked for."""

    save = "save"
    stop = "stop"
    abort = "abort"


def signal(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory that the engine works on.")],
    wish: Annotated[Wish, typer.Argument(help="What to ask for.")],
    file: Annotated[bool, typer.Option("--file", help="By a control file in the run directory.")] = False,
) -> None:
    """Ask the engine at work on a run to save, to stop or to give up.

    save: write the weights after the step in progress and go on (SIGUSR1). stop: the same, and end (SIGTERM). abort:
    end at the next poll point, nothing saved (a file in RUN/control). A signal goes only to the process that holds the
    run's lock now. With --file, a file in RUN/control says it instead, which also works on systems without SIGUSR1 and
    over a network disk.
    """
    from andrea_lab.run.control import send
    from andrea_lab.run.directory import RunDirectory

    print(send(RunDirectory.open(run), str(wish), by="file" if file else "signal"))
