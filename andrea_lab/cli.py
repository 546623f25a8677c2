"""The command line: `andrea train | sample | memory | doctor | mutants | bench | data`.

A mistake of the user's is one line on stderr and exit code 2; a run that broke down is one line and exit code 1.
Nothing imports this module.
"""

import sys

import typer

from andrea_lab import __version__
from andrea_lab.commands import bench, compare, data, doctor, fork, inspect, memory, mutants, pin, sample, train, verify

app = typer.Typer(
    name="andrea",
    help="Train, look into and measure the ANDREA language models. Start with: andrea train ANDREA-nano",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("sample")(sample.sample)
app.command("verify")(verify.verify)
app.command("inspect")(inspect.inspect)
app.command("fork")(fork.fork)
app.command("compare")(compare.compare)
app.command("pin")(pin.pin)
app.command("memory")(memory.memory)
app.command("doctor")(doctor.doctor)
app.command("mutants")(mutants.mutants)
app.add_typer(bench.app, name="bench")
app.add_typer(data.app, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"andrea-lab {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return int(app(arguments, prog_name="andrea", standalone_mode=False) or 0)
    except KeyboardInterrupt:
        return _fail("stopped by Ctrl-C; what was saved before is untouched", 130)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:
        text = _user_mistake(error)
        if text is not None:
            return _fail(text, 2)
        if type(error).__name__ == "TrainingStopped":
            return _fail(str(error), 1)
        raise


def _user_mistake(error: Exception) -> str | None:
    """The line to print when the error is the user's to mend, else None."""
    if hasattr(error, "format_message"):  # the command line itself could not be read
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "andrea"
        return f"{error.format_message()} (see {command} --help)"
    from andrea_lab.bench.server import BenchError
    from andrea_lab.checkpoint.single import CheckpointError
    from andrea_lab.engine.errors import EngineError
    from andrea_lab.model.config import ConfigError
    from andrea_lab.run.directory import RunError
    from andrea_lab.run.losslog import LogError
    from andrea_lab.text import TextError
    from kernels.target import KernelError

    known = (ConfigError, RunError, LogError, CheckpointError, EngineError, TextError, KernelError, BenchError)
    if isinstance(error, known):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"memory: {error or 'not enough of it'}; see andrea memory CONFIG, and lower train.batch"
    return None


def _fail(text: str, code: int) -> int:
    print("andrea: " + " ".join(text.split()), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
