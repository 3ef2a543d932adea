"""Edits that set several scores at once, along what the concepts write."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from covec.concepts.vector import ConceptVector
from covec.edits.affine import affine
from covec.edits.joint import set_scores
from covec.errors import ModelError

WIDTH = 8


def concept(seed: int, name: str = "c", **others) -> ConceptVector:
    generator = torch.Generator().manual_seed(seed)
    positive, negative, across = torch.randn(3, WIDTH, generator=generator)
    direction = positive - negative + 0.3 * across
    return ConceptVector.from_direction(name, "resid.0", direction, positive, negative, **others)


def rows(seed: int = 9) -> torch.Tensor:
    return 4 * torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 50), st.floats(-3, 3), st.floats(-3, 3))
def test_every_score_comes_out_as_it_is_wanted_and_all_else_stays(seed, first, second):
    one, other, h = concept(seed, "one"), concept(seed + 100, "other"), rows(seed)
    (edit,) = set_scores([one, other], [first, second])
    moved = edit.apply(h, None)
    for vector, wanted in ((one, first), (other, second)):
        assert torch.allclose(vector.score(moved.flatten(0, 1)), torch.tensor(wanted), atol=1e-3)
    change = (moved - h).flatten(0, 1).double()
    basis = torch.linalg.qr(torch.stack([one.write, other.write]).double().T).Q
    assert torch.allclose(change, change @ basis @ basis.T, atol=1e-4 * float(change.abs().max()) + 1e-6)


def test_it_is_the_affine_map_that_weights_can_hold():
    (edit,), h = set_scores([concept(0, "one"), concept(1, "other")], [0.5, -1.0], share=0.7), rows().double()
    found = affine(edit)
    assert torch.allclose(h + (h @ found.right.T) @ found.left.T + found.shift, edit.apply(h, None), atol=1e-5)


def test_half_of_the_way_is_half_of_the_move():
    vector, h = concept(0), rows()
    (whole,), (half,) = set_scores(vector, 0.5), set_scores(vector, 0.5, share=0.5)
    assert torch.allclose(half.apply(h, None) - h, (whole.apply(h, None) - h) / 2, atol=1e-5)


def test_a_vector_that_writes_along_what_it_reads_gives_the_same_as_set_coordinate():
    generator = torch.Generator().manual_seed(3)
    positive, negative = torch.randn(2, WIDTH, generator=generator)
    vector = ConceptVector.from_direction("c", "resid.0", positive - negative, positive, negative)
    ours, theirs = (edit[0].apply(rows(), None) for edit in (set_scores(vector, 0.2), vector.set_coordinate(0.2)))
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_what_cannot_be_set_is_told_in_one_line():
    one, other = concept(0, "one"), concept(1, "other")
    with pytest.raises(ModelError, match="finite number, not nan"):
        set_scores(one, math.nan)
    with pytest.raises(ModelError, match="2 vectors and 1 scores"):
        set_scores([one, other], [0.5])
    with pytest.raises(ModelError, match="one and one write almost the same at resid.0"):
        set_scores([one, one], [0.5, -0.5])
    foreign = [concept(seed, name, model={"fingerprint": name}) for seed, name in ((0, "a"), (1, "b"))]
    with pytest.raises(ModelError, match="different models"):
        set_scores(foreign, [0.5, 0.5])
    elsewhere = ConceptVector("else", {"resid.1": other.parts[other.site]})
    with pytest.raises(ModelError, match="else and one have parts at different sites"):
        set_scores([one, elsewhere], [0.5, 0.5])
