"""`andrea dashboard`: the live view of a folder of runs, in a browser or as one file."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from andrea_lab.commands.show import printable


def dashboard(
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="A folder of runs, or one run.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; the default is reached from here alone.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = 8899,
    token: Annotated[
        str | None,
        typer.Option(envvar="ANDREA_DASHBOARD_TOKEN", help="Word to ask for; drawn where one is needed."),
    ] = None,
    allow_control: Annotated[
        bool, typer.Option("--allow-control", help="Let the page ask runs for a checkpoint or a stop.")
    ] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, open no browser.")] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write one file that shows the runs; serve nothing.")
    ] = None,
    run: Annotated[
        list[str] | None, typer.Option("--run", metavar="NAME", help="With --save: only this run; repeat.")
    ] = None,
) -> None:
    """Show runs while they train: a page on this machine that reads their files and disturbs nothing.

    FOLDER is where runs are kept (by default the laboratory's own), up to three levels deep, or one run. The page only
    looks on. With --allow-control it has buttons for a checkpoint and a stop, for who has the token in the address that
    is printed. Ctrl-C or SIGTERM ends the server, exit code 0; runs go on. With --save FILE.html nothing is served: the
    file holds the whole history and opens from disk, without this program and without a network.
    """
    from andrea_lab.paths import runs_dir
    from andrea_lab.run.directory import RunError

    folder = runs_dir() if folder is None else folder
    if save is not None:
        _save(folder, save, run or [])
        return
    if run:
        raise RunError("--run: found it without --save FILE.html, expected both: the page itself chooses what to show")
    _serve(folder, host, port, token, allow_control, not no_open)


def _serve(folder: Path, host: str, port: int, token: str | None, control: bool, browser: bool) -> None:
    from andrea_lab.view.dashboard.serve import Server

    server = Server(folder, host, port, token, control)
    print(printable(f"runs of {folder}: {server.address}"))
    if control:
        print("this address may ask runs for a checkpoint or a stop: it is for you alone")
    elif server.site.token:
        print("the token in this address is what lets one look: give it to those who may")
    print("Ctrl-C ends the page, not the runs", flush=True)
    # A browser's arguments are seen by every user of the machine, so an address with a token is for the user to open.
    server.run(lambda: _open(server.address) if browser and server.site.token is None else None)


def _open(address: str) -> None:
    """Open a browser that has a screen; one that runs in a terminal would take it from this program."""
    import threading
    import webbrowser

    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _save(folder: Path, file: Path, names: list[str]) -> None:
    from andrea_lab.commands.show import check_file, sizes
    from andrea_lab.view.dashboard.save import save_page

    check_file("--save", file, ".html")
    shown = save_page(folder, file, names)
    megabytes, _ = sizes(file.stat().st_size)
    print(printable(f"{file}: {len(shown)} run{'s' * (len(shown) != 1)}, {megabytes} MB"))
