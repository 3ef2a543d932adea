"""The linear program of several limits: against scipy's solver, and at its edges."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from covec.concepts.vector import ConceptVector
from covec.edits.programs import corners, within_limits
from covec.errors import ModelError

WIDTH = 6


def probe(direction, name="c", site="resid.0", **others) -> ConceptVector:
    """A probe that gives an activation at 0 the probability one half, one logit a unit along its direction."""
    return ConceptVector.from_direction(
        name, site, direction, scale=1.0, scale_from="native", calibration=(1.0, 0.0), **others
    )


def directions(seed: int, count: int) -> torch.Tensor:
    return torch.nn.functional.normalize(
        torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed)), dim=1
    )


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 4), st.booleans())
def test_the_shifts_are_those_of_a_solver(seed, count, twins):
    """Also where a concept is there twice, so that corners fall together."""
    rng, v = np.random.default_rng(seed), directions(seed, count).double()
    if twins and count > 1:
        v[1] = v[0]
    signs = torch.from_numpy(rng.choice([-1.0, 1.0], count))
    if twins and count > 1:
        signs[1] = signs[0]
    gains, b = signs[:, None] * (v @ v.T), torch.from_numpy(3 * rng.normal(size=count))
    prices, moves = corners(gains)
    shifts = moves[(prices @ b).argmax()] @ b
    both = np.hstack([gains.numpy(), -gains.numpy()])
    solved = linprog(np.ones(2 * count), A_ub=-both, b_ub=-b.numpy())
    assert float(shifts.abs().sum()) == pytest.approx(solved.fun, abs=1e-6)
    assert bool((gains @ shifts >= b - 1e-6).all())


def test_every_token_is_within_its_limits_and_those_that_are_stay_to_the_bit():
    one, other, third = (probe(row, name) for row, name in zip(directions(1, 3), "abc", strict=True))
    (edit,) = within_limits([one, other, third], [0.9, 0.2, 0.8], [True, False, True])
    h = 3 * torch.randn(4, 50, WIDTH, generator=torch.Generator().manual_seed(1))
    after = edit.apply(h, None)
    for vector, limit, sign in ((one, 0.9, 1), (other, 0.2, -1), (third, 0.8, 1)):
        logits = vector.score(after.flatten(0, 1))
        assert bool((sign * (logits - math.log(limit / (1 - limit))) >= -1e-4).all())
    inside = (edit.signs * (h @ edit.directions.T - edit.limits) >= 0).all(-1)
    assert inside.any()
    assert torch.equal(after[inside], h[inside])


@pytest.mark.parametrize("raised", [True, False])
def test_one_concept_is_moved_as_by_to_probability(raised):
    vector = probe(directions(2, 1)[0])
    h = 3 * torch.randn(2, 9, WIDTH, generator=torch.Generator().manual_seed(3))
    (ours,), (theirs,) = within_limits([vector], [0.7], [raised]), vector.to_probability(0.7, below=not raised)
    assert torch.allclose(ours.apply(h, None), theirs.apply(h, None), atol=1e-5)


def test_limits_that_contradict_one_another_are_named():
    first, second = directions(4, 2)
    near = first + 1e-3 * second
    listed = [probe(first, "praise"), probe(second, "other"), probe(near, "joy")]
    with pytest.raises(
        ModelError, match=r"'(praise' up|joy' down) and '(joy' down|praise' up) contradict one another at"
    ):
        within_limits(listed, [0.9, 0.5, 0.1], [True, True, False])
    assert len(within_limits(listed, [0.9, 0.5, 0.9], [True, True, True])) == 1  # both up is no contradiction


def test_concepts_at_different_sites_meet_where_both_have_parts():
    first, second = directions(5, 2)
    here, there = probe(first, "here"), probe(second, "there", "resid.1")
    edits = within_limits([here, there], [0.9, 0.9], [True, True])
    assert [(str(edit.site), len(edit.limits)) for edit in edits] == [("resid.0", 1), ("resid.1", 1)]


def test_what_cannot_be_asked_is_told_in_one_line():
    vector = probe(directions(6, 1)[0])
    with pytest.raises(ModelError, match="a limit for every vector"):
        within_limits([vector], [0.5, 0.5], [True])
    with pytest.raises(ModelError, match="between 0 and 1, not 1.0"):
        within_limits([vector], [1.0], [True])
    with pytest.raises(ModelError, match="6 concepts at once"):
        within_limits([vector] * 6, [0.5] * 6, [True] * 6)
    plain = ConceptVector.from_direction("plain", "resid.0", directions(7, 1)[0], scale=1.0, scale_from="native")
    with pytest.raises(ModelError, match="no calibrated probability"):
        within_limits([plain], [0.5], [True])
    foreign = [probe(row, name, model={"fingerprint": name}) for row, name in zip(directions(8, 2), "ab", strict=True)]
    with pytest.raises(ModelError, match="different models"):
        within_limits(foreign, [0.5, 0.5], [True, True])
