"""Rows: checked, ordered by themselves, and dealt into folds that no unit straddles."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from covec.checks.planted import draw
from covec.errors import ExamplesError
from covec.find._rows import Labels, Rows, as_cells, two_classes


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([True, False, True], [False, True]),
        ([1, 0, 1], [0, 1]),
        ([1, -1, 1], [-1, 1]),
        ([2.0, 1.0, 2.0], [1.0, 2.0]),
        (["yes", "no", "yes"], ["no", "yes"]),
        (pd.Categorical(["pos", "neg", "pos"], categories=["pos", "neg"]), ["neg", "pos"]),
        ([[0, 1], [1, 0], [0, 1]], [False, True]),
        ([[1], [0], [1]], [0, 1]),
        (torch.tensor([1, 0, 1]), [0, 1]),
    ],
)
def test_two_classes_of_any_type(labels: object, classes: list[object]) -> None:
    found, positive = two_classes(labels)
    assert found.tolist() == classes
    assert positive.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 1, 1], "labels have one class: 1"),
        ([0, 1, 2], "labels have 3: 0, 1, 2"),
        (list("abcdefg"), "labels have 7: a, b, c, d, e, ..."),
        ([], "labels have 0"),
        ([0.1, 0.2, 0.3], "labels have 3, as continuous numbers: 0.1"),
        (None, "target y is None"),
        ([[1, 1], [0, 1]], "not one a row"),
        ([[0, 1, 0]], "not one a row"),
    ],
)
def test_other_labels_are_refused(labels: object, message: str) -> None:
    with pytest.raises(ExamplesError, match=message):
        two_classes(labels)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_rows_must_be_finite(value: float) -> None:
    with pytest.raises(ExamplesError, match="NaN or infinite"):
        as_cells([[1.0, value]], 2)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (csr_array(np.eye(3)), "sparse"),
        (np.eye(3, dtype=complex), "Complex data"),
        (torch.eye(3, dtype=torch.complex64), "Complex data"),
        ([["a", "b"]], "not an array of numbers"),
        ([[1.0, 2.0], [3.0]], "not an array of numbers"),
        ([[1e300, 2.0]], "infinite"),
    ],
)
def test_rows_must_be_dense_real_numbers(X: object, message: str) -> None:
    with pytest.raises(ExamplesError, match=message):
        as_cells(X, 2)


@pytest.mark.parametrize("shape", [(3,), (0, 4), (4, 0), (2, 3, 4)])
def test_rows_must_be_a_matrix(shape: tuple[int, ...]) -> None:
    with pytest.raises(ExamplesError, match=r"\[n, d\]"):
        as_cells(np.zeros(shape), 2)


def test_as_cells_gives_detached_float32() -> None:
    X = torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True)
    for given_ in (X, [[1, 1, 1], [1, 1, 1]], np.ones((2, 3), dtype=np.float16), pd.DataFrame(np.ones((2, 3)))):
        cells = as_cells(given_, 2)
        assert cells.dtype == torch.float32
        assert not cells.requires_grad
        assert cells.shape == (2, 3)


@pytest.mark.parametrize("column", ["groups", "pairs"])
def test_columns_must_fit_the_rows(column: str) -> None:
    columns = {"groups": None, "pairs": None, column: ["a"]}
    with pytest.raises(ExamplesError, match=f"1 {column} for 2 rows"):
        Labels.of([0, 1], 2, **columns)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(4, 40))
def test_any_order_gives_the_same_rows_and_folds(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    X, positive = torch.from_numpy(rng.standard_normal((n, 3))).float(), np.arange(n) % 2 == 0
    units = [f"unit {row // 3}" for row in range(n)]
    order = rng.permutation(n)
    for column in (None, units):
        plain = Rows(X, positive, column)
        moved = Rows(X[order], positive[order], column and [column[row] for row in order])
        assert torch.equal(moved.X, plain.X)
        assert torch.equal(moved.positive, plain.positive)
        if plain.folds() is None:
            assert moved.folds() is None
        else:
            assert torch.equal(moved.folds(), plain.folds())


def test_rows_keep_what_belongs_together() -> None:
    world = draw(20, 4, effect=2, seed=0)
    rows = Rows(world.X, world.y, list(range(20)), world.pairs)
    for x, positive, unit, pair in zip(rows.X, rows.positive, rows.units, rows.pairs, strict=True):
        assert torch.equal(x, world.X[unit])
        assert positive == world.y[unit]
        assert pair == world.pairs[unit]


def test_moments_of_rows_are_numpys() -> None:
    world = draw(30, 5, effect=2, seed=1)
    rows, X = Rows(world.X, world.y), world.X.double().numpy()
    assert (rows.count(), rows.count(True), rows.count(False)) == (30, 15, 15)
    np.testing.assert_allclose(rows.mean(True), X[world.y].mean(0), atol=1e-12)
    np.testing.assert_allclose(rows.covariance(), np.cov(X.T, bias=True), atol=1e-12)


def test_folds_hold_both_classes_and_tear_no_unit() -> None:
    world = draw(60, 3, effect=2, seed=2)
    rows = Rows(world.X, world.y, world.pairs)
    folds = rows.folds()
    assert sorted(set(folds.tolist())) == [0, 1, 2, 3, 4]
    for fold in range(5):
        assert 0 < rows.positive[folds == fold].sum() < (folds == fold).sum()
    assert all(len({int(folds[row]) for row in range(60) if rows.units[row] == unit}) == 1 for unit in world.pairs)


def test_rows_without_a_unit_stand_alone() -> None:
    world = draw(20, 3, effect=2, seed=3)
    assert set(Rows(world.X, world.y, [None] * 20).folds().tolist()) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize(("positives", "k"), [(1, None), (2, 2), (3, 3), (7, 5)])
def test_small_classes_get_fewer_folds(positives: int, k: int | None) -> None:
    positive = np.arange(20) < positives
    folds = Rows(torch.randn(20, 3), positive).folds()
    assert folds is None if k is None else int(folds.max()) + 1 == k


def test_means_that_coincide_are_noticed() -> None:
    X = torch.tensor([[1.0, 2.0], [3.0, 5.0]]).repeat(2, 1)
    assert not Rows(X, np.array([True, True, False, False])).differ
    assert Rows(X, np.array([True, False, True, False])).differ
