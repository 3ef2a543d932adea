"""K-6: edits are what their algebra says, whatever the length of a direction, and change nothing but activations."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from covec.concepts.vector import ConceptVector
from covec.models.text import TextModel
from laws.given import PROMPTS, close, vector


def logits(model: TextModel) -> torch.Tensor:
    with torch.no_grad():
        return model.module(model.tokenizer(PROMPTS[2], return_tensors="pt").input_ids).logits


def long(model: TextModel, factor: float) -> ConceptVector:
    """The same concept from a direction `factor` times as long."""
    rows = model.capture(PROMPTS[:4], "resid.1", "mean")["resid.1"]
    positive, negative = rows[:1].mean(0), rows[1:].mean(0)
    direction = factor * (positive - negative)
    given = [tensor.clone() for tensor in (direction, positive, negative)]
    made = ConceptVector.from_direction("half", "resid.1", direction, positive, negative)
    assert all(map(torch.equal, given, (direction, positive, negative)))
    return made


USES = [
    lambda v: v.ablate(to="zero"),
    lambda v: v.add(1.5),
    lambda v: v.ablate(),
    lambda v: v.set_coordinate(0.5),
]


def check(model: TextModel, tolerance: float, uses: list[Any]) -> None:
    one, seven = long(model, 1.0), long(model, 7.0)
    for use in uses:
        found = []
        for some in (one, seven):
            kept = copy.deepcopy(some)
            with model.edit(use(some)):
                found.append(model.capture(PROMPTS[:3], "final", "content/none")["final"])
            assert some.identical(kept)
        assert close(found[1], found[0], tolerance)
    with model.edit(seven.ablate(to="zero")):
        rows = model.capture(PROMPTS[:3], "resid.1", "content/none")["resid.1"]
    assert float((rows @ seven.direction).abs().max()) < 100 * tolerance * float(rows.norm(dim=1).max())
    plain = logits(model)
    for nothing in (one.add(0.0), (*one.add(0.0), *seven.add(0.0, position="all")), one.add({"resid.1": 0.0})):
        with model.edit(nothing):
            assert torch.equal(logits(model), plain)


def test_tiny_models(tiny: TextModel) -> None:
    check(tiny, 1e-4, USES)


def test_the_embedded_model(smol: TextModel) -> None:
    check(smol, 1e-4, USES[:2])


def test_the_embedded_model_in_bfloat16(rough: TextModel) -> None:
    check(rough, 3e-2, USES[:1])


@pytest.mark.parametrize("make", [lambda v: v.ablate(to="zero"), lambda v: v.ablate(), lambda v: v.set_coordinate(0.3)])
def test_twice_is_once_at_every_further_site(tiny: TextModel, make: Any) -> None:
    concept = vector(tiny)
    with tiny.edit(make(concept)):
        once = tiny.capture(PROMPTS[:3], "final", "all")["final"]
    with tiny.edit(make(concept), make(concept)):
        assert close(tiny.capture(PROMPTS[:3], "final", "all")["final"], once)
