"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_MODEL = "smollm2-135m"
CORPUS = "A corpus: .jsonl, .csv, .tsv, .parquet, or .txt with one text a line."

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document (docs/json.md) instead of text.")]
Device = Annotated[str, typer.Option(help="Where the model runs: auto, cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[str, typer.Option(help="Numbers the model computes in: auto, float32, bfloat16, float16.")]
Model = Annotated[
    str, typer.Option(help="A model at hand (`covec models` lists them), any Hugging Face id, or a local folder.")
]
VectorModel = Annotated[
    str | None, typer.Option("--model", help="The model to use; left out, the one the vector was found in.")
]
Vector = Annotated[Path, typer.Argument(metavar="VECTOR", help="A concept vector or a bank of them (.safetensors).")]
TextColumn = Annotated[str | None, typer.Option(help="Column of the texts, where it is not `text`.")]
Concept = Annotated[str | None, typer.Option(help="Which vector, where the file holds several.")]
Force = Annotated[bool, typer.Option("--force", help="Use the vector although it was found in another model.")]
Seed = Annotated[int, typer.Option(help="Governs solvers, permutations and sampling.")]
BatchTokens = Annotated[
    int, typer.Option(min=1, help="Batch budget: tokens a forward pass takes at once. Lower it to save memory.")
]
