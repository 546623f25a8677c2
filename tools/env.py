"""Builds .venv from the hashed locks: `python tools/env.py lab|test [bench|cu12|cu13 ...]`, called by make.

Nothing is done when nothing changed. A stamp inside .venv holds what it was built from. uv, itself installed by pip
from the lock, does the work; where uv cannot reach a package index (it does not read pip's settings), pip installs the
same lock. Extras named after the profile come from pyproject.toml by pip, outside the lock but held to its versions.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "andrea-env.json"
LOCKS = {"lab": ROOT / "requirements.lock", "test": ROOT / "requirements-test.lock"}
EXTRAS = ("bench", "cu12", "cu13")
# No news pop-up over the first notebook, and no request to anyone but this machine.
LAB_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": False,
    }
}


class EnvError(Exception):
    """A step that failed; the text is what the user should read."""


def run(*command: object, env: dict[str, str] | None = None) -> None:
    """Runs a command quietly; raises EnvError with its last lines when it fails."""
    done = subprocess.run([str(c) for c in command], cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise EnvError(f"{' '.join(map(str, command[:6]))} failed:\n{tail}")


@contextlib.contextmanager
def progress(text: str):
    """Prints one line for one slow step, with its seconds when it ends."""
    print(f"{text} ...", end=" ", flush=True)
    start = time.monotonic()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - start:.0f} s", flush=True)


def digest(*paths: Path) -> str:
    """One hash over the files an environment is built from."""
    return hashlib.sha256(b"\0".join(p.read_bytes() for p in paths)).hexdigest()


def read_stamp() -> dict[str, str]:
    """What .venv was built from, empty when that is unknown or .venv was moved here from elsewhere."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if stamp.get("root") == str(ROOT) else {}


def venv_version() -> str | None:
    """The Python of .venv as 'X.Y', None when .venv is missing or does not run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def make_venv(stamp: dict[str, str]) -> dict[str, str]:
    """Keeps a .venv that fits, else makes a new one. A Python named by the user wins over the one .venv has."""
    ours = ".".join(map(str, sys.version_info[:2]))
    found = venv_version()
    fits = found in ("3.11", "3.12") and (found == ours or not os.environ.get("PYTHON"))
    if stamp and fits:
        return stamp
    with progress(f"Creating .venv with Python {sys.version.split()[0]}"):
        shutil.rmtree(VENV, ignore_errors=True)
        try:
            run(sys.executable, "-m", "venv", VENV)
        except EnvError as error:
            hint = "On Debian and Ubuntu the module venv comes with the package python3-venv."
            raise EnvError(f"{error}\n{hint}") from None
    return {"root": str(ROOT)}


def pip(*arguments: object) -> None:
    """pip of .venv, quiet."""
    run(PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-q", *arguments)


def lock_entry(lock: Path, name: str) -> str:
    """The lines of one package in a lock, hashes included."""
    match = re.search(rf"^{re.escape(name)}==.*\n(?: .*\n)*", lock.read_text(), re.MULTILINE)
    if match is None:
        raise EnvError(f"{lock.name} holds no {name}: run make lock")
    return match.group()


def bootstrap_uv(lock: Path) -> None:
    """Installs uv with pip, from the lock like everything else."""
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch) / "uv.lock"
        wanted.write_text(lock_entry(lock, "uv"))
        pip("--require-hashes", "--no-deps", "-r", wanted)


def install_lock(lock: Path) -> None:
    """Installs a lock with uv, or with pip alone where uv cannot."""
    choice = os.environ.get("INSTALLER") or "auto"
    if choice not in ("auto", "uv", "pip"):
        raise EnvError(f"INSTALLER: expected uv or pip, found {choice}")
    count = len(re.findall(r"^\S+==", lock.read_text(), re.MULTILINE))
    if choice != "pip":
        try:
            with progress(f"Installing {count} packages of {lock.name} with uv"):
                bootstrap_uv(lock)
                compiled = ("--compile-bytecode",)  # as pip does: else every process compiles what it imports
                env = {"UV_HTTP_TIMEOUT": "30", **os.environ, "VIRTUAL_ENV": str(VENV)}
                run(
                    VENV / "bin" / "uv",
                    "pip",
                    "install",
                    "--require-hashes",
                    "--no-deps",
                    *compiled,
                    "-r",
                    lock,
                    env=env,
                )
            return
        except EnvError as error:
            if choice == "uv":
                raise
            print(f"uv could not ({str(error).splitlines()[-1].strip()}); pip takes over", flush=True)
    with progress(f"Installing {count} packages of {lock.name} with pip"):
        pip("--require-hashes", "--no-deps", "-r", lock)


def install_project() -> None:
    """Puts the two packages and the command `andrea` into .venv, editable, without asking any index."""
    pip("--no-deps", "--no-build-isolation", "--no-index", "-e", ROOT)
    settings = VENV / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps(LAB_SETTINGS, indent=1) + "\n")


def install_extra(name: str, lock: Path) -> None:
    """Installs an extra of pyproject.toml by pip, holding everything locked at its locked version.

    The CUDA packages are left free: an extra chooses between CUDA 12 and 13. pip's own settings (an extra index, a
    folder of wheels) decide which build of torch is taken.
    """
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][name]
    pins = re.findall(r"^(\S+==\S+(?: ;.*?)?) \\$", lock.read_text(), re.MULTILINE)
    free = ("cuda-", "nvidia-", "setuptools==")
    with tempfile.TemporaryDirectory() as scratch:
        constraints = Path(scratch) / "constraints.txt"
        constraints.write_text("\n".join(p for p in pins if not p.startswith(free)) + "\n")
        with progress(f"Installing the extra {name} ({', '.join(wanted)}) with pip"):
            pip("-c", constraints, *wanted)


def build(profile: str, extras: list[str]) -> None:
    """Brings .venv up to a profile and its extras."""
    stamp = make_venv(read_stamp())
    lock = LOCKS[profile]
    want = digest(lock, ROOT / "requirements.lock")
    project = digest(ROOT / "pyproject.toml", Path(__file__))
    have_test = stamp.get("test") == digest(LOCKS["test"], ROOT / "requirements.lock")
    if not have_test and stamp.get(profile) != want:
        install_lock(lock)
        stamp[profile] = want
        stamp.pop("project", None)
    if stamp.get("project") != project:
        with progress("Installing andrea-lab itself"):
            install_project()
        stamp["project"] = project
    STAMP.write_text(json.dumps(stamp))
    for name in extras:
        if stamp.get(name) != project:
            install_extra(name, lock)
            stamp[name] = project
            STAMP.write_text(json.dumps(stamp))


def main(arguments: list[str]) -> int:
    """Checks the arguments, builds, and turns a failure into a message."""
    profile, *extras = arguments or [""]
    if profile not in LOCKS:
        print(f"profile: expected lab or test, found {profile!r}", file=sys.stderr)
        return 2
    for name in extras:
        if name not in EXTRAS:
            print(f"EXTRAS: expected {', '.join(EXTRAS)}, found {name}", file=sys.stderr)
            return 2
    try:
        build(profile, extras)
    except EnvError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
