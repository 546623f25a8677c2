"""`andrea train`: a run from the first weights to the last."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os.path import abspath
from pathlib import Path
from typing import Annotated

import typer

from andrea_lab.commands.show import Target, as_json, choose, printable

SMOOTH = 20  # steps that the smoothed loss looks back
PLAIN_LINES = 20  # lines of progress where there is no terminal
SAMPLE_TOKENS = 200


def train(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A preset such as ANDREA-nano, or FILE.json.")],
    run: Annotated[Path | None, typer.Option(help="Run directory, new. Default: runs/NAME, numbered.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Length of the run and of its schedule.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Draws the first weights and the batches.")] = None,
    text: Annotated[list[Path] | None, typer.Option(help="Learn from this text file instead; may be repeated.")] = None,
    target: Annotated[Target | None, typer.Option(help="Where kernels run. Default: ANDREA_TARGET, or auto.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads. Default: ANDREA_THREADS, or all.")] = None,
    save_every: Annotated[int | None, typer.Option(min=0, help="Steps between weight files; 0: only the last.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only the result, as JSON for scripts.")] = False,
) -> None:
    """Train a model on real text.

    Each step reads one source, adds up gradients over its microbatches, clips them and lets AdamW move the weights.
    The run directory gets config.json, the loss log, step_NNNNNN.bin and loss.png. Ctrl-C ends after the step in
    progress, with the weights saved. A run in a directory is never written over.
    """
    from andrea_lab import paths
    from andrea_lab.model.config import load_config
    from andrea_lab.proxy import loop
    from andrea_lab.run.directory import check_free, free_name

    loaded = load_config(config, paths.experiments_dir())
    if text:
        loaded = loaded.with_train(sources=[abspath(path) for path in text])
    loaded = loaded.with_train(steps=steps, seed=seed, save_every=save_every)
    folder = free_name(paths.runs_dir() / loaded.name) if run is None else run
    check_free(folder)
    choose(target)
    with _progress(loaded, folder, silent=json) as on_entry:
        result = loop.train(loaded, folder, threads=threads, on_entry=on_entry)
    figure = _figure(folder)
    written = _sample(loaded, result.weights, threads)
    if json:
        known = vars(result) | {"run_dir": str(folder), "weights": str(result.weights), "figure": str(figure)}
        as_json(known | {"mean_held_out": result.mean_held_out, "sample": written})
        return
    _tell(result, figure, written)


class Meter:
    """Follows a run: loss, tokens a second and seconds left, averaged over the last SMOOTH steps or so."""

    def __init__(self, steps: int):
        self.steps, self.weight = steps, 0.0
        self.sums = dict.fromkeys(("loss", "tokens", "ms"), 0.0)

    def add(self, entry: dict) -> str:
        """Take an entry, return the line to show."""
        keep = 1 - 1 / SMOOTH
        self.weight = keep * self.weight + (1 - keep)
        for key in self.sums:
            self.sums[key] = keep * self.sums[key] + (1 - keep) * entry[key]
        loss, tokens, ms = (value / self.weight for value in self.sums.values())
        left = (self.steps - entry["step"]) * ms / 1e3
        clock = f"{left:.0f} s left" if left < 100 else f"{left / 60:.0f} min left"
        return (
            f"step {entry['step']:>{len(str(self.steps))}}/{self.steps}  loss {entry['loss']:.3f}  "
            f"smoothed {loss:.3f}  {1e3 * tokens / ms:,.0f} tokens/s  {clock}"
        )


@contextmanager
def _progress(config, folder: Path, silent: bool) -> Iterator[Callable[[dict], None] | None]:
    """A function to call with each entry: a bar on a terminal, some twenty plain lines elsewhere."""
    from math import log

    from rich.console import Console

    if silent:
        yield None
        return
    steps, meter = config.train.steps, Meter(config.train.steps)
    ignorant = log(config.model.vocab)
    title = f"{config.name}: {steps} steps into {folder}; a model that knows nothing has loss {ignorant:.3f}"
    if not Console().is_terminal:
        every = max(1, steps // PLAIN_LINES)

        def plain(entry: dict) -> None:
            if not meter.weight:
                print(title)
            line = meter.add(entry)
            if entry["step"] % every == 0 or entry["step"] in (1, steps):
                print(line, flush=True)

        yield plain
        return
    print(title)
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(BarColumn(), TextColumn("{task.description}"), console=Console()) as progress:
        task = progress.add_task("compiling the first step", total=steps)
        yield lambda entry: progress.update(task, completed=entry["step"], description=meter.add(entry))


def _figure(folder: Path) -> Path:
    from andrea_lab.view.figure import save_curve

    return save_curve(folder, folder / "loss.png")


def _sample(config, weights: Path, threads: int | None) -> str:
    from andrea_lab.engine.engine import engine

    request = {"prompt": "", "tokens": SAMPLE_TOKENS, "temperature": 0.8, "seed": config.train.seed}
    with engine(config, weights=weights, threads=threads) as made:
        return made.sample(request)["text"]


def _tell(result, figure: Path, written: str) -> None:
    speed = result.tokens / result.seconds
    print(f"{result.outcome} after {result.steps} steps and {result.seconds:.1f} s, {speed:,.0f} tokens/s")
    if result.held_out:
        width = max(map(len, result.held_out))
        print("loss on text kept back from training, in nats per token:")
        for name, loss in result.held_out.items():
            print(f"  {name:<{width}}  {loss:.3f}")
        print(f"  {'mean':<{width}}  {result.mean_held_out:.3f}")
    print(f"weights: {result.weights}\nfigure:  {figure}\n\nsample:\n{printable(written)}")
    print(f"\nmore of it: andrea sample {result.run_dir}")
