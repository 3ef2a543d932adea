"""Whether the model uses what a study found: which texts, prompts and continuations that is tested with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from covec.concepts.packaged import neutral_prompts, neutral_texts
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError
from covec.measure._readout import Continuation
from covec.measure.used import Used, used
from covec.models.load import reread
from covec.models.text import TextModel
from covec.progress import Progress
from covec.statistics.splits import lot
from covec.studies._holdout import Found
from covec.studies._settings import Settings
from covec.studies._sweep import Data

NEUTRAL_TEXTS = 16  # on which the divergence of an edit is measured
SOURCES = 16  # held-out texts a class that serve as continuations
ABLATED = 40  # held-out inputs a class on which ablation is measured


def precise_model(model: TextModel) -> TextModel:
    """The model in float32, read again where it was loaded in less; a live one is taken as it is."""
    if model.dtype == torch.float32:
        return model
    return reread(model, torch.float32) or model


def test_of_use(
    model: TextModel,
    precise: TextModel | None,
    data: Data,
    found: Found,
    vector: ConceptVector,
    settings: Settings,
    progress: Progress,
) -> Used:
    """Test on held-out inputs whether `precise` uses the vector; where that cannot be tested, why."""
    if precise is None:
        return Used(why="a quick study does not test it")
    if not model.generates:
        return Used(why=f"{model.name} continues no text, from which a use could be read")
    inputs = _drawn(data, found, settings)
    continuations = settings.continuations or _continuations(inputs)
    if {one.positive for one in continuations} != {True, False}:
        return Used(why="chats are no continuations: give some by --continuations")
    try:
        return used(
            precise,
            vector,
            prompts=neutral_prompts(),
            neutral=neutral_texts()[:NEUTRAL_TEXTS],
            positives=_ablated(inputs[True]),
            negatives=_ablated(inputs[False]),
            continuations=continuations,
            nulls=found.nulls,
            after="" if settings.continuations else "\n",
            seed=settings.seed,
            progress=progress,
        )
    except CovecError as error:
        return Used(why=str(error))


def dtype_note(model: TextModel, precise: TextModel | None) -> str:
    """In which numbers the two parts of a study were computed."""
    read = str(model.dtype).removeprefix("torch.")
    if precise is None:
        return f"activations were read in {read}"
    return f"activations were read in {read}, the causal part ran in {str(precise.dtype).removeprefix('torch.')}"


def _drawn(data: Data, found: Found, settings: Settings) -> dict[bool, list[Any]]:
    """Held-out inputs of either class in an order that their texts alone decide, for the first of them are used."""
    keys = data.examples.keys
    order = sorted(found.test_rows, key=lambda row: (lot(keys[row], settings.split_seed), keys[row]))
    return {sign: [data.examples.inputs[row] for row in order if data.labels[row] == sign] for sign in (True, False)}


def _continuations(inputs: dict[bool, list[Any]]) -> tuple[Continuation, ...]:
    """The first held-out texts of either class."""
    return tuple(
        Continuation(given, sign, given)
        for sign, held_out in inputs.items()
        for given in [text for text in held_out if isinstance(text, str)][:SOURCES]
    )


def _ablated(inputs: Sequence[Any]) -> list[Any]:
    """Inputs to ablate, those first that do not serve as continuations."""
    return [*inputs[SOURCES:], *inputs[:SOURCES]][:ABLATED]
