"""Functional welfare: each outcome counts once, and opposition is judged beside outcomes dealt anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.errors import ExamplesError
from covec.find.functional_welfare import FunctionalWelfare, opposition

ROWS = torch.tensor([[4.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 6.0]])
WELL = [True, False, False, False, False]
OUTCOMES = ["gold", None, None, None, "mold"]


def unit(*entries: float) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.tensor(entries).float(), dim=0)


def test_every_outcome_counts_once() -> None:
    """Of three neutral rows at zero and one bad one at (0, 6) the mean is (0, 3), not (0, 1.5)."""
    torch.testing.assert_close(FunctionalWelfare().fit(ROWS, WELL, category=OUTCOMES).direction_, unit(4, -3))
    neutral = FunctionalWelfare("neutral").fit(ROWS, WELL, category=OUTCOMES)
    torch.testing.assert_close(neutral.direction_, unit(1, 0))


@pytest.mark.parametrize(
    ("against", "given_", "words"),
    [
        ("nothing", {"category": OUTCOMES}, "against others or neutral, not 'nothing'"),
        ("others", {}, "needs an outcome for each row"),
        ("neutral", {"category": ["gold", "mold", "mold", "mold", "mold"]}, "no row is neutral"),
    ],
)
def test_bad_input(against: str, given_: dict[str, Any], words: str) -> None:
    with pytest.raises(ExamplesError, match=words) as caught:
        FunctionalWelfare(against).fit(ROWS, WELL, **given_)
    assert "\n" not in str(caught.value)


def drawn(seed: int, good: float, bad: float, n: int = 300) -> tuple[torch.Tensor, list[str]]:
    """Rows of three outcomes that lie at `good` and at `bad` along one axis, the neutral ones at 0."""
    rng = np.random.default_rng(seed)
    outcomes = np.repeat(["good", "bad", "path"], n)
    rows = rng.standard_normal((3 * n, 12))
    rows[:, 0] += np.repeat([good, bad, 0.0], n)
    return torch.from_numpy(rows), outcomes.tolist()


def test_opposed_outcomes_are_told_from_noise_whose_cosine_is_a_half() -> None:
    rows, outcomes = drawn(0, 2.0, -2.0)
    found = opposition(rows, outcomes, "bad", "good", "path")
    assert found.cosine < -0.9
    assert found.below_all
    assert (found.figure.value, found.figure.n) == (found.cosine, 900)
    noise = [opposition(*drawn(seed, 0.0, 0.0), "bad", "good", "path").cosine for seed in range(40)]
    assert np.mean(noise) == pytest.approx(0.5, abs=0.1)
    assert sum(opposition(*drawn(seed, 0.0, 0.0), "bad", "good", "path").below_all for seed in range(40)) <= 6


def test_outcomes_that_are_both_unlike_the_neutral_one_are_not_opposed() -> None:
    assert opposition(*drawn(0, 2.0, 2.0), "bad", "good", "path").cosine > 0.9


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.floats(0.01, 100), shift=st.floats(-10, 10))
def test_neither_scale_nor_origin_nor_other_outcomes_matter(seed: int, scale: float, shift: float) -> None:
    rows, outcomes = drawn(seed, 1.0, -0.5, n=20)
    plain = opposition(rows, outcomes, "bad", "good", "path")
    more = torch.cat([scale * rows + shift, torch.full((2, 12), 1e3)])
    moved = opposition(more, [*outcomes, "else", "else"], "bad", "good", "path")
    assert moved.cosine == pytest.approx(plain.cosine, abs=1e-3)
    assert moved.dealt == pytest.approx(plain.dealt, abs=1e-3)


def test_outcomes_are_dealt_anew_within_cells_alone() -> None:
    """Where every cell has one outcome, dealing changes nothing."""
    rows, outcomes = drawn(0, 1.0, -1.0, n=10)
    found = opposition(rows, outcomes, "bad", "good", "path", within=outcomes)
    assert found.dealt == pytest.approx(np.full(20, found.cosine))
    free = opposition(rows, outcomes, "bad", "good", "path", within=["one"] * 30)
    assert free.dealt.tolist() == opposition(rows, outcomes, "bad", "good", "path").dealt.tolist()


@pytest.mark.parametrize(
    ("named", "options", "words"),
    [
        (("bad", "good", "none"), {}, "no rows of the outcome 'none'"),
        (("bad", "bad", "path"), {}, "are not three outcomes"),
        (("bad", "good", "path"), {"within": ["one"]}, "1 cells for 6 rows"),
    ],
)
def test_bad_outcomes(named: tuple[str, str, str], options: dict[str, Any], words: str) -> None:
    rows, outcomes = drawn(0, 1.0, -1.0, n=2)
    with pytest.raises(ExamplesError, match=words):
        opposition(rows, outcomes, *named, **options)
