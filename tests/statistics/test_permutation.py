"""Permutations keep what ties the rows together; the test keeps its level and agrees with full enumeration."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, permutation_test

from covec.errors import CovecError
from covec.statistics.auroc import auroc
from covec.statistics.permutation import Exchange, null_aurocs, p_test, p_value, permuted_labels

RNG = np.random.default_rng


def _tied_rows(rng):
    """Labels of both classes, with a random mixture of groups, pairs and rows that stand alone, and folds."""
    n = int(rng.integers(2, 25))
    labels = rng.permutation(np.arange(n) < rng.integers(1, n))
    groups = [rng.choice([None, "a", "b", "c"]) for _ in range(n)]
    pairs = [rng.choice([None, f"{group}-x", f"{group}-y"]) for group in groups]  # a pair stands in one group
    ties = [str(group or pair or row) for row, (group, pair) in enumerate(zip(groups, pairs, strict=True))]
    folds = [ord(tie[-1]) % 2 for tie in ties]  # no group or pair lies in two
    return labels, groups, pairs, folds


def _rows_by_id(ids):
    return [np.array([one == key for one in ids]) for key in set(ids) - {None}]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_permutations_keep_the_structure(seed, folded):
    labels, groups, pairs, folds = _tied_rows(RNG(seed))
    exchange = Exchange.of(labels, groups, pairs, folds if folded else None)
    permuted = exchange.permuted(30, RNG(0))
    firsts = np.unique(exchange.units, return_index=True)[1]
    for rows in _rows_by_id(exchange.units):  # rows of a unit keep one label
        assert len(set(labels[rows])) == 1
        assert (permuted[:, rows] == permuted[:, rows][:, :1]).all()
    for rows in _rows_by_id(exchange.blocks):  # units exchange labels within their block, and so within their fold
        units = np.intersect1d(firsts, np.flatnonzero(rows))
        assert (permuted[:, units].sum(1) == labels[units].sum()).all()
        assert not folded or len({folds[row] for row in np.flatnonzero(rows)}) == 1
    for rows in [*_rows_by_id(pairs), *_rows_by_id(groups)]:
        if len(set(labels[rows])) == 2:
            assert (permuted[:, rows].sum(1) == labels[rows].sum()).all()
    for rows in _rows_by_id(groups):
        if len(set(labels[rows])) == 1:
            assert len(set(exchange.units[rows])) == 1


def test_the_four_exchanges():
    labels = np.array([1, 0, 1, 0, 1, 1, 0, 0], dtype=bool)
    free = permuted_labels(labels, 4000, rng=RNG(0))
    assert (free.sum(1) == 4).all()
    assert np.abs(free.mean(0) - 0.5).max() < 0.05
    swapped = permuted_labels(labels, 200, pairs=["a", "a", "b", "b", "c", "d", "c", "d"], rng=RNG(0))
    assert (swapped[:, [0, 2, 4, 5]] != swapped[:, [1, 3, 6, 7]]).all()
    assert len(np.unique(swapped, axis=0)) == 16
    whole = permuted_labels(labels, 200, groups=["a", "b", "a", "b", "a", "a", "c", None], rng=RNG(0))
    assert {tuple(np.flatnonzero(row)) for row in whole} == {(0, 2, 4, 5), (1, 3), (6,), (7,)}
    within = permuted_labels(labels, 200, groups=[1, 1, 1, 1, 2, 2, 2, 2], rng=RNG(0))
    assert (within[:, :4].sum(1) == 2).all()
    assert len(np.unique(within, axis=0)) == 36


def _exact(scores, labels, relabellings):
    observed = auroc(scores, labels)
    return np.mean([auroc(scores, np.array(other)) >= observed - 1e-12 for other in relabellings])


def test_agrees_with_full_enumeration():
    scores, labels = np.array([0.3, 1.0, 0.3, -1.0, 2.0, 0.1, 0.5, 0.2]), np.array([1, 1, 0, 0, 1, 0, 1, 0], dtype=bool)
    free = [np.isin(np.arange(8), chosen) for chosen in combinations(range(8), 4)]
    p = p_test(scores, labels, permutations=40_000)
    assert p == pytest.approx(_exact(scores, labels, free), abs=0.01)
    result = permutation_test(
        (scores[labels], scores[~labels]),
        lambda positives, negatives: auroc(np.append(positives, negatives), np.arange(8) < 4),
        alternative="greater",
        vectorized=False,
    )
    assert p == pytest.approx(result.pvalue, abs=0.01)
    pairs = ["a", "b", "a", "b", "c", "c", "d", "d"]  # rows 0-2, 1-3, 4-5, 6-7
    flips = []
    for swap in product([False, True], repeat=4):
        flip = labels.copy()
        for (one, other), do in zip([(0, 2), (1, 3), (4, 5), (6, 7)], swap, strict=True):
            flip[[one, other]] = flip[[other, one]] if do else flip[[one, other]]
        flips.append(flip)
    p = p_test(scores, labels, pairs=pairs, permutations=40_000)
    assert p == pytest.approx(_exact(scores, labels, flips), abs=0.01)


def test_ties_with_the_observed_value_count_against_it():
    assert p_test(np.zeros(20), np.arange(20) % 2, permutations=99) == 1
    assert p_value(0.5, np.array([0.4, 0.5, 0.6])) == pytest.approx(3 / 4)
    assert p_value(1.0, np.zeros(199)) == pytest.approx(1 / 200)


def test_same_seed_same_bits_whatever_the_block(monkeypatch):
    rng = RNG(0)
    scores, exchange = rng.normal(size=30), Exchange.of(np.arange(30) % 3 == 0)
    null = null_aurocs(scores, exchange, 500, seed=1)
    assert (null == null_aurocs(scores, exchange, 500, seed=1)).all()
    monkeypatch.setattr("covec.statistics.permutation._BLOCK", 30 * 70)
    assert (null == null_aurocs(scores, exchange, 500, seed=1)).all()


def _significant(draw, **kwargs):
    return sum(p_test(*draw(RNG(seed)), permutations=199, seed=seed, **kwargs) <= 0.05 for seed in range(200))


LIMIT = binom.ppf(0.99, 200, 0.05)


def test_noise_keeps_its_level():
    assert _significant(lambda rng: (rng.normal(size=40), rng.random(40) < 0.4)) <= LIMIT
    pairs = np.repeat(np.arange(20), 2)
    tied = lambda rng: (rng.normal(size=20)[pairs] + rng.normal(size=40), np.arange(40) % 2 == 0)  # noqa: E731
    assert _significant(tied, pairs=pairs.tolist()) <= LIMIT


def test_groups_keep_the_level_that_free_permutation_loses():
    groups = np.repeat(np.arange(16), [2, 8] * 8)
    labels = groups % 4 < 2
    draw = lambda rng: (3 * rng.normal(size=16)[groups] + rng.normal(size=80), labels)  # noqa: E731
    assert _significant(draw, groups=groups.tolist()) <= LIMIT
    assert _significant(draw) > 2 * LIMIT


def test_folds_keep_the_level_that_shifted_folds_lose():
    folds = np.repeat(np.arange(5), 12)
    labels = np.concatenate([np.arange(12) < count for count in (2, 4, 6, 8, 10)])
    draw = lambda rng: (2.0 * folds + rng.normal(size=60), labels)  # noqa: E731
    assert _significant(draw, folds=folds.tolist()) <= LIMIT
    assert _significant(draw) > 2 * LIMIT


def test_a_true_effect_is_found():
    labels = np.arange(40) % 2 == 0
    assert p_test(labels + RNG(0).normal(size=40), labels) < 0.01


def test_bad_input_is_refused():
    good = [True, False, True]
    for scores, labels in (([0.0, 1.0], [True, True]), ([0.0, np.nan], [True, False]), ([0.0], [True, False])):
        with pytest.raises(CovecError):
            p_test(scores, labels)
    for kwargs in ({"groups": ["a"]}, {"pairs": ["a"]}, {"folds": [1]}):
        with pytest.raises(CovecError, match="1 groups for 3 rows"):
            Exchange.of(good, **kwargs)
    with pytest.raises(CovecError, match="one row"):
        Exchange.of([good, good])
    with pytest.raises(CovecError, match="do not match"):
        null_aurocs([0.0, 1.0], Exchange.of(good))
