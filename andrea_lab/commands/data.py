"""`andrea data`: the vendored texts."""

from typing import Annotated

import typer

from andrea_lab.commands.show import as_json, out, table

app = typer.Typer(help="List, verify and rebuild the texts that models learn from.", no_args_is_help=True)

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Sources; default: all.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@app.command("list")
def list_(json: Json = False) -> None:
    """List the sources: what they are, how large, under which licence."""
    from andrea_lab.text import sources

    found = {}
    for name, source in sources().items():
        found[name] = {"title": source.title, "kind": source.kind, "licence": source.licence}
        found[name] |= {"documents": len(source.documents), "bytes": sum(map(len, source.documents))}
        found[name] |= {"held_out_documents": len(source.held_out_docs)}
    if json:
        as_json(found)
        return
    shown = table("sources", "name", "title", "kind", ">kB", ">documents", ">held out", "licence")
    for name, about in found.items():
        size = f"{about['bytes'] / 1000:,.0f}"
        counts = f"{about['documents']:,}", f"{about['held_out_documents']:,}"
        shown.add_row(name, about["title"], about["kind"], size, *counts, about["licence"])
    out.print(shown)


@app.command("verify")
def verify(names: Names = None, json: Json = False) -> None:
    """Check that every text and licence has the bytes that were recorded. Needs no network."""
    from andrea_lab.text import build as builder

    problems = builder.verify(names or None)
    if json:
        as_json({"problems": problems})
    elif problems:
        print("\n".join(problems))
    else:
        print("every text and licence is as recorded")
    if problems:
        raise typer.Exit(1)


@app.command("build")
def build(names: Names = None, json: Json = False) -> None:
    """Rebuild the texts from the packages they come from. Needs a network, apt-get, dpkg-deb and pip."""
    from andrea_lab.progress import progress
    from andrea_lab.text import build as builder

    with progress("building", len(names or builder.RECIPES), "texts", silent=json) as advance:
        built = builder.build(names or None, on_built=lambda one: advance(1, one.name))
    _report("rebuilt, byte for byte as recorded", built, json)


def _report(what: str, built: list, json: bool) -> None:
    if json:
        as_json([{"name": b.name, "bytes": b.bytes, "documents": b.documents, "sha256": b.sha256} for b in built])
        return
    shown = table(f"{len(built)} sources {what}", "name", ">bytes", ">documents", "sha256")
    for one in built:
        shown.add_row(one.name, f"{one.bytes:,}", f"{one.documents:,}", one.sha256[:16])
    out.print(shown)
