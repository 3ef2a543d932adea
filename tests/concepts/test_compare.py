"""What two vectors or sets of directions have in common, and what random ones have."""

import dataclasses
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes, subspace_angles

import covec
from covec.concepts.bank import Bank
from covec.concepts.compare import compare
from covec.concepts.dictionary import Dictionary, Gated
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def vector(name, direction, site="resid.3", length=2.0, **others):
    return ConceptVector.from_direction(name, site, direction, scale=length, scale_from="native", **others)


def test_exact():
    """Directions at 60 degrees, one of them three times as long."""
    one, other = torch.tensor([2.0, 0, 0]), torch.tensor([3.0, 27**0.5, 0])
    found = covec.compare(one, other)
    assert found.angle.value == pytest.approx(60)
    assert found.magnitude_ratio.value == pytest.approx(3)
    assert found.matching.value == pytest.approx(0.5)
    assert found.pairs == ((0, 0),)
    assert np.isnan(found.procrustes.value)
    assert np.isnan(found.jensen_shannon.value)


def test_vectors_are_compared_in_their_own_units():
    direction = normal(16)
    found = compare(vector("a", direction, length=2.0), vector("b", -direction, length=5.0))
    assert found.angle.value == pytest.approx(180)
    assert found.magnitude_ratio.value == pytest.approx(2.5)


def test_the_null_of_an_angle_is_a_right_angle():
    found = compare(normal(64, seed=1), normal(64, seed=2), nulls=400)
    assert found.angle.null == pytest.approx(90, abs=1.5)
    assert found.matching.null == pytest.approx(0, abs=0.02)


def test_spans_have_scipy_s_angles():
    one, other = normal(3, 12, seed=1), normal(4, 12, seed=2)
    wanted = np.rad2deg(subspace_angles(one.numpy().T, other.numpy().T)).mean()
    assert compare(one, other).angle.value == pytest.approx(wanted, abs=1e-3)
    assert compare(one, normal(2, 3) @ one).angle.value == pytest.approx(0, abs=1e-3)


def test_procrustes_is_scipy_s():
    one, other = (torch.nn.functional.normalize(normal(5, 12, seed=seed), dim=1) for seed in (1, 2))
    _, total = orthogonal_procrustes(one.numpy(), other.numpy())
    assert compare(one, other).procrustes.value == pytest.approx(total / 5, abs=1e-5)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 8))
def test_a_rotated_set_is_the_same_arrangement_in_another_place(seed, k):
    directions, turn = normal(k, 16, seed=seed), torch.linalg.qr(normal(16, 16, seed=seed + 1)).Q
    found = compare(directions, directions @ turn, nulls=20)
    assert found.procrustes.value == pytest.approx(1, abs=1e-5)
    assert found.procrustes.null < 1
    assert found.matching.value < 0.95
    assert found.magnitude_ratio.value == pytest.approx(1, abs=1e-5)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 8))
def test_a_shuffled_set_is_matched_row_for_row(seed, k):
    directions, order = normal(k, 16, seed=seed), torch.from_numpy(np.random.default_rng(seed).permutation(k))
    found = compare(directions, directions[order], nulls=3)
    assert found.matching.value == pytest.approx(1, abs=1e-6)
    assert [order[theirs] for _, theirs in found.pairs] == list(range(k))


def test_same_seed_same_figures_and_others_alone_move_the_null():
    one, other, rows = normal(3, 16), normal(3, 16, seed=1), normal(50, 16, seed=2)
    first, again, later = (compare(one, other, rows=rows, nulls=5, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.angle.value == later.angle.value
    assert first.angle.null != later.angle.null


def test_rows_make_the_null_harder():
    """Activations that vary along few axes, where two unrelated differences of means may well lie near one another."""
    rows = normal(400, 64) * torch.cat([torch.full((2,), 30.0), torch.ones(62)])
    one = rows[:20].mean(0) - rows[20:40].mean(0)
    easy, hard = (
        float(re.search(r"one in twenty is beyond ([\d.]+)$", compare(one, normal(64), **given).angle.how)[1])
        for given in ({}, {"rows": rows})
    )
    assert easy > 70
    assert hard < 30


def test_distributions_are_compared_along_the_directions():
    rows = torch.cat([normal(300, 3), normal(300, 3, seed=1) + torch.tensor([12.0, 0, 0])])
    axes = torch.eye(3)
    apart, alike = (compare(axes[0], other, rows=rows).jensen_shannon for other in (axes[1], axes[0]))
    assert apart.value > apart.null + 0.3
    assert alike.value < alike.null + 0.05
    assert apart.n == 600


def test_banks_are_matched_by_name():
    one, other = normal(3, 16), normal(3, 16, seed=1)
    first = Bank([vector(name, row) for name, row in zip("abc", one, strict=True)])
    second = Bank([vector(name, row) for name, row in zip("cbx", one[[2, 1, 0]], strict=True)])
    found = compare(first, second)
    assert found.procrustes.value == pytest.approx(1, abs=1e-5)
    assert "2 rows" in found.procrustes.how
    lonely = Bank([vector(name, row) for name, row in zip("xyz", other, strict=True)])
    assert np.isnan(compare(first, lonely).procrustes.value)
    assert compare(first, second, site="resid.3") == found


def test_dictionaries():
    directions = normal(5, 16)
    made = Dictionary(directions, Gated(directions.T, torch.zeros(5)), site="resid.3")
    assert compare(made, made).matching.value == pytest.approx(1)
    assert compare(vector("a", directions[2]), made).pairs == ((0, 2),)


def test_it_prints_and_is_json():
    found = compare(normal(3, 8), normal(3, 8, seed=1))
    assert str(found).count("\n") == 4
    assert covec.Figure.from_json(found.to_json()["matching"]) == found.matching


HERE, ELSEWHERE = ({"fingerprint": name * 8} for name in "ab")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: compare(normal(8), normal(9)), "width 8 and 9 share no space"),
        (lambda: compare(normal(8), torch.zeros(8)), "none of them all zero"),
        (lambda: compare(normal(8), torch.full((8,), float("nan"))), "finite numbers"),
        (lambda: compare(normal(2, 3, 4), normal(4)), r"rows \[k, d\]"),
        (lambda: compare(normal(4097, 2), normal(2)), "compare at most 4096"),
        (lambda: compare(normal(8), normal(8), rows=normal(3, 8)), "four at least"),
        (lambda: compare(normal(8), normal(8), rows=normal(9, 7)), r"activations \[n, 8\]"),
        (lambda: compare(vector("a", normal(8)), vector("b", normal(8), "resid.4")), "sites they share: none"),
        (lambda: compare(vector("a", normal(8)), vector("b", normal(8)), site="resid.9"), "share: resid.3"),
        (
            lambda: compare(vector("a", normal(8), model=HERE), vector("b", normal(8), model=ELSEWHERE)),
            "different models",
        ),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(CovecError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_tuned_copy_is_compared_when_forced():
    one, other = (vector("a", normal(8), model=model) for model in (HERE, ELSEWHERE))
    assert compare(one, other, force=True).angle.value == pytest.approx(0, abs=1e-3)


def test_several_shared_sites_need_a_choice():
    one = vector("a", normal(8))
    both = dataclasses.replace(one, parts={**one.parts, **vector("a", normal(8, seed=1), "resid.4").parts})
    with pytest.raises(CovecError, match=r"choose one of resid\.3, resid\.4"):
        compare(both, both)
    assert compare(both, both, site="resid.4").angle.value == pytest.approx(0, abs=1e-3)
