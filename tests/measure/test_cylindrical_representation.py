"""The geometry of difference vectors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.errors import CovecError
from covec.measure.cylindrical_representation import cylindrical_representation, sine_law


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_exact():
    """Differences at 60 degrees from the axis, their own parts in pairs that cancel."""
    own = torch.eye(40).repeat_interleave(2, 0) * (torch.arange(80) % 2 * 2 - 1)[:, None]
    rows = torch.cat([torch.full((80, 1), 0.5), 0.75**0.5 * own], 1)
    found = cylindrical_representation(rows, groups=[row // 2 for row in range(80)])
    assert found.figure.value == pytest.approx(0.5, abs=1e-6)
    assert found.rank.value == pytest.approx(40, rel=1e-4)
    torch.testing.assert_close(found.axis, torch.eye(41)[0] / 2)


def test_one_direction_alone_is_a_cosine_of_one_and_none_is_the_null():
    rows = normal(60, 1, seed=1).abs() @ normal(1, 16, seed=2) + 1e-3 * normal(60, 16, seed=3)
    assert cylindrical_representation(rows).figure.value > 0.999
    nothing = cylindrical_representation(normal(60, 16)).figure
    assert nothing.low < nothing.null < nothing.high


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), factor=st.floats(1e-3, 1e3))
def test_neither_the_scale_of_the_model_nor_a_turn_matters(seed, factor):
    rows, turn = normal(30, 8, seed=seed) + 1, torch.linalg.qr(normal(8, 8, seed=seed + 1)).Q
    plain, other = cylindrical_representation(rows), cylindrical_representation(factor * rows @ turn)
    assert other.figure.value == pytest.approx(plain.figure.value, abs=1e-4)
    assert other.rank.value == pytest.approx(plain.rank.value, rel=1e-3)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), penalty=st.floats(0, 1), length=st.floats(0.1, 10))
def test_a_penalty_shortens_the_own_part_alone(seed, penalty, length):
    rows = normal(20, 8, seed=seed) + 1
    found = cylindrical_representation(rows, nulls=1)
    shifts = found.steering(rows, length, penalty)
    unit = torch.nn.functional.normalize(found.axis, dim=0)
    cosines = torch.nn.functional.cosine_similarity(rows, found.axis[None])
    torch.testing.assert_close(shifts @ unit, length * cosines, rtol=1e-3, atol=1e-4)
    across = (shifts - (shifts @ unit)[:, None] * unit).norm(dim=1)
    torch.testing.assert_close(across, length * (1 - penalty) * (1 - cosines**2).sqrt(), rtol=1e-2, atol=1e-3)


def test_questions_are_held_out_whole():
    """Copies of a difference do not vouch for one another."""
    rows = normal(12, 200).repeat_interleave(5, 0)
    apart = cylindrical_representation(rows, groups=[row // 5 for row in range(60)]).figure
    together = cylindrical_representation(rows).figure
    assert abs(apart.value) < 0.15 < together.value


def test_the_law_is_zero_on_the_axis_and_grows_away_from_it():
    found = sine_law(np.array([1.0, 0.8, 0.6]))
    assert found == pytest.approx([0, 0.36 / 0.8, 0.64 / 0.6])


def test_what_lies_on_the_axis_has_no_part_of_its_own():
    """The rounding across the axis is no direction."""
    rows = torch.linspace(1, 2, 20)[:, None] * normal(1, 16)
    assert cylindrical_representation(rows).rank.value == 0


def test_differences_that_cancel_share_no_axis():
    rows = normal(1, 16).repeat(4, 1)
    with pytest.raises(CovecError, match="share no axis"):
        cylindrical_representation(torch.cat([rows, -rows]))
