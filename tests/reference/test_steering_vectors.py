"""The directions of the package steering-vectors, from its own aggregators."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from covec.checks.planted import Drawn, draw
from covec.find.logistic import Logistic
from covec.find.mean_difference import MeanDifference
from covec.find.pca_pairs import PcaPairs

peer = pytest.importorskip("steering_vectors")


@pytest.fixture(params=[(200, 24), (40, 96)], ids=["n > d", "d > n"])
def world(request: pytest.FixtureRequest) -> Drawn:
    n, d = request.param
    return draw(n, d, effect=2, seed=0)


def test_mean_aggregator(world: Drawn) -> None:
    wanted = peer.mean_aggregator()(world.X[::2], world.X[1::2])
    found = MeanDifference().fit(world.X, world.y)
    torch.testing.assert_close(found.direction_ * found.scale_, wanted, rtol=1e-4, atol=1e-5)


def test_pca_aggregator(world: Drawn) -> None:
    wanted = peer.pca_aggregator()(world.X[::2], world.X[1::2])
    found = PcaPairs().fit(world.X, world.y, pairs=world.pairs)
    assert abs(found.direction_ @ wanted) > 1 - 1e-5


def test_logistic_aggregator(world: Drawn) -> None:
    """It centres each pair, has no intercept and does not standardise; on rows that need neither, we agree."""
    halves = (world.X[::2] - world.X[1::2]) / 2
    halves = halves / halves.square().mean(0).sqrt()
    n = len(world.X)
    wanted = peer.logistic_aggregator({"C": 0.1, "tol": 1e-10, "max_iter": 10_000})(halves, -halves)
    rows = torch.stack([halves, -halves], 1).flatten(0, 1)
    found = Logistic(ridges=(1 / (n * 0.1),)).fit(rows, np.arange(n) % 2 == 0)
    assert found.direction_ @ wanted > 0.99999
