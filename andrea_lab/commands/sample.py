"""`andrea sample`: text from a trained run."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from andrea_lab.commands.show import Target, as_json, printable


def sample(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory, as andrea train leaves it.")],
    prompt: Annotated[str, typer.Option(help="Text to go on from.")] = "",
    tokens: Annotated[int, typer.Option(min=0, help="How many tokens to add.")] = 200,
    seed: Annotated[int, typer.Option(help="Another seed draws another text; the same seed the same.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest token; 1 draws as learned.")] = 0.8,
    step: Annotated[int | None, typer.Option(min=0, help="Use step_NNNNNN.bin of this step. Default: newest.")] = None,
    target: Annotated[Target | None, typer.Option(help="Where kernels run. Default: ANDREA_TARGET, or auto.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads. Default: ANDREA_THREADS, or all.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Let a trained model write.

    Each token is drawn from the model's own scores: divided by the temperature, then through a softmax. Try
    --temperature 0.2, then 1.5, to see what that number does. Control characters show as U+FFFD; --json keeps them.
    """
    import hashlib

    from andrea_lab.progress import progress
    from andrea_lab.run.directory import RunDirectory, RunError

    found = RunDirectory.open(run)
    if step is not None and not found.weights(step).is_file():
        raise RunError(f"{found.weights(step)}: found no such file, expected the weights of step {step}")
    request = {"prompt": prompt, "tokens": tokens, "temperature": temperature, "seed": seed}
    with progress(f"writing {tokens:,} tokens", silent=json):
        text, at = _written(found, step, request, target=target and str(target), threads=threads)
    if json:
        digest = hashlib.sha256(text.encode()).hexdigest()
        as_json({"run": found.name, "step": at, "prompt": prompt, "text": text, "sha256": digest})
    else:
        print(printable(prompt + text))


def _written(run: Any, step: int | None, request: dict[str, Any], **options: Any) -> tuple[str, int]:
    """(text, step) from the weights of a step, None for the newest good ones.

    A run at work may remove a file between its choice and its loading: then another is chosen.
    """
    from andrea_lab.checkpoint.single import CheckpointError
    from andrea_lab.engine.engine import engine
    from andrea_lab.model.config import load_config

    while True:
        file = _newest_good(run) if step is None else run.weights(step)
        try:
            with engine(load_config(run.config), weights=file, **options) as made:
                return made.sample(request)["text"], made.done
        except CheckpointError:
            if step is not None or file.exists():
                raise


def _newest_good(run: Any) -> Path:
    """The newest weight file that loads; newer ones that do not are told on stderr. Raises RunError without one."""
    from andrea_lab.checkpoint.verify import LOADS, candidates, examine

    passed_over = []
    for file in candidates(run.path):
        verdict = examine(file)
        if verdict.verdict in LOADS:
            print("".join(passed_over), end="", file=sys.stderr)
            return file
        passed_over.append(f"andrea: passed over {file.name}, {verdict.verdict}: {printable(verdict.reason)}\n")
    return run.newest_weights()  # whose loading says what is wrong with it
