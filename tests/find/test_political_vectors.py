from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.checks.planted import draw
from covec.errors import ExamplesError
from covec.find import Finder
from covec.find.logistic import Logistic
from covec.find.mean_difference import MeanDifference
from covec.find.pca_pairs import PcaPairs
from covec.find.political_vectors import TECHNIQUES, PoliticalVectors, fit_axes


def test_exact() -> None:
    """Pairs of unequal size count once each: differences (4, 0) and (0, 2)."""
    X = [[5.0, 1.0], [3.0, 1.0], [0.0, 1.0], [7.0, 9.0], [7.0, 7.0]]
    found = PoliticalVectors().fit(X, [1, 1, 0, 1, 0], pairs=list("aaabb"))
    torch.testing.assert_close(found.direction_, torch.tensor([2.0, 1.0]) / 5**0.5)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), technique=st.sampled_from(TECHNIQUES[:2]))
def test_what_a_pair_shares_does_not_matter(seed: int, technique: str) -> None:
    world = draw(40, 8, effect=2, seed=seed)
    topics = 5 * torch.randn(20, 8, generator=torch.Generator().manual_seed(seed)).repeat_interleave(2, 0)
    finder = PoliticalVectors(technique)
    plain, moved = (finder.fit(X, world.y, pairs=world.pairs).direction_ for X in (world.X, world.X + topics))
    assert float(plain @ moved) > 1 - 1e-3


def test_techniques_are_the_finders_they_are_called_after() -> None:
    world = draw(80, 12, effect=3, seed=1)
    wanted: dict[str, Finder] = {
        "difference": MeanDifference().fit(world.X, world.y),
        "pca": PcaPairs().fit(world.X, world.y, pairs=world.pairs),
        "probe": Logistic().fit(world.X, world.y, pairs=world.pairs),
    }
    for technique, one in wanted.items():
        found = PoliticalVectors(technique).fit(world.X, world.y, pairs=world.pairs)
        torch.testing.assert_close(found.direction_, one.direction_, rtol=0, atol=1e-5)


def axes(seed: int = 0, leak: float = 0.0):
    """Two axes at right angles; of the statements on the second one, those of its first pole also lean on the first."""
    generator = torch.Generator().manual_seed(seed)
    n, d = 40, 10
    X = torch.randn(2 * n, d, generator=generator)
    y, axis = np.arange(2 * n) % 2 == 0, np.repeat(["one", "two"], n)
    signs = torch.from_numpy(np.where(y, 2.0, -2.0)).float()
    X[:n, 0] += signs[:n]
    X[n:, 1] += signs[n:]
    X[n:, 0] += leak * signs[n:]
    return X, y, axis.tolist(), [f"{name} {row // 2}" for row, name in enumerate(axis)]


def test_axes_that_are_apart_read_nothing_of_one_another() -> None:
    X, y, axis, pairs = axes()
    found = fit_axes(PoliticalVectors(), X, y, axis, pairs=pairs)
    unseen, _, _, _ = axes(1)
    read = found.confounds(unseen, y, axis, pairs)
    assert read.own > 0.95
    assert read.others < 0.75
    assert read.selectivity("one") > read.selectivity("pooled")
    assert abs(read.cosines[0, 1]) < 0.3
    assert read.areas["one"]["one"].null == 0.5
    assert str(read).splitlines()[0].split() == ["one", "two"]


def test_a_leak_is_seen() -> None:
    X, y, axis, pairs = axes(leak=1.0)
    read = fit_axes(PoliticalVectors(), X, y, axis, pairs=pairs).confounds(axes(1, leak=1.0)[0], y, axis)
    assert read.areas["one"]["two"].value > 0.9
    assert read.cosines[0, 1] > 0.5


def test_axes_are_a_bank() -> None:
    X, y, axis, pairs = axes()
    found = fit_axes(PoliticalVectors(), X, y, axis, pairs=pairs)
    bank = found.bank("resid.3", method="political-vectors")
    assert list(bank) == ["one", "two"]
    torch.testing.assert_close(bank["two"].direction, found.directions[1])


def test_bad_input() -> None:
    X, y, axis, pairs = axes()
    finder = PoliticalVectors()
    for call, words in (
        (lambda: finder.fit(X, y), "political-vectors needs pairs"),
        (lambda: PoliticalVectors("vote").fit(X, y, pairs=pairs), "no technique 'vote'; known: difference"),
        (lambda: fit_axes(finder, X, y, ["one"] * len(X), pairs=pairs), "one axis only"),
        (lambda: fit_axes(finder, X, y, axis[1:], pairs=pairs), "79 axes for 80 rows"),
        (lambda: fit_axes(finder, X, y, ["pooled", "two"] * 40, pairs=pairs), "an axis is called 'pooled'"),
        (
            lambda: fit_axes(finder, X, y, axis, pairs=pairs).confounds(X[:40], y[:40], axis[:40]),
            "no rows of the axis 'two'",
        ),
    ):
        with pytest.raises(ExamplesError, match=words):
            call()
