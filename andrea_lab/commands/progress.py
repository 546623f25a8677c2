"""What commands show while they work, and what `andrea train` and `andrea resume` show when they end."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from andrea_lab.commands.show import as_json, printable
from andrea_lab.progress import Advance, progress

SMOOTH = 20  # steps that the smoothed loss looks back
PLAIN_LINES = 20  # lines of progress where there is no terminal
SAMPLE_TOKENS = 200


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


def title(config: Any, what: str) -> str:
    """The first line of progress."""
    from math import log

    return f"{config.name}: {what}; a model that knows nothing has loss {log(config.model.vocab):.3f}"


@contextmanager
def followed(last: int, title: str, silent: bool) -> Iterator[dict[str, Callable]]:
    """The hooks `on_entry` and `on_note` for a loop up to step `last`.

    On a terminal a bar, with notes above; elsewhere, and where there is no bar, some twenty plain lines; nothing but
    notes on stderr when silent.
    """
    if silent:
        yield {"on_note": _warn}
        return
    with progress("training", last, None) as advance:
        plain = not (advance.bar and sys.stdout.isatty())
        if not plain:
            _say(title)
        advance(0, "compiling the first step")
        yield {"on_entry": _entries(last, title if plain else None, advance), "on_note": partial(_say, say=advance.say)}


def _entries(last: int, title: str | None, advance: Advance) -> Callable[[dict], None]:
    """What is told of each entry; with a title, of which some are printed."""
    meter, every, seen = Meter(last), max(1, last // PLAIN_LINES), []

    def on_entry(entry: dict) -> None:
        step, line = entry["step"], meter.add(entry)
        advance(step - advance.done, line if step < last else "steps done; saving, and reading text kept back")
        if title is None:
            return
        if not seen:
            _say(title)
        if step % every == 0 or step == last or not seen:
            _say(line)
        seen[:] = [step]

    return on_entry


def reading(advance: Advance) -> Any:
    """The real file system, whose reads are told to `advance` in bytes."""
    from andrea_lab.checkpoint.files import Files

    class Reading(Files):
        def read(self, file, into):
            count = super().read(file, into)
            advance(count)
            return count

    return Reading()


def _warn(line: str) -> None:
    _say(f"andrea: {line}", partial(print, file=sys.stderr, flush=True))


def _say(line: str, say: Callable[[str], None] | None = None) -> None:
    """Print a line at once. A reader that is gone, as behind a pipe, must not end a run of days."""
    with suppress(OSError):
        (say or partial(print, flush=True))(printable(line))


def finish(config: Any, result: Any, threads: int | None, json: bool) -> None:
    """Print the result; of a run that was not interrupted, draw the loss and let the model write as well.

    Who stops a run waits for it to be gone, or kills it soon: nothing more is computed then.
    """
    figure = written = None
    if result.outcome != "interrupted":
        from andrea_lab.view import LossView

        try:
            figure = LossView(result.run_dir).save(result.run_dir / "loss.png")
        except OSError as error:  # the run is done and saved, with or without a picture of it
            _warn(f"loss.png: found {error.strerror or error}, expected to draw the loss there")
        written = _sample(config, result.weights, threads)
    if json:
        known = vars(result) | {"run_dir": str(result.run_dir), "weights": result.weights and str(result.weights)}
        known |= {"figure": figure and str(figure), "sample": written}
        as_json(known | {"mean_held_out": result.mean_held_out})
    else:
        _tell(result, figure, written)


def _sample(config: Any, weights: Path, threads: int | None) -> str:
    from andrea_lab.engine.engine import engine

    request = {"prompt": "", "tokens": SAMPLE_TOKENS, "temperature": 0.8, "seed": config.train.seed}
    with engine(config, weights=weights, threads=threads) as made:
        return made.sample(request)["text"]


def _tell(result: Any, figure: Path | None, written: str | None) -> None:
    speed = f", {result.tokens / result.seconds:,.0f} tokens/s" if result.tokens else ""
    print(f"{result.outcome} after {result.steps} steps and {result.seconds:.1f} s{speed}")
    if result.held_out:
        width = max(map(len, result.held_out))
        print("loss on text kept back from training, in nats per token:")
        for name, loss in result.held_out.items():
            print(f"  {name:<{width}}  {loss:.3f}")
        print(f"  {'mean':<{width}}  {result.mean_held_out:.3f}")
    if result.weights is None:
        print(f"weights: none, as no step was done: {result.run_dir} cannot be resumed, begin another run")
        return
    print(f"weights: {result.weights}")
    if written is None:
        print(f"go on:   andrea resume {result.run_dir}")
        return
    if figure is not None:
        print(f"figure:  {figure}")
    print(f"\nsample:\n{printable(written)}\n\nmore of it: andrea sample {result.run_dir}")
