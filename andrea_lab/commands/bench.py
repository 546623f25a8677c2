"""`andrea bench`: times, each beside a peer that was checked to compute the same."""

from typing import Annotated

import typer

from andrea_lab.commands.show import as_json

app = typer.Typer(
    help="Measure kernels, the training step and a whole small run, each against a strong peer.", no_args_is_help=True
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads of both sides. Default: all.")]


def _show(module, result: dict, json: bool) -> None:
    if json:
        as_json(result)
    else:
        print(module.render(result))


@app.command("kernels")
def kernels(threads: Threads = None, json: Json = False) -> None:
    """Each kernel against NumPy and against a hand-written parallel loop, results compared before any clock starts."""
    from andrea_lab.bench import kernels as module

    _show(module, module.run(threads=threads), json)


@app.command("step")
def step(
    vs: Annotated[str, typer.Option(help="The peer: torch.")] = "torch",
    batch: Annotated[int, typer.Option(min=1, help="Rows, B.")] = 4,
    context: Annotated[int, typer.Option(min=1, max=1024, help="Tokens of a row, T.")] = 256,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """One training step of ANDREA-12M against PyTorch's, after both agree on the loss. Needs make env EXTRAS=bench."""
    from andrea_lab.bench import step as module
    from andrea_lab.model.config import ConfigError

    if vs != "torch":
        raise ConfigError(f"--vs: found {vs!r}, expected torch")
    _show(module, module.run(batch=batch, context=context, threads=threads), json)


@app.command("nano")
def nano(threads: Threads = None, json: Json = False) -> None:
    """Seconds that ANDREA-nano takes to its fixed number of steps, and the held-out loss it reaches."""
    from andrea_lab.bench import nano as module

    _show(module, module.run(threads=threads), json)
