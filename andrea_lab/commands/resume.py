"""`andrea resume`: going on with a run that was stopped, killed or interrupted."""

from pathlib import Path
from typing import Annotated

import typer

from andrea_lab.commands.show import choose
from andrea_lab.commands.train import Json, Process, Threads, Where


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, as andrea train leaves it.")],
    steps: Annotated[int | None, typer.Option(min=1, help="Go on to this step. Default: the run's length.")] = None,
    target: Where = None,
    threads: Threads = None,
    process: Process = False,
    json: Json = False,
) -> None:
    """Go on with a run from its newest good weights.

    A weight file that is torn or changed is passed over, with the reason, for the one before it. Steps that were logged
    after it are repeated and compared with the log: on the same machine each comes out the same, to the last bit, and
    the last line says so. A run is never begun anew by itself, and a finished one is left as it is.
    """
    from andrea_lab.commands.progress import finish, followed, title
    from andrea_lab.model.config import load_config
    from andrea_lab.proxy import loop
    from andrea_lab.run.directory import RunDirectory

    config = load_config(RunDirectory.open(run).config)
    choose(target)
    last = steps or config.train.steps
    with followed(last, title(config, f"{run} up to step {last}"), silent=json) as hooks:
        options = {"until": steps, "target": target and str(target), "threads": threads, "process": process}
        result = loop.resume(run, **options, **hooks)
    if result.outcome == "nothing to do" and not json:
        print(f"nothing to do: {run} has its {result.steps} steps; andrea resume {run} --steps N goes beyond them")
        return
    finish(config, result, threads, json)
