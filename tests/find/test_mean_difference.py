from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.activations.moments import Moments
from covec.checks.planted import draw
from covec.find.mean_difference import MeanDifference


def test_exact() -> None:
    found = MeanDifference().fit([[1.0, 2.0], [3.0, 6.0], [0.0, 1.0], [-2.0, -3.0]], [1, 1, 0, 0])
    torch.testing.assert_close(found.direction_, torch.tensor([3.0, 5.0]) / 34**0.5)
    assert abs(found.scale_ - 34**0.5) < 1e-5  # the gap between the class means


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), d=st.integers(1, 20))
def test_it_is_the_normalised_difference(seed: int, d: int) -> None:
    world = draw(12, d, effect=1, seed=seed)
    gap = world.X[world.y].mean(0) - world.X[~world.y].mean(0)
    found = MeanDifference().fit(world.X, world.y)
    torch.testing.assert_close(found.direction_, gap / gap.norm(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.scale_, gap.norm(), rtol=1e-4)


def test_merged_shards_equal_the_whole() -> None:
    world = draw(60, 8, effect=1, seed=0)
    shards = [Moments(8).update(world.X[rows], world.y[rows]) for rows in np.split(np.arange(60), 3)]
    merged = shards[0].merge(shards[1]).merge(shards[2])
    whole = MeanDifference().fit(world.X, world.y).direction_
    torch.testing.assert_close(MeanDifference().fit_moments(merged).direction_, whole, rtol=0, atol=1e-6)
