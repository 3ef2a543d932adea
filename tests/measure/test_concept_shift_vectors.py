"""Clusters that move each their own way are found again by their own shift alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.errors import ExamplesError
from covec.measure.concept_shift_vectors import _recovered, concept_shift_vectors

CONCEPTS, ROWS, WIDTH = 5, 20, 16


def moved(seed=0, noise=0.1):
    generator = torch.Generator().manual_seed(seed)
    centres, shifts = torch.randn(2, CONCEPTS, WIDTH, generator=generator)
    before = (5 * centres).repeat_interleave(ROWS, 0) + noise * torch.randn(CONCEPTS * ROWS, WIDTH, generator=generator)
    return before, before + 2 * shifts.repeat_interleave(ROWS, 0), 2 * shifts


def test_planted_shifts_are_found():
    before, after, shifts = moved()
    found = concept_shift_vectors(before, after, concepts=CONCEPTS)
    kinds = found.clusters.reshape(CONCEPTS, ROWS)
    assert (kinds == kinds[:, :1]).all()
    torch.testing.assert_close(found.shifts[kinds[:, 0]], shifts, atol=1e-4, rtol=1e-4)
    assert found.figure.value > 0.9
    assert found.figure.null < found.recovered_globally.value < found.figure.value
    assert found.closer.value == 1.0
    np.testing.assert_allclose(found.consistency, 1, atol=1e-4)


def test_halves_are_of_different_inputs():
    """Where only the inputs of one half move, their shift leads nowhere in the other."""
    before, after, _ = moved()
    half = np.random.default_rng(0).permutation(len(before)) < len(before) // 2
    after[~half] = before[~half] + 1e-3
    found = concept_shift_vectors(before, after, concepts=CONCEPTS, seed=0)
    assert found.figure.value < 0


@settings(deadline=None, max_examples=10)
@given(st.floats(0.01, 100), st.integers(0, 100))
def test_the_scale_of_the_model_does_not_matter(scale, seed):
    before, after, _ = moved(seed)
    one = concept_shift_vectors(before, after, concepts=CONCEPTS)
    other = concept_shift_vectors(scale * before, scale * after, concepts=CONCEPTS)
    assert other.figure.value == pytest.approx(one.figure.value, abs=1e-3)


def test_strength_multiplies_what_is_added_and_not_the_shift():
    before, after, _ = moved()
    whole, half = (concept_shift_vectors(before, after, concepts=CONCEPTS, strength=one) for one in (1.0, 0.5))
    assert torch.equal(whole.shifts, half.shifts)
    assert half.figure.value == pytest.approx(0.5, abs=0.05)


def test_all_of_the_way_is_one_and_away_is_below_nothing():
    concepts, tuned = torch.zeros(3, 2), torch.tensor([[1.0, 0.0]]).repeat(3, 1)
    shifts = torch.tensor([[1.0, 0.0], [0.5, 0.0], [-1.0, 0.0]])
    assert _recovered(concepts, shifts, tuned).tolist() == [1.0, 0.5, -1.0]


def test_inputs_that_repeat_are_not_enough():
    before, after, _ = moved(noise=0.0)
    with pytest.raises(ExamplesError, match="half of the rows has 5 different ones for 6 concepts"):
        concept_shift_vectors(before, after, concepts=6)
