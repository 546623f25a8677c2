"""`andrea inspect`: one weight file, read in pieces."""

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from andrea_lab.commands.show import as_json, check_figure, out, printable, sizes, table

PIECE = 2**14  # numbers of each region held at once: few enough to stay in the cache


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A weight file, step_NNNNNN.bin.")],
    byte: Annotated[
        int | None, typer.Option(metavar="N", help="Say what byte N of it belongs to, and no more.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw what lies where in it to a .png.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Show what a weight file holds: header, size, digest, verdict, the log entry saved with it, and norms.

    Norms are those of each tensor of w, m and v, where a config.json beside the file says how it is cut. The update is
    what AdamW would make of m and v alone, its root mean square in learning rates. Exit code 1 when its numbers were
    changed or are not finite, 2 when its size, header or name do not fit.

    --byte reads only the header and the number at that byte: the region, the tensor, its place in it. --figure marks
    the byte in the picture.
    """
    from andrea_lab.checkpoint.single import UNREADABLE, CheckpointError, read_header
    from andrea_lab.checkpoint.sums import SumError, read_sum
    from andrea_lab.checkpoint.verify import LOADS
    from andrea_lab.progress import progress

    check_figure(figure)
    if byte is not None:
        found = _place(file, byte, figure)
        as_json(found) if json else _tell_place(found)
        return
    verdict = _examined(file, silent=json)
    if verdict.verdict in ("torn", UNREADABLE):
        raise CheckpointError(f"{file}: {verdict.reason}", verdict.verdict)
    step, n = read_header(file)
    try:
        beside = read_sum(file)
    except SumError:
        beside = None
    tensors, train, note = _cuts(file, n)
    cuts = [(tensor.name, tensor.offset, prod(tensor.shape)) for tensor in tensors]
    found = {"file": str(file), "step": step, "n_params": n, "nbytes": verdict.nbytes or file.stat().st_size}
    found |= {"verdict": verdict.verdict, "reason": verdict.reason, "sha256": verdict.sha256}
    with progress("measuring", n, "parameters", silent=json) as advance:
        measured = list(_counted(measure(file, step, n, cuts, train), advance))
    found |= {"entry": beside and beside.entry, "note": note, "tensors": measured}
    if figure is not None:
        found["figure"] = _draw(tensors, step, None, figure)
    as_json(found) if json else _tell(found)
    if verdict.verdict not in LOADS:
        raise typer.Exit(1)


def _examined(file: Path, silent: bool) -> Any:
    """The verdict on a file."""
    from andrea_lab.checkpoint.verify import examine
    from andrea_lab.commands.progress import reading
    from andrea_lab.progress import progress

    size = file.stat().st_size if file.is_file() else None
    with progress("reading weights", size, "B", silent=silent) as advance:
        return examine(file, files=reading(advance))


def _counted(measured: Iterator[dict[str, Any]], advance: Any) -> Iterator[dict[str, Any]]:
    """What was measured, each tensor counted once it is."""
    for each in measured:
        yield each
        advance(each["size"])


def _cuts(file: Path, n: int) -> tuple[tuple[Any, ...], Any, str | None]:
    """(the tensors, the training fields, None), or one cut for all, None and the reason."""
    from andrea_lab.checkpoint.place import Cut
    from andrea_lab.model.config import ConfigError, load_config
    from andrea_lab.model.layout import layout

    try:
        config = load_config(file.parent / "config.json")
        tensors = layout(config.model)
        if tensors.n_params != n:
            raise ConfigError(f"config.json beside it: found a model of {tensors.n_params} parameters, expected {n}")
    except ConfigError as error:
        return (Cut("all", 0, (n,)),), None, f"not cut into tensors: {error}"
    return tensors.tensors, config.train, None


def _draw(tensors: tuple[Any, ...], step: int, byte: int | None, figure: Path) -> str:
    from andrea_lab.view.weightfile import weight_file

    weight_file(tensors, step, byte).save(figure)
    return str(figure)


def _place(file: Path, byte: int, figure: Path | None) -> dict[str, Any]:
    """What a byte of the file belongs to, and the number it is a part of, as it stands in the file."""
    from andrea_lab.checkpoint.place import place
    from andrea_lab.checkpoint.single import HEADER, opened, read_header

    step, n = read_header(file)
    tensors, _, note = _cuts(file, n)
    there = place(byte, tensors, n)
    if there.region == "header":
        value: float | None = step if there.tensor == "step" else n
    else:
        with opened(file) as source:
            value = _finite(_numbers(file, source, (there.first - HEADER.size) // 4, 1)[0])
    found = {"file": str(file), "said": str(there), **vars(there), "value": value, "note": note}
    return found if figure is None else found | {"figure": _draw(tensors, step, byte, figure)}


def _tell_place(found: dict[str, Any]) -> None:
    print(printable(found["said"]))
    if found["region"] != "header":
        print(f"  byte {found['offset']:,} of the tensor; the number begins at byte {found['first']:,} of the file")
    print(f"  its value: {'not finite' if found['value'] is None else format(found['value'], '.9g')}")
    if found["note"]:
        print(printable(f"  {found['note']}"))
    if "figure" in found:
        print(printable(f"figure: {found['figure']}"))


def measure(
    file: Path, step: int, n: int, cuts: list[tuple[str, int, int]], train: Any = None
) -> Iterator[dict[str, Any]]:
    """{name, size, w, m, v, update} of each cut: the norms of the three regions, and the root mean square of AdamW's
    step without decay, in learning rates (None without `train`, at step 0, or where a number is not finite).

    Reads the file in pieces of 64 KiB of each region; sums in float64.
    """
    from andrea_lab.checkpoint.single import opened

    with opened(file) as source, np.errstate(all="ignore"):
        for name, offset, size in cuts:
            squares, moved = np.zeros(3), 0.0
            for at in range(offset, offset + size, PIECE):
                count = min(PIECE, offset + size - at)
                w, m, v = (_numbers(file, source, region * n + at, count) for region in range(3))
                squares += [_square(x) for x in (w, m, v)]
                if train is not None and step:
                    update = m / (1 - train.beta1**step) / (np.sqrt(v / (1 - train.beta2**step)) + train.eps)
                    moved += _square(update)
            norms = {region: _finite(np.sqrt(square)) for region, square in zip("wmv", squares, strict=True)}
            known = train is not None and step
            yield {"name": name, "size": size} | norms | {"update": _finite(np.sqrt(moved / size)) if known else None}


def _numbers(file: Path, source: Any, index: int, count: int) -> np.ndarray:
    """`count` numbers of an open weight file from number `index` on, as float64."""
    from andrea_lab.checkpoint.files import REAL, read_all
    from andrea_lab.checkpoint.single import HEADER, CheckpointError

    values = np.empty(count, np.float32)
    source.seek(HEADER.size + 4 * index)
    if read_all(REAL, source, memoryview(values).cast("B")) < values.nbytes:
        raise CheckpointError(f"{file}: found its end too early, expected a file nobody writes to", "torn")
    return values.astype(np.float64)


def _square(x: np.ndarray) -> float:
    """The sum of squares, without BLAS: its threads cost more than pieces this small are worth."""
    return float(np.einsum("i,i->", x, x))


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _tell(found: dict[str, Any]) -> None:
    n, nbytes = found["n_params"], found["nbytes"]
    mega, mebi = sizes(nbytes)
    lines = {
        "step": f"{found['step']:,}",
        "parameters": f"{n:,}",
        "size": f"8 + 12 x {n:,} = {nbytes:,} bytes = {mega} MB = {mebi} MiB",
        "sha256": found["sha256"] or "unknown",
        "verdict": " ".join(filter(None, (found["verdict"], found["reason"] and f"({found['reason']})"))),
    }
    lines |= {f"entry: {key}": str(value) for key, value in (found["entry"] or {}).items()}
    print(printable(found["file"]))
    for key, value in lines.items():
        print(printable(f"  {key:<16} {value}"))
    if found["note"]:
        print(printable(f"  {found['note']}"))
    shown = table("\nnorms", "tensor", ">numbers", ">w", ">m", ">v", ">update, in lr")
    for each in found["tensors"]:
        values = (each[key] for key in ("w", "m", "v", "update"))
        shown.add_row(each["name"], f"{each['size']:,}", *("" if value is None else f"{value:.4g}" for value in values))
    out.print(shown)
    if "figure" in found:
        print(printable(f"figure: {found['figure']}"))
