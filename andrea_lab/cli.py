"""The command line: `andrea train | resume | signal | sample | verify | memory | doctor | ...`.

Exit codes: 0 done, or stopped cleanly with what there was saved; 1 broke down; 2 a mistake of the user's; 75 the disk
failed or the engine's process was killed, and a later try may do; 130 aborted. Whatever went wrong is one line on
stderr. Nothing imports this module.
"""

import errno
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import typer
import typer.core

from andrea_lab import __version__
from andrea_lab.commands import (
    bench,
    compare,
    dashboard,
    data,
    doctor,
    fork,
    inspect,
    memory,
    mutants,
    pin,
    resume,
    sample,
    signal,
    train,
    verify,
)

BROKE_DOWN, MISTAKE, TRY_AGAIN, ABORTED = 1, 2, 75, 130
DISK = {getattr(errno, name, None) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS")} - {None}


class _Interrupted(Exception):
    """Carries a KeyboardInterrupt past typer, which would make it an exit code without a word."""


class _Commands(typer.core.TyperGroup):
    def invoke(self, context: typer.Context) -> object:
        try:
            return super().invoke(context)
        except KeyboardInterrupt as error:
            raise _Interrupted from error


app = typer.Typer(
    name="andrea",
    cls=_Commands,
    help="Train, look into and measure the ANDREA language models. Start with: andrea train ANDREA-nano",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("resume")(resume.resume)
app.command("signal")(signal.signal)
app.command("dashboard")(dashboard.dashboard)
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
    """Run one command and return its exit code.

    What it printed is written out here: at the interpreter's end a failure would be two lines and a code of its own.
    """
    code = _run(sys.argv[1:] if arguments is None else arguments)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # the work is done, and its reader has read enough
        _no_more()
    except OSError as error:
        _no_more()
        code = code or _failed(error)
    return code


def _run(arguments: list[str]) -> int:
    try:
        return int(app(arguments, prog_name="andrea", standalone_mode=False) or 0)
    except _Interrupted as error:
        return _interrupted(error.__cause__)
    except BrokenPipeError:
        _no_more()
        return BROKE_DOWN
    except Exception as error:
        return _failed(error)


def _no_more() -> None:
    """Let what is left to print go nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _interrupted(error: KeyboardInterrupt) -> int:
    """A stop before there was anything to save is a clean end; everything else is an abort."""
    if type(error).__name__ == "Stopped":
        print(error)
        return 0
    return _fail(str(error) or "stopped by Ctrl-C; what was saved before is untouched", ABORTED)


def _failed(error: Exception) -> int:
    """Tell an error in one line and return the exit code of its kind."""
    if type(error).__name__ == "SaveError" or _of_the_disk(error) or _of_the_disk(error.__cause__):
        return _fail(_os_error(error) if isinstance(error, OSError) else str(error), TRY_AGAIN)
    text = _user_mistake(error)
    if text is not None:
        return _fail(text, BROKE_DOWN if getattr(error, "verdict", "") == "non-finite" else MISTAKE)
    ends = {"TrainingStopped": BROKE_DOWN, "EngineDied": TRY_AGAIN}
    if type(error).__name__ in ends:
        return _fail(str(error), ends[type(error).__name__])
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}, {last.name}"
    return _fail(f"a fault of the program's own: {type(error).__name__}: {error} ({where})", BROKE_DOWN)


def _of_the_disk(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in DISK


def _user_mistake(error: Exception) -> str | None:
    """The line to print when the error is the user's to mend, else None."""
    if hasattr(error, "format_message"):  # the command line itself could not be read
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "andrea"
        return f"{error.format_message()} (see {command} --help)"
    from andrea_lab.bench.server import BenchError
    from andrea_lab.checkpoint.lock import LockError
    from andrea_lab.checkpoint.single import CheckpointError
    from andrea_lab.engine.errors import EngineError
    from andrea_lab.model.config import ConfigError
    from andrea_lab.run.directory import RunError
    from andrea_lab.run.losslog import LogError
    from andrea_lab.text import TextError
    from kernels.target import KernelError

    known = (
        ConfigError,
        RunError,
        LogError,
        LockError,
        CheckpointError,
        EngineError,
        TextError,
        KernelError,
        BenchError,
    )
    if isinstance(error, known):
        return str(error)
    if isinstance(error, OSError):
        return _os_error(error)
    if isinstance(error, MemoryError):
        return f"memory: {error or 'not enough of it'}; see andrea memory CONFIG, and lower train.batch"
    return None


def _os_error(error: OSError) -> str:
    return str(error) if error.filename is None else f"{error.filename}: {error.strerror}"


def _fail(text: str, code: int) -> int:
    print("andrea: " + " ".join(text.split()), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
