"""`andrea bench`: times, each beside a peer that was checked to compute the same."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from andrea_lab.commands.show import as_json, out
from andrea_lab.progress import progress

app = typer.Typer(
    help="Measure kernels, the training step and a whole small run, each against a strong peer.", no_args_is_help=True
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the table as the README shows it.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads of both sides. Default: all.")]
Quick = Annotated[bool, typer.Option("--quick", help="Check that it runs and agrees; the times mean nothing.")]


class Peer(StrEnum):
    """What the training step is compared with."""

    torch = "torch"


def _measure(module, json: bool, markdown: bool, **options) -> None:
    """Run a benchmark with its progress on stderr, and print what it found."""
    with progress("measuring", unit=None, silent=json) as advance:
        result = module.run(progress=lambda text: advance(0, text), **options)
    if json:
        as_json(result)
    elif markdown:
        print(module.figures(result).markdown(), end="")
    else:
        out.print(module.figures(result).rich())


@app.command("kernels")
def kernels(
    only: Annotated[list[str] | None, typer.Option(help="Beginning of a kernel's name; may be repeated.")] = None,
    threads: Threads = None,
    quick: Quick = False,
    json: Json = False,
    markdown: Markdown = False,
) -> None:
    """Each kernel against NumPy and against a hand-written parallel loop, results compared before any clock starts."""
    from andrea_lab.bench import kernels as module

    _measure(module, json, markdown, only=only, threads=threads, quick=quick)


@app.command("step")
def step(
    vs: Annotated[Peer, typer.Option(help="The peer.")] = Peer.torch,
    batch: Annotated[int, typer.Option(min=1, help="Rows, B.")] = 4,
    context: Annotated[int, typer.Option(min=1, max=1024, help="Tokens of a row, T.")] = 256,
    threads: Threads = None,
    peer_python: Annotated[Path | None, typer.Option(help="An interpreter that has torch. Default: this one.")] = None,
    quick: Quick = False,
    json: Json = False,
    markdown: Markdown = False,
) -> None:
    """One training step of ANDREA-12M against PyTorch's, after both agree on the loss. Needs make env EXTRAS=bench."""
    from andrea_lab.bench import step as module

    options = {"vs": str(vs), "batch": batch, "context": context, "threads": threads, "quick": quick}
    _measure(module, json, markdown, peer_python=peer_python and str(peer_python), **options)


@app.command("nano")
def nano(threads: Threads = None, quick: Quick = False, json: Json = False, markdown: Markdown = False) -> None:
    """Seconds that ANDREA-nano takes to its fixed number of steps, and the held-out loss it reaches."""
    from andrea_lab.bench import nano as module

    _measure(module, json, markdown, threads=threads, quick=quick)


@app.command("check")
def check(quick: Quick = False, json: Json = False, markdown: Markdown = False) -> None:
    """Seconds that the check target takes for three launches, beside Numba's simulator."""
    from andrea_lab.bench import checked as module

    _measure(module, json, markdown, quick=quick)


@app.command("checkpoint")
def checkpoint(
    folder: Annotated[Path | None, typer.Option(help="A folder on the disk to measure. Default: the runs'.")] = None,
    peer_python: Annotated[Path | None, typer.Option(help="An interpreter that has torch. Default: this one.")] = None,
    quick: Quick = False,
    json: Json = False,
    markdown: Markdown = False,
) -> None:
    """Saves, loads and the loss log of ANDREA-12M, each beside the least the work can take, and beside torch.save."""
    from andrea_lab.bench import checkpoint as module

    options = {"folder": folder and str(folder), "peer_python": peer_python and str(peer_python), "quick": quick}
    _measure(module, json, markdown, **options)


@app.command("view")
def view(quick: Quick = False, json: Json = False, markdown: Markdown = False) -> None:
    """What watching a run costs: its steps beside steps unwatched, bytes and memory of updates, a long log opened."""
    from andrea_lab.bench import view as module

    _measure(module, json, markdown, quick=quick)
