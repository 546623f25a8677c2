"""`andrea memory`: the memory plan of a configuration."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from andrea_lab.commands.show import as_json, check_figure, out, printable, sizes, table


def memory(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A preset such as ANDREA-12M, or FILE.json.")],
    batch: Annotated[int | None, typer.Option(min=1, help="Rows of one microbatch, B. Default: the config's.")] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens of a row, T. Default: the config's.")] = None,
    precision: Annotated[str, typer.Option(help="float32, what training allocates; float16 asks what if.")] = "float32",
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it over batch and context to a .png.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Print every byte that training will allocate, by role, before it does.

    Weights, gradients and AdamW's m and v depend on the model alone; what forward saves for backward grows with batch
    times context. The plan is what the engine allocates, not an estimate. Below it: common claims about the memory of
    these models, checked.
    """
    from andrea_lab import paths
    from andrea_lab.model.claims import claims
    from andrea_lab.model.config import ConfigError, load_config
    from andrea_lab.model.memory import plan

    loaded = load_config(config, paths.experiments_dir())
    if precision not in ("float32", "float16"):
        raise ConfigError(f"--precision: found {precision!r}, expected float32 or float16")
    check_figure(figure)
    loaded = loaded.with_train(batch=batch, context=context)
    made = plan(loaded.model, loaded.train.batch, loaded.train.context, precision)
    roles = made.by_role() | {"padding": made.padding}
    if figure is not None:
        draw(loaded.model, made).save(figure)
    if json:
        checked = [vars(claim) for claim in claims()]
        drawn = {} if figure is None else {"figure": str(figure)}
        as_json(
            {"config": loaded.name, "n_params": made.n_params, "batch": made.batch, "context": made.context}
            | {"precision": precision, "total_bytes": made.total, "bytes_by_role": roles, "saved_bytes": made.saved()}
            | {"weight_file_bytes": 8 + 12 * made.n_params, "save_copy_bytes": 12 * made.n_params, "claims": checked}
            | drawn
        )
        return
    _tell(loaded.name, made, roles)
    if figure is not None:
        print(printable(f"figure: {figure}"))


def _tell(name: str, made: Any, roles: dict[str, int]) -> None:
    """The tables: what is allocated by role, what a save takes, which claims hold."""
    from andrea_lab.model.claims import claims
    from andrea_lab.model.memory import ROLES

    title = f"{name}: {made.n_params:,} parameters, B = {made.batch}, T = {made.context}, {made.precision}"
    shown = table(title, "role", ">MB", ">MiB", "what it is")
    for role, nbytes in roles.items():
        shown.add_row(role, *sizes(nbytes), ROLES.get(role, "to start every array at a multiple of 64 bytes"))
        if role == "saved":
            for kind, part in made.saved().items():
                shown.add_row(f"  {kind}", *sizes(part), "")
    shown.add_row("total", *sizes(made.total), f"{made.total / (4 * made.n_params):.1f} times the float32 weights")
    out.print(shown)
    file = table("\nto save", "where", ">MB", ">MiB", "what it is")
    file.add_row("on disk", *sizes(8 + 12 * made.n_params), "step_NNNNNN.bin, 8 + 12 n bytes: step, n, weights, m, v")
    file.add_row("in memory", *sizes(12 * made.n_params), "the copy on the host that is written while training goes on")
    out.print(file)
    out.print("\n[bold]what is said, and what the shapes say[/bold] (12M and 120M, B = 8, T = 1024)", markup=True)
    for claim in claims():
        verdict = "holds" if claim.holds else "wrong"
        out.print(f"{claim.about}: “{claim.says}”: [bold]{verdict}[/bold]. {claim.found}", markup=True, soft_wrap=False)


def draw(model: Any, made: Any) -> Any:
    """The picture of a plan: bytes by role over the batch and over the context of a model."""
    from andrea_lab.model.memory import plan, scores
    from andrea_lab.view.memoryplan import memory_plan

    kept = scores(model, made.batch, made.context, made.precision)
    sized = partial(plan, model, precision=made.precision)
    return memory_plan(sized, made.batch, made.context, model.context, kept)
