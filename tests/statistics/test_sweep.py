"""The sweep's null: agreement with plain fits, level on noise, laws, bad input."""

import numpy as np
import pytest
import torch
from scipy.stats import binom
from sklearn.covariance import OAS
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from covec import registry
from covec.errors import CovecError
from covec.statistics.auroc import auroc
from covec.statistics.permutation import Exchange
from covec.statistics.sweep import FINDERS, RIDGES, SweepNull

TRAIN, VALIDATION = 36, 24


def _labels(rng):
    labels = np.concatenate([np.arange(TRAIN) % 2, np.arange(VALIDATION) % 2]).astype(bool)
    return rng.permutation(labels[:TRAIN]), rng.permutation(labels[TRAIN:])


def _cell(rng, width, effect=0.0, labels=None):
    rows = rng.normal(size=(TRAIN + VALIDATION, width)) * np.linspace(0.3, 3, width)
    if labels is not None:
        rows[:, 0] += effect * np.concatenate(labels)
    return rows[:TRAIN], rows[TRAIN:]


def _plain(train, validation, y, y_validation):
    """Validation AUROCs of the three finders, fitted one by one."""
    difference = train[y].mean(0) - train[~y].mean(0)
    scaler = StandardScaler().fit(train)
    z, z_validation = scaler.transform(train), scaler.transform(validation)
    whitened = np.linalg.solve(OAS().fit(z).covariance_, z[y].mean(0) - z[~y].mean(0))
    fits = [Ridge(alpha=ridge * len(z)).fit(z, y.astype(float)) for ridge in RIDGES]
    scores = [validation @ difference, z_validation @ whitened, *(fit.predict(z_validation) for fit in fits)]
    areas = [auroc(row, y_validation) for row in scores]
    return [*areas[:2], max(areas[2:])]


@pytest.mark.parametrize("width", [8, 80])  # by the covariance, by the Gram matrix
def test_agrees_with_plain_fits_under_every_labelling(width):
    rng = np.random.default_rng(0)
    labels = _labels(rng)
    train, validation = _cell(rng, width)
    null = SweepNull(*labels, permutations=19, seed=3)
    null.add("cell", train, validation)
    test = null.finish()
    every = np.concatenate(labels)
    permuted = Exchange.of(every).permuted(19, np.random.default_rng(3))
    expected = np.array([_plain(train, validation, y[:TRAIN], y[TRAIN:]) for y in [every, *permuted]])
    assert test.observed == pytest.approx(expected[0].max())
    assert test.null_median == pytest.approx(np.median(expected[1:].max(1)))
    assert test.null_95 == pytest.approx(np.quantile(expected[1:].max(1), 0.95))
    assert test.p_sweep == pytest.approx((1 + (expected[1:].max(1) >= expected[0].max() - 1e-9).sum()) / 20)
    assert test.permutations == 19


def test_it_knows_the_finders_by_the_names_and_ridges_that_the_verb_gives_them():
    assert set(FINDERS) <= set(registry.names("find"))
    assert registry.get("find", "ridge")().ridges == RIDGES


def test_a_planted_direction_is_found_where_it_is():
    rng = np.random.default_rng(1)
    labels = _labels(rng)
    null = SweepNull(*labels)
    null.add("noise", *_cell(rng, 12))
    null.add("planted", *_cell(rng, 12, 4.0, labels))
    test = null.finish()
    assert test.p_sweep == min(test.cells.values()) == pytest.approx(1 / 201)
    assert test.observed > test.null_95 > test.null_median > 0.5
    assert test.cells["planted", "ridge"] <= 0.01
    assert test.cells["noise", "ridge"] > 0.05
    assert {finder for _, finder in test.cells} == {"mean-difference", "whitened-difference", "ridge"}


def test_noise_keeps_its_level():
    """Over 200 seeds; a p-value that ignored the selection would be significant in most."""
    false = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        null = SweepNull(*_labels(rng), permutations=39, seed=seed)
        for cell in range(4):
            null.add(cell, *_cell(rng, 10))
        false += null.finish().p_sweep <= 0.05
    assert false <= binom.ppf(0.99, 200, 0.05)


def test_groups_keep_the_level():
    """Rows of a group share their activations, and their label."""
    groups = np.repeat(np.arange(20), 3)
    labels = (np.arange(20) % 2 == 0)[groups]

    def significant(seed, told):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(20, 10))[groups] + 0.1 * rng.normal(size=(60, 10))
        null = SweepNull(labels[:TRAIN], labels[TRAIN:], groups=told, permutations=39, seed=seed)
        null.add(0, rows[:TRAIN], rows[TRAIN:])
        return null.finish().p_sweep <= 0.05

    limit = binom.ppf(0.99, 200, 0.05)
    assert sum(significant(seed, groups.tolist()) for seed in range(200)) <= limit
    assert sum(significant(seed, None) for seed in range(200)) > limit


def test_kind_of_array_scale_and_order_of_cells_do_not_matter():
    rng = np.random.default_rng(2)
    labels = _labels(rng)
    cells = {key: [half.astype(np.float32) for half in _cell(rng, 50, 1.0, labels)] for key in "ab"}
    kinds = [lambda half: half, torch.from_numpy, lambda half: 64 * half.astype(np.float64)]
    tests = []
    for kind, keys in zip(kinds, ("ab", "ba", "ab"), strict=True):
        null = SweepNull(*labels, permutations=50)
        for key in keys:
            null.add(key, *map(kind, cells[key]))
        tests.append(null.finish())
    assert tests[0] == tests[1] == tests[2]


def test_features_that_do_not_move_find_nothing():
    null = SweepNull(*_labels(np.random.default_rng(0)), permutations=9)
    null.add("constant", np.full((TRAIN, 5), 0.1), np.full((VALIDATION, 5), 0.1))
    test = null.finish()
    assert (test.observed, test.null_median, test.p_sweep) == (0.5, 0.5, 1.0)


def test_bad_input_is_refused():
    rng = np.random.default_rng(0)
    train_labels, validation_labels = _labels(rng)
    train, validation = _cell(rng, 5)
    with pytest.raises(CovecError, match="same label"):
        SweepNull(np.ones(TRAIN, dtype=bool), validation_labels)
    with pytest.raises(CovecError, match="groups for"):
        SweepNull(train_labels, validation_labels, groups=["a"])
    null = SweepNull(train_labels, validation_labels, permutations=9)
    with pytest.raises(CovecError, match="at least one cell"):
        null.finish()
    with pytest.raises(CovecError, match="NaN or infinite"):
        null.add("a", np.full_like(train, np.nan), validation)
    with pytest.raises(CovecError, match="pass \\[36, d\\]"):
        null.add("a", train[:-1], validation)
    with pytest.raises(CovecError, match="differ in width"):
        null.add("a", train, validation[:, :-1])
    null.add("a", train, validation)
    with pytest.raises(CovecError, match="added before"):
        null.add("a", train, validation)


def test_some_of_the_finders_have_the_null_that_they_have_among_all():
    rng = np.random.default_rng(2)
    labels, cell = _labels(rng), _cell(rng, 80)
    every, some = (SweepNull(*labels, permutations=9, finders=finders) for finders in (FINDERS, FINDERS[:1]))
    for null in (every, some):
        null.add("cell", *cell)
    assert some.finish().cells.keys() == {("cell", "mean-difference")}
    np.testing.assert_array_equal(some._areas["cell", "mean-difference"], every._areas["cell", "mean-difference"])
    for finders, named in ((["logistic"], "logistic"), ([], "none")):
        with pytest.raises(CovecError, match=f"finder {named} has no null"):
            SweepNull(*labels, finders=finders)
