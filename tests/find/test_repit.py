from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.errors import ExamplesError
from covec.find.mean_difference import MeanDifference
from covec.find.repit import PARALLEL, RepIt, isolated


def vectors(seed: int, count: int = 4, d: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count + 1, d, generator=generator).double()
    return drawn[0], drawn[1:]


def test_exact() -> None:
    """Of (3, 4), the other lies along the first axis: three quarters of the energy there is half the length."""
    target, others = torch.tensor([3.0, 4.0]).double(), torch.tensor([[10.0, 0.0]]).double()
    torch.testing.assert_close(isolated(target, others, 0.75), torch.tensor([1.5, 4.0]).double())


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0, 1), scale=st.floats(0.01, 100))
def test_just_that_share_of_the_energy_goes(seed: int, share: float, scale: float) -> None:
    target, others = vectors(seed)
    basis = torch.linalg.qr(others.T).Q
    found = isolated(target, others * scale, share)
    assert float((basis.T @ found).square().sum()) == pytest.approx(
        (1 - share) * float((basis.T @ target).square().sum()), rel=1e-6, abs=1e-9
    )
    torch.testing.assert_close(found - basis @ (basis.T @ found), target - basis @ (basis.T @ target))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.99])
def test_it_is_the_published_algorithm(share: float) -> None:
    """Weights, a ridge, Cholesky whitening and QR, as the paper's code has them, and back."""
    target, R = vectors(3)
    weights = 1 / R.norm(dim=1)
    R_w = (weights / weights.sum())[:, None] * R
    C = R_w.T @ R_w / len(R) + 1e-4 * R_w.square().mean() * torch.eye(R.shape[1]).double()
    L = torch.linalg.cholesky(C)
    v, Q = (torch.linalg.solve_triangular(L, one, upper=False) for one in (target[:, None], R_w.T))
    Q = torch.linalg.qr(Q).Q
    published = (L @ (v - (1 - math.sqrt(1 - share)) * Q @ (Q.T @ v)))[:, 0]
    torch.testing.assert_close(isolated(target, R, share), published, rtol=1e-6, atol=1e-6)


def test_repeated_categories_count_once_and_parallel_ones_not_at_all() -> None:
    target, others = vectors(4)
    twice = torch.cat([others, 3 * others])
    torch.testing.assert_close(isolated(target, twice, 0.9), isolated(target, others, 0.9))
    near = target + 0.9 * PARALLEL * target.norm() * torch.nn.functional.normalize(others[0], dim=0)
    torch.testing.assert_close(isolated(target, near[None], 0.9), target)


def topics(seed: int, shared: float = 4.0, rows: int = 40, d: int = 64) -> tuple[Any, ...]:
    """Four categories of one strong common part and a part of their own, and neutral rows; the first is the target."""
    generator = torch.Generator().manual_seed(seed)
    axes = torch.linalg.qr(torch.randn(d, 5, generator=generator)).Q.T
    means = torch.cat([shared * axes[:1] + 2 * axes[1:], 0 * axes[:1]])
    X = means.repeat_interleave(rows, 0) + torch.randn(5 * rows, d, generator=generator)
    names = np.repeat(["one", "two", "three", "four", ""], rows)
    return X, names == "one", [None if name == "" else name for name in names.tolist()], axes[1]


def test_it_finds_what_is_a_category_s_own() -> None:
    X, y, category, own = topics(0)
    plain, found = (RepIt(share=share).fit(X, y, category=category) for share in (0.0, None))
    assert found.share_ >= 0.9
    assert found.direction_ @ own > plain.direction_ @ own + 0.25


def test_where_nothing_is_shared_little_is_removed() -> None:
    X, y, category, _ = topics(1, shared=0.0)
    assert RepIt().fit(X, y, category=category).share_ == 0.0


def test_several_targets_are_isolated_one_by_one_and_averaged() -> None:
    X, _, category, _ = topics(2)
    y = np.array([name in ("one", "two") for name in category])
    found = RepIt(share=0.9).fit(X, y, category=category).direction_.double()
    origin = X[160:].double().mean(0)
    one, two, three, four = (X[start : start + 40].double().mean(0) - origin for start in (0, 40, 80, 120))
    others = torch.stack([three, four])
    wanted = isolated(one, others, 0.9) + isolated(two, others, 0.9)
    torch.testing.assert_close(found, wanted / wanted.norm(), rtol=0, atol=1e-5)


def test_with_no_other_category_it_is_the_difference_of_means() -> None:
    X, y, category, _ = topics(3)
    kept = [row for row, name in enumerate(category) if name in ("one", None)]
    found = RepIt().fit(X[kept], y[kept], category=[category[row] for row in kept])
    assert found.share_ == 0.0
    torch.testing.assert_close(found.direction_, MeanDifference().fit(X[kept], y[kept]).direction_)


@pytest.mark.parametrize("neutral", [None, "", "  ", float("nan")])
def test_what_is_empty_is_neutral(neutral: object) -> None:
    X, y, category, _ = topics(5)
    wanted = RepIt(share=0.5).fit(X, y, category=category).direction_
    found = RepIt(share=0.5).fit(X, y, category=[neutral if name is None else name for name in category])
    assert torch.equal(found.direction_, wanted)


def test_without_neutral_rows_the_other_categories_stand_in_for_them() -> None:
    """What they have in common then cancels, and as many rows of each make the plain difference of means."""
    X, y, category, _ = topics(7)
    named = [row for row, name in enumerate(category) if name is not None]
    found = RepIt().fit(X[named], y[named], category=[category[row] for row in named])
    assert found.share_ == 0.0
    torch.testing.assert_close(found.direction_, MeanDifference().fit(X[named], y[named]).direction_)


def test_bad_input() -> None:
    X, y, category, _ = topics(6)
    for columns, words in (
        ({}, "give category="),
        ({"category": category[1:]}, "199 category for 200 rows"),
    ):
        with pytest.raises(ExamplesError, match=words):
            RepIt().fit(X, y, **columns)
    with pytest.raises(ExamplesError, match="between 0 and 1, not 2"):
        RepIt(share=2).fit(X, y, category=category)
