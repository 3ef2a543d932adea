"""The algebra on plain tensors: projections are projections, shifts the smallest, and inputs stay as they were."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from covec.concepts.vector import ConceptVector, Part
from covec.edits.algebra import Edit
from covec.errors import ModelError
from covec.models.anatomy import Tap
from covec.models.plan import Pass, Plan
from covec.models.positions import Layout
from covec.models.sites import Site

D = 12
NOW = Pass(Plan(()), 1, 0, 1, torch.device("cpu"))


def vector(seed: int = 0, size: float = 1.0, **others: Any) -> ConceptVector:
    generator = torch.Generator().manual_seed(seed)
    positive, negative, direction = torch.randn(3, D, generator=generator) * 4
    direction = direction if direction @ (positive - negative) > 0 else -direction
    return ConceptVector.from_direction("some", "resid.1", size * direction, positive, negative, **others)


def activations(seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(2, 5, D, generator=torch.Generator().manual_seed(seed)) * 10).to(dtype)


def apply(edits: tuple[Edit, ...], h: Tensor) -> Tensor:
    for edit in edits:
        h = edit.prepare(h.device, h.dtype).apply(h, NOW)
    return h


def scores(some: ConceptVector, h: Tensor) -> Tensor:
    return some.score(h.reshape(-1, D))


MAKERS = {
    "add": lambda some: some.add(1.5),
    "midpoint": lambda some: some.ablate(),
    "zero": lambda some: some.ablate(to="zero"),
    "set": lambda some: some.set_coordinate(0.7),
    "probability": lambda some: replace(some, calibration=(4.0, 0.5)).to_probability(0.3),
}


@pytest.mark.parametrize("name", MAKERS)
@given(seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_an_edit_changes_neither_its_input_nor_its_vector(name: str, seed: int) -> None:
    some, h = vector(seed), activations(seed)
    kept, before = copy.deepcopy(some), h.clone()
    edited = apply(MAKERS[name](some), h)
    assert torch.equal(h, before)
    assert some.identical(kept)
    assert edited.shape == h.shape
    assert edited.dtype == h.dtype


@pytest.mark.parametrize("name", ["midpoint", "zero", "set", "probability"])
@given(seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_twice_is_once_and_what_is_across_the_direction_stays(name: str, seed: int) -> None:
    some, h = vector(seed), activations(seed)
    edits = MAKERS[name](some)
    once = apply(edits, h)
    assert torch.allclose(apply(edits, once), once, atol=1e-4)
    across = torch.eye(D) - torch.outer(some.direction, some.direction)
    assert torch.allclose(once @ across, h @ across, atol=1e-4)


@given(seed=st.integers(0, 1000), strength=st.floats(-4, 4))
@settings(max_examples=20, deadline=None)
def test_adding_moves_the_score_by_its_strength_and_subtracting_undoes_it(seed: int, strength: float) -> None:
    some, h = vector(seed), activations(seed)
    moved = apply(some.add(strength), h)
    assert torch.allclose(scores(some, moved), scores(some, h) + strength, atol=1e-3)
    assert torch.allclose(apply(some.add(-strength), moved), h, atol=1e-4)
    assert torch.equal(apply(some.add(0.0), h), h)


@given(seed=st.integers(0, 1000), size=st.floats(0.1, 50))
@settings(max_examples=15, deadline=None)
def test_the_length_of_the_direction_given_does_not_matter(seed: int, size: float) -> None:
    h = activations(seed)
    for name in MAKERS:
        one, other = (apply(MAKERS[name](vector(seed, scale)), h) for scale in (1.0, size))
        assert torch.allclose(one, other, atol=1e-3)


@given(seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_coordinates_end_where_they_are_told_to(seed: int) -> None:
    some, h = vector(seed), activations(seed)
    rounding = 1e-5 * float(h.abs().max())  # of a coordinate; a score counts in units of the scale
    assert torch.allclose(some.scale * scores(some, apply(some.ablate(), h)), torch.zeros(10), atol=rounding)
    assert torch.allclose(apply(some.ablate(to="zero"), h) @ some.direction, torch.zeros(2, 5), atol=rounding)
    shifted = some.scale * (scores(some, apply(some.set_coordinate(0.7), h)) - 0.7)
    assert torch.allclose(shifted, torch.zeros(10), atol=rounding)
    spread = replace(some, scale_from="spread")
    assert torch.allclose(apply(spread.ablate(), h), apply(some.ablate(to="zero"), h))


@given(seed=st.integers(0, 1000), limit=st.floats(0.05, 0.95), below=st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_probability_is_brought_to_its_limit_and_no_further(seed: int, limit: float, below: bool) -> None:
    some, h = vector(seed, calibration=(3.0, -0.5)), activations(seed)
    before = some.probability(scores(some, h)).reshape(2, 5)
    edited = apply(some.to_probability(limit, below=below), h)
    after = some.probability(scores(some, edited)).reshape(2, 5)
    kept = before <= limit if below else before >= limit
    assert torch.equal(edited[kept], h[kept])
    assert torch.allclose(after[~kept], torch.full_like(after[~kept], limit), atol=1e-2)


def test_a_subspace_is_ablated_whole_and_takes_a_coefficient_a_direction() -> None:
    basis = torch.linalg.qr(torch.randn(D, 3, generator=torch.Generator().manual_seed(0)))[0].T
    part = Part(basis, 2 * basis, torch.zeros(3), torch.full((3,), 2.0))
    plane = ConceptVector("plane", {Site.parse("resid.1"): part}, kind="subspace", scale_from="spread")
    h = activations(0)
    assert torch.allclose(apply(plane.ablate(), h) @ basis.T, torch.zeros(2, 5, 3), atol=1e-4)
    moved = apply(plane.add([1.0, 0.0, -2.0]), h)
    assert torch.allclose(moved - h, (2 * basis[0] - 4 * basis[2]).expand_as(h), atol=1e-4)
    with pytest.raises(ModelError, match="3 directions and takes as many"):
        plane.add([1.0, 2.0])
    with pytest.raises(ModelError, match="one direction"):
        replace(plane, calibration=(1.0, 0.0)).to_probability(0.5)


def test_strengths_may_differ_from_site_to_site() -> None:
    one = vector()
    part = one.parts[one.site]
    two = ConceptVector("two", {Site.parse("resid.0"): part, Site.parse("resid.2"): part})
    edits = two.add({"resid.2": 2.0})
    assert [str(edit.site) for edit in edits] == ["resid.0", "resid.2"]
    assert torch.equal(edits[0].shift, torch.zeros(D))
    assert torch.allclose(edits[1].shift, 2 * part.write[0])
    with pytest.raises(ModelError, match="no part at resid.7; it has resid.0, resid.2"):
        two.add({"resid.7": 1.0})


def test_a_vector_may_be_projected_out_at_further_sites() -> None:
    some = vector()
    edits = some.ablate(to="zero", sites=["resid.0", "resid.1"])
    assert [str(edit.site) for edit in edits] == ["resid.1", "resid.0"]
    assert all(torch.equal(edit.directions, some.direction[None]) for edit in edits)


@pytest.mark.parametrize("name", MAKERS)
def test_half_precision_agrees(name: str) -> None:
    some, h = vector(), activations(0)
    edits = MAKERS[name](some)
    found = apply(edits, h.to(torch.bfloat16))
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.float(), apply(edits, h.to(torch.bfloat16).float()), atol=0.2)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(wrong: float) -> None:
    some = vector(calibration=(1.0, 0.0))
    for ask in (some.add, some.set_coordinate, some.to_probability):
        with pytest.raises(ModelError):
            ask(wrong)


def test_what_has_no_meaning_is_refused() -> None:
    some = vector()
    with pytest.raises(ModelError, match="no calibrated probability"):
        some.to_probability(0.5)
    with pytest.raises(ModelError, match="between 0 and 1"):
        replace(some, calibration=(1.0, 0.0)).to_probability(1.0)
    with pytest.raises(ModelError, match="'midpoint' or 'zero'"):
        some.ablate(to="nothing")
    with pytest.raises(ModelError, match="no midpoint"):
        some.ablate(sites=["resid.0"])
    with pytest.raises(ModelError, match="no pooling"):
        some.add(1.0, position="mean")
    prefix = ConceptVector(
        "p", {Site.parse("embed"): Part.writing(torch.ones(1, D))}, kind="prefix", scale_from="native"
    )
    with pytest.raises(ModelError, match="no edit of activations"):
        prefix.add(1.0)


def test_masks_follow_the_activations_to_their_device() -> None:
    """Where a model lies on several devices, ids are on one and activations on another (K-19)."""
    from covec.edits.scope import _step

    layouts = [Layout(np.zeros(3, dtype=bool), 3, 2)] * 2
    edit = vector().add(1.0, position="last")[0].prepare(torch.device("meta"), torch.float32)
    now = Pass(Plan(layouts), 2, 0, 3, torch.device("cpu"))
    found = _step(edit, Tap(nn.Identity()), [True, False])(torch.empty(2, 3, D, device="meta"), now)
    assert (found.device.type, found.shape) == ("meta", (2, 3, D))


def test_a_prompt_shows_an_edit_in_a_line_and_no_numbers_of_its_tensors() -> None:
    (edit,) = vector().add(1.0, gate=vector(), position="last+generated")
    assert repr(edit).startswith("Add(site resid.1, position last+generated/none, gate Gate(site resid.1, direction [")
    assert repr(edit).endswith(f"shift [{D}])")
    assert "\n" not in repr(edit)
