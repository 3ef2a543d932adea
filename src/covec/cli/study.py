"""`covec study`: find concepts, prove them, write the report."""

from __future__ import annotations

import json as documents
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from covec.cli import _options as options
from covec.cli._loading import load
from covec.cli._output import note, show, working
from covec.cli._progress import bars
from covec.errors import CovecError

WRITTEN = ("summary.json", "vectors.safetensors", "report.html", "sweep.parquet")


def study(
    file: Annotated[
        Path,
        typer.Argument(
            help="Labelled texts: .jsonl, .csv, .tsv, .parquet, or a folder with positive.txt and negative.txt."
        ),
    ],
    model: options.Model = options.DEFAULT_MODEL,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for summary.json, vectors.safetensors, report.html and sweep.parquet."),
    ] = None,
    sites: Annotated[str, typer.Option(help="Where to look, such as resid.* or resid.10:20,mlp.50%.")] = "resid.*",
    finders: Annotated[
        str | None, typer.Option(help="Methods to try, with commas; left out, all that can run.")
    ] = None,
    position: Annotated[str, typer.Option(help="Tokens to read, with commas, such as last,mean.")] = "last,mean",
    positive: Annotated[str | None, typer.Option(help="The label that has the concept, against the rest.")] = None,
    each_class: Annotated[bool, typer.Option("--each-class", help="One vector a label, against the rest.")] = False,
    text_column: options.TextColumn = None,
    label_column: Annotated[str | None, typer.Option(help="Column of the labels, where it is not `label`.")] = None,
    continuations: Annotated[
        Path | None, typer.Option(help="Continuations with labels, for whether the model uses the concept.")
    ] = None,
    split_seed: Annotated[int, typer.Option(help="The salt of the split: the only option that moves rows.")] = 0,
    seed: options.Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Every third block, closed forms, no test of use.")] = False,
    nulls: Annotated[int, typer.Option(min=1, help="Shuffled-label vectors that use is judged against.")] = 19,
    exact_permutations: Annotated[
        int | None, typer.Option(min=1, help="Refit everything for this many permutations of the labels; slow.")
    ] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    batch_tokens: options.BatchTokens = 512,
    json: options.Json = False,
) -> None:
    """Find the concepts of a file, test them on held-out rows, and write a report."""
    from covec.writing import whole_folder

    replaced = out is not None and _replaces(out)
    with working(), whole_folder(out) if out else nullcontext() as folder:
        import covec
        from covec.concepts.examples import read_concepts, require_enough

        examples = read_concepts(
            file, text_column=text_column, label_column=label_column, positive=positive, each_class=each_class
        )
        for one in examples.values():
            require_enough(one)  # before the model is loaded
        result = covec.study(
            load(model, device=device, dtype=dtype),
            examples,
            sites=sites,
            finders=finders,
            position=position,
            continuations=continuations,
            split_seed=split_seed,
            seed=seed,
            quick=quick,
            nulls=nulls,
            exact_permutations=exact_permutations,
            batch_tokens=batch_tokens,
            progress=bars(),
        )
        if folder:
            result.write(folder)
        studies = [result] if isinstance(result, covec.Study) else result.values()
        for line in dict.fromkeys(line for one in studies for line in one.notes):
            note(line)
    show(result.summary(), json, lambda: str(result))
    if out:
        note(f"report: {out / 'report.html'}{', in place of the study that was there' if replaced else ''}")


def _replaces(out: Path) -> bool:
    """Whether an earlier study lies in the folder; refuses files of the same names that no study wrote."""
    standing = [name for name in WRITTEN if os.path.exists(out / name)]
    try:
        earlier = documents.loads((out / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        earlier = None
    if standing and not (isinstance(earlier, dict) and earlier.keys() & {"verdict", "concepts"}):
        raise CovecError(f"{out} holds {standing[0]}, which no study wrote: name another folder")
    return bool(standing)
