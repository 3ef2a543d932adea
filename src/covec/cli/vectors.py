"""`covec export` and `covec compare`: vectors as files for other tools, and beside one another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from covec.cli import _options as options
from covec.cli._output import show, table, working
from covec.errors import CovecError


def export(
    vector: options.Vector,
    out: Annotated[Path, typer.Option(help="The file to write.")],
    format: Annotated[str, typer.Option(help="gguf (a llama.cpp control vector) or npy.")] = "gguf",
    concept: options.Concept = None,
    json: options.Json = False,
) -> None:
    """Write a concept vector in the format of another tool."""
    with working():
        import covec
        from covec.concepts import exports

        chosen = covec.load_vector(vector, concept)
        exports.export(chosen, format, out)
    document = {"concept": chosen.name, "format": format, "path": str(out), "bytes": out.stat().st_size}
    show(document, json, lambda: f"{chosen.name} written to {out}")


def compare(
    vector: Annotated[list[Path], typer.Argument(metavar="VECTOR...", help="Files with two vectors or more in all.")],
    json: options.Json = False,
) -> None:
    """Cosines between the directions of vectors found at the same sites of the same model."""
    with working():
        import covec

        banks = [covec.load_bank(path) for path in vector]
        names = [name for bank in banks for name in bank]
        renamed = [
            item if names.count(name) == 1 else replace(item, name=f"{file}:{name}")
            for file, bank in zip(_told_apart(vector), banks, strict=True)
            for name, item in bank.items()
        ]
        cosines = covec.Bank(renamed).cosines()
        if not cosines:
            raise CovecError("no two of these vectors read the same site: there is nothing to compare")
    sites = [
        {"site": str(site), "names": list(found.names), "cosines": found.matrix.clamp(-1, 1).tolist()}
        for site, found in cosines.items()
    ]
    show({"sites": sites}, json, lambda: "\n\n".join(map(_matrix, sites)))


def _told_apart(paths: list[Path]) -> list[str]:
    """The shortest names that tell the files apart: their stems, or else with their folders."""
    whole = [path.resolve().with_suffix("").parts for path in paths]
    if len(set(whole)) < len(whole):
        twice = paths[whole.index(max(whole, key=whole.count))]
        raise CovecError(f"{twice} is given twice; name each file once")
    depth = next(n for n in range(1, max(map(len, whole)) + 1) if len({parts[-n:] for parts in whole}) == len(whole))
    return ["/".join(parts[-depth:]) for parts in whole]


def _matrix(site: dict[str, Any]) -> str:
    rows = [
        (name, *(f"{value:+.3f}" for value in row)) for name, row in zip(site["names"], site["cosines"], strict=True)
    ]
    return table((site["site"], *site["names"]), rows)
