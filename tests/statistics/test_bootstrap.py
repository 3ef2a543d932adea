"""The cluster bootstrap and the weighted AUROC it draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.statistics.auroc import auroc
from covec.statistics.bootstrap import cluster_bootstrap, weighted_auroc


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 3)), min_size=2, max_size=15))
def test_a_weight_is_a_number_of_copies(rows):
    scores, labels, copies = (np.array(column) for column in zip(*rows, strict=True))
    area = weighted_auroc(scores.astype(float), labels, copies[None].astype(float))[0]
    repeated = np.repeat(scores, copies), np.repeat(labels, copies)
    if len(set(repeated[1])) == 2:
        assert area == pytest.approx(auroc(*repeated))
    else:
        assert np.isnan(area)


def _mean(values):
    return lambda weights: weights @ values / weights.sum(1)


def test_of_single_rows_it_is_the_standard_error():
    values = np.random.default_rng(0).normal(size=200)
    low, high = cluster_bootstrap(values.mean(), _mean(values), np.arange(200), draws=5000)
    assert (high - low) / 2 == pytest.approx(1.972 * values.std(ddof=1) / np.sqrt(200), rel=0.04)
    assert (low + high) / 2 == pytest.approx(values.mean())


def test_copied_rows_are_no_evidence():
    values = np.random.default_rng(1).random(30)
    once = cluster_bootstrap(values.mean(), _mean(values), np.arange(30), share=True)
    fourfold = cluster_bootstrap(values.mean(), _mean(np.repeat(values, 4)), np.repeat(np.arange(30), 4), share=True)
    assert fourfold == pytest.approx(once)


def test_a_share_stays_a_share_and_draws_do_not_depend_on_blocks(monkeypatch):
    values = np.append(np.ones(29), 0.0)
    low, high = cluster_bootstrap(values.mean(), _mean(values), np.arange(30), share=True)
    assert 0 < low < values.mean() < high < 1
    monkeypatch.setattr("covec.statistics.bootstrap._BLOCK", 30 * 7)
    assert cluster_bootstrap(values.mean(), _mean(values), np.arange(30), share=True) == (low, high)
