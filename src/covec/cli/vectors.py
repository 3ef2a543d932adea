"""`covec export` and `covec compare`: vectors as files for other tools, and beside one another."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from covec.cli import _options as options
from covec.cli._output import show, table, working
from covec.errors import CovecError
from covec.writing import check_apart

if TYPE_CHECKING:
    from covec.activations.store import ActivationStore
    from covec.concepts.bank import Bank
    from covec.concepts.vector import ConceptVector
    from covec.models.sites import Site

_ROWS = 4096  # of a store, that the nulls are made of
_MEASURES = {
    "angle": "degrees",
    "magnitude_ratio": "length",
    "procrustes": "Procrustes",
    "matching": "matched cosine",
    "jensen_shannon": "distributions",
}


def export(
    vector: options.Vector,
    out: Annotated[Path, typer.Option(help="The file to write.")],
    format: Annotated[
        str | None,
        typer.Option(help="gguf (a llama.cpp control vector) or npy; left out, what --out ends in says, or gguf."),
    ] = None,
    concept: options.Concept = None,
    json: options.Json = False,
) -> None:
    """Write a concept vector in the format of another tool."""
    with working():
        import covec
        from covec.concepts import exports

        check_apart(out, vector)
        chosen = covec.load_vector(vector, concept)
        format = _format(out, format)
        exports.export(chosen, format, out)
    document = {"concept": chosen.name, "format": format, "path": str(out), "bytes": out.stat().st_size}
    show(document, json, lambda: f"{chosen.name} written to {out}")


def _format(out: Path, wanted: str | None) -> str:
    """The format that the file's name says; one that says another than is wanted is refused."""
    ending = out.suffix.lower().lstrip(".")
    if wanted in ("gguf", "npy") and ending in ("gguf", "npy") and wanted != ending:
        raise CovecError(f"{out} would hold {wanted}: name it so, or give --format {ending}")
    return wanted or ("npy" if ending == "npy" else "gguf")


def compare(
    vector: Annotated[list[Path], typer.Argument(metavar="VECTOR...", help="Files with two vectors or more in all.")],
    rows: Annotated[
        Path | None,
        typer.Option(help="A folder that `covec capture` wrote: its rows make the nulls harder, and give distances."),
    ] = None,
    seed: options.Seed = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Compare vectors of two models, such as one and what it was tuned to.")
    ] = False,
    json: options.Json = False,
) -> None:
    """What vectors that read the same sites have in common, and what that would be by chance."""
    with working():
        import covec

        banks = [covec.load_bank(path) for path in vector]
        names = [name for bank in banks for name in bank]
        renamed = [
            [item if names.count(name) == 1 else replace(item, name=f"{file}:{name}") for name, item in bank.items()]
            for file, bank in zip(_told_apart(vector), banks, strict=True)
        ]
        cosines = covec.Bank([item for items in renamed for item in items]).cosines(force=force)
        if len(names) < 2:
            raise CovecError(f"{vector[0]} holds one vector: name another file beside it, there is nothing to compare")
        if not cosines:
            raise CovecError("no two of these vectors read the same site: there is nothing to compare")
        store = None if rows is None else covec.load_store(rows)
        files = dict(zip(_told_apart(vector), banks, strict=True))
        sites = [
            {
                "site": str(site),
                "names": list(found.names),
                "cosines": found.matrix.clamp(-1, 1).tolist(),
                "pairs": _pairs(
                    site,
                    {item.name: item for items in renamed for item in items if item.name in found.names},
                    files,
                    {"rows": _some_rows(store, site), "seed": seed, "force": force},
                ),
            }
            for site, found in cosines.items()
        ]
    show({"sites": sites}, json, lambda: "\n\n".join(map(_matrix, sites)))


def _pairs(
    site: Site, vectors: dict[str, ConceptVector], files: dict[str, Bank], given: dict[str, Any]
) -> list[dict[str, Any]]:
    """Every two vectors at a site, and every two files of which both have several there."""
    from covec.concepts.compare import compare

    whole = {name: bank for name, bank in files.items() if sum(site in vector.parts for vector in bank.values()) > 1}
    return [
        {"one": one, "other": other, **compare(sides[one], sides[other], site=site, **given).to_json()}
        for sides in (vectors, whole)
        for one, other in combinations(sides, 2)
    ]


def _some_rows(store: ActivationStore | None, site: Site) -> Any:
    """Rows of the store at a site, spread over all of them; None where there is no store."""
    if store is None:
        return None
    step = -(-store.rows // _ROWS)
    return store.at(site, range(0, store.rows, max(step, 1)))


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
    measures = [name for name in _MEASURES if any(pair[name]["value"] is not None for pair in site["pairs"])]
    found = [(pair["one"], pair["other"], *(_beside_null(pair[name]) for name in measures)) for pair in site["pairs"]]
    titles = (f"{_MEASURES[name]} (null)" for name in measures)
    return "\n\n".join([table((site["site"], *site["names"]), rows), table(("one", "other", *titles), found)])


def _beside_null(figure: dict[str, Any]) -> str:
    value, null = figure["value"], figure["null"]
    return "" if value is None else f"{value:.3g} ({null:.3g})"
