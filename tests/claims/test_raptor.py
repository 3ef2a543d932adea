"""How RAPTOR's claim draws its rows, and the rivals it is measured against."""

import numpy as np
import pytest
import torch

from covec.claims._figures import above, at_least, mean_figure, shown
from covec.claims._rivals import _kernel, _outer_product, gaussian_subspace, recursive_feature_machine
from covec.claims.raptor import _World
from covec.statistics.figure import Figure


def test_every_pair_is_trained_on_or_tested_whole_and_tested_at_least_once():
    labels, pairs = np.arange(60) % 2 == 0, np.arange(60) // 2
    world = _World({}, labels, pairs)
    tested = set()
    for train, test in world.draws(50, 2):
        assert len(train) == 50
        assert not set(pairs[train]) & set(pairs[test])
        tested |= set(pairs[test])
    assert tested == set(pairs)


def separable(n=80, d=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X, labels = torch.randn(n, d, generator=generator), np.arange(n) % 2 == 0
    X[labels, 0] += 3
    return X, labels


def test_a_recursive_feature_machine_predicts_rows_it_has_not_seen():
    predict = recursive_feature_machine(*separable(), iterations=2)
    X, labels = separable(seed=1)
    assert ((predict(X) > 0).numpy() == labels).mean() > 0.85


def test_its_metric_is_the_outer_product_of_the_true_gradients():
    X, _ = separable(n=12, d=4)
    weights, metric, bandwidth = torch.linspace(-1, 1, 12), torch.eye(4) + 0.1, 2.0
    gradients = []
    for index, row in enumerate(X):
        row = row.clone().requires_grad_()
        others = torch.arange(12) != index  # the kernel has no gradient at its own centre
        (_kernel(row[None], X[others], metric, bandwidth) @ weights[others]).sum().backward()
        gradients.append(row.grad)
    expected = torch.stack(gradients).T @ torch.stack(gradients) / 12
    assert torch.allclose(_outer_product(X, metric, weights, bandwidth, centred=False), expected, rtol=1e-3, atol=1e-6)


def test_a_gaussian_subspace_is_centred_on_the_separating_direction():
    mean, spread = gaussian_subspace(*separable(), np.random.default_rng(0), probes=5)
    assert int(np.abs(mean).argmax()) == 0
    assert (spread > 0).all()


def test_rules_are_what_their_words_say():
    figure = Figure(0.7)
    assert at_least("a", figure, 0.71, 0.02).holds
    assert not at_least("a", figure, Figure(0.73), 0.02).holds
    assert above("a", figure, 0.6, 0.05).holds
    assert not above("a", figure, 0.66, 0.05).holds
    assert not above("a", figure, 0.7).holds
    assert shown("a", figure, 9.0).holds
    assert mean_figure([1.0], "once").low is None
    assert mean_figure([1.0, 2.0, 3.0], "thrice").low == pytest.approx(2 - 4.3027 / np.sqrt(3), abs=1e-3)
