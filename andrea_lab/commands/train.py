"""`andrea train`: a run from the first weights to the last."""

from os.path import abspath
from pathlib import Path
from typing import Annotated

import typer

from andrea_lab.commands.show import Target, choose

Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads. Default: ANDREA_THREADS, or all.")]
Where = Annotated[Target | None, typer.Option(help="Where kernels run. Default: ANDREA_TARGET, or auto.")]
Process = Annotated[bool, typer.Option("--process", help="Run the engine in a process of its own.")]
Json = Annotated[bool, typer.Option("--json", help="Print only the result, as JSON for scripts.")]


def train(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A preset such as ANDREA-nano, or FILE.json.")],
    run: Annotated[Path | None, typer.Option(help="Run directory, new. Default: runs/NAME, numbered.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Length of the run and of its schedule.")] = None,
    until: Annotated[int | None, typer.Option(min=1, help="End after this step; the schedule stays.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Draws the first weights and the batches.")] = None,
    text: Annotated[list[Path] | None, typer.Option(help="Learn from this text file instead; may be repeated.")] = None,
    save_every: Annotated[int | None, typer.Option(min=0, help="Steps between weight files; 0: only the last.")] = None,
    keep: Annotated[int | None, typer.Option(min=0, help="Weight files to keep, the newest; 0: all.")] = None,
    grace: Annotated[float | None, typer.Option(min=0, help="Seconds between SIGTERM and SIGKILL.")] = None,
    target: Where = None,
    threads: Threads = None,
    process: Process = False,
    json: Json = False,
) -> None:
    """Train a model on real text.

    Each step reads one source, adds up gradients over its microbatches, clips them and lets AdamW move the weights.
    The run directory gets config.json, the loss log, step_NNNNNN.bin and loss.png. A run in a directory is never
    written over.

    Ctrl-C or SIGTERM ends after the step in progress, with the weights saved; SIGUSR1 saves and goes on. With --grace,
    a step that would take longer is dropped. Go on with andrea resume; from another terminal use andrea signal.
    """
    from andrea_lab import paths
    from andrea_lab.commands.progress import finish, followed, title
    from andrea_lab.model.config import load_config
    from andrea_lab.proxy import loop
    from andrea_lab.run.directory import check_free, free_name

    loaded = load_config(config, paths.experiments_dir())
    if text:
        loaded = loaded.with_train(sources=[abspath(path) for path in text])
    loaded = loaded.with_train(steps=steps, seed=seed, save_every=save_every, keep=keep, grace=grace)
    folder = free_name(paths.runs_dir() / loaded.name) if run is None else run
    check_free(folder)
    choose(target)
    last = until or loaded.train.steps
    with followed(last, title(loaded, f"{last} steps into {folder}"), silent=json) as hooks:
        options = {"until": until, "target": target and str(target), "threads": threads, "process": process}
        result = loop.train(loaded, folder, **options, **hooks)
    finish(loaded, result, threads, json)
