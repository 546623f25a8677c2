"""`andrea mutants`: the mutant bank, shipped kernels with one thing wrong, and who sees it."""

import time
from typing import Annotated

import typer

from andrea_lab.commands.show import as_json, out, table


def mutants(
    kernel: Annotated[str | None, typer.Option(metavar="NAME", help="One kernel or device function only.")] = None,
    cls: Annotated[str | None, typer.Option("--class", metavar="CLASS", help="One class of changes only.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, metavar="N", help="Judge N of them, drawn from --seed.")] = None,
    seed: Annotated[int, typer.Option(help="Where the sample is drawn from.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at once.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Judge mutants: every shipped kernel with one thing wrong, run against what a learner's kernel meets.

    A mutant is killed when the check target reports a fault, a result differs from the float64 reference, a number has
    become a float64, or a case's bound on accesses is broken; what passes all that is compiled and compared once more.
    Equivalent are those that do the very same as the kernel, each with a proof among the tests. Exit code 1 when one
    is left over.
    """
    from andrea_lab.lesson import mutants as bank
    from andrea_lab.progress import progress
    from kernels import KernelError

    if kernel is not None and kernel not in bank.subjects():
        raise KernelError(f"--kernel: found {kernel!r}, expected one of {', '.join(bank.subjects())}")
    if cls is not None and cls not in bank.CLASSES:
        raise KernelError(f"--class: found {cls!r}, expected one of {', '.join(bank.CLASSES)}")
    chosen = bank.bank(kernel, cls)
    if sample is not None:
        chosen = bank.sample(chosen, sample, seed)
    start = time.perf_counter()
    with progress("judging", len(chosen), "mutants", silent=json) as advance:
        verdicts = bank.run(chosen, jobs, on_verdict=lambda mutant, verdict: advance())
    seconds = time.perf_counter() - start
    rows = bank.tally(verdicts)
    overall = {key: sum(row[key] for row in rows.values()) for key in ("total", "killed", "equivalent")}
    left = [m for m, verdict in verdicts.items() if not verdict.killed and bank.reason(m) is None]
    stale = [m for m, verdict in verdicts.items() if verdict.killed and bank.reason(m) is not None]
    if json:
        named = {"survivors": [str(m) for m in left], "killed_though_listed": [str(m) for m in stale]}
        as_json({"classes": rows, "overall": overall, **named, "seconds": round(seconds, 1)})
    else:
        _print(rows | {"all": overall}, left, stale, seconds)
    if left or stale:
        raise typer.Exit(1)


def _print(rows, left, stale, seconds: float) -> None:
    shown = table("mutants", "class", ">all", ">killed", ">equivalent", ">left over")
    for name, row in rows.items():
        if row["total"]:
            over = row["total"] - row["killed"] - row["equivalent"]
            shown.add_row(name, *(f"{n:,}" for n in (row["total"], row["killed"], row["equivalent"], over)))
    out.print(shown)
    for mutant in left:
        out.print(f"left over: {mutant}")
    for mutant in stale:
        out.print(f"listed as equivalent, but killed: {mutant}")
    out.print(f"{seconds:.0f} s")
