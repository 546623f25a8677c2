"""`andrea doctor`: is this machine ready, and what to mend if not."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from andrea_lab.commands.show import as_json, out, table

PACKAGES = ("andrea-lab", "numba", "llvmlite", "numba-cuda", "numpy", "threadpoolctl", "jupyterlab", "matplotlib")


def doctor(json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False) -> None:
    """Look at this machine: the target kernels will run on, versions, and problems with what mends them."""
    report = examine()
    if json:
        as_json(report)
        return
    shown = table("andrea doctor", "", "")
    shown.add_row("target", f"{report['target']} ({report['cuda']})")
    shown.add_row("processor", f"{report['cpu']['name']}, {report['cpu']['cores']} cores, {report['threads']} threads")
    shown.add_row("BLAS", str(report["blas"]))
    shown.add_row("compile cache", str(report["cache"]))
    shown.add_row("versions", ", ".join(f"{name} {version}" for name, version in report["versions"].items()))
    out.print(shown)
    for problem in report["problems"]:
        out.print(f"problem: {problem}")
    if not report["problems"]:
        out.print("no problems: try andrea train ANDREA-nano")


def examine() -> dict[str, Any]:
    """What `andrea doctor --json` prints: target, versions, problems, and what they were found from."""
    from kernels.target import current, threads

    problems: list[str] = []
    report = {"target": current(), "threads": threads(), "cpu": _cpu(), "versions": _versions(problems)}
    report |= {"cuda": _cuda(), "blas": _blas(problems), "cache": _cache(problems), "kernels": _kernels(problems)}
    return report | {"problems": problems}


def _cpu() -> dict[str, Any]:
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        named = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = named[0].split(":", 1)[1].strip() if named else name
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"name": name, "cores": cores, "system": f"{platform.system()} {platform.machine()}"}


def _versions(problems: list[str]) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "missing"
            mend = "pip install -e ." if package == "andrea-lab" else f"pip install {package}, or make env"
            problems.append(f"{package} is not installed: {mend}")
    if not (3, 11) <= tuple(int(n) for n in platform.python_version_tuple()[:2]) <= (3, 12):
        problems.append(f"Python is {found['python']}, expected 3.11 or 3.12: make a new environment with one of them")
    return found


def _cuda() -> str:
    """Whether a GPU answers, in words."""
    from kernels.target import KernelError, use

    try:
        with use("cuda"):
            return "a CUDA device answers"
    except KernelError:
        return "no NVIDIA device answers"


def _blas(problems: list[str]) -> str | None:
    from kernels.blas import numpy_blas

    blas = numpy_blas()
    if blas is None:
        problems.append("NumPy's BLAS offers no sgemm that can be called directly: matrix products go through NumPy")
        return None
    info = blas.threads.info()
    return f"{info['internal_api']} {info['version']} ({Path(info['filepath']).name})"


def _cache(problems: list[str]) -> str:
    from kernels.target import cache_folder

    folder = cache_folder()
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(nearest, os.W_OK):
        problems.append(f"the compile cache {folder} cannot be written: every start compiles anew; mend its rights")
    return str(folder)


def _kernels(problems: list[str]) -> str:
    """Where the package `kernels` comes from; another distribution may have taken that name."""
    import andrea_lab
    import kernels

    found, ours = (Path(package.__file__).resolve().parent for package in (kernels, andrea_lab))
    if found.parent != ours.parent:
        problems.append(f"`import kernels` finds {found}, expected {ours.parent / 'kernels'}: remove the other one")
    owners = {dist for dist in metadata.packages_distributions().get("kernels", []) if dist != "andrea-lab"}
    if owners:
        names = ", ".join(sorted(owners))
        problems.append(f"the distribution {names} also brings a package `kernels`: pip uninstall {names}")
    return str(found)
