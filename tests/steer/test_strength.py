"""How strong to steer: the largest effect within a budget, and refusals where there is none."""

from dataclasses import replace

import numpy as np
import pytest

import covec
from covec.edits.divergence import Drift
from covec.errors import CovecError
from covec.statistics.figure import Figure
from covec.steer._strength import SHARES, Budget, Tried, _chosen
from covec.steer.style_vectors import StyleVectors
from covec.worlds.toys import GOOD, toy

LENIENT = Budget(2.0, 1e6)


@pytest.fixture(scope="module")
def world():
    return toy(0, read=True)


@pytest.fixture(scope="module")
def steering(world):
    return StyleVectors().fit(world.model, world.examples)


def good(texts):
    """How many words of a text are good ones."""
    return np.array([sum(word in GOOD for word in text.split()) for text in texts], dtype=float)


def found(world, what, **options):
    options = {"effect": good, **options}
    given = {"budget": LENIENT, "prompts": world.neutral[:6], "neutral": world.neutral[6:30]}
    return covec.strength(world.model, what, max_new_tokens=3, **given, **options)


def test_the_curve_spends_shares_of_the_budget_and_the_choice_is_within(world, steering):
    curve = found(world, steering)
    sizes = [one.strength for one in curve.curve]
    assert sizes == pytest.approx([share * sizes[-1] for share in SHARES])
    drift = Drift(world.model, world.neutral[6:30])
    assert drift.value(steering.edits(sizes[-1])) == pytest.approx(LENIENT.nats, rel=0.1)
    chosen = next(one for one in curve.curve if one.strength == curve.strength)
    assert chosen.within
    assert chosen.gain.value == max(one.gain.value for one in curve.curve if one.within) > 0
    assert "<- chosen" in str(curve)
    assert curve.to_json()["strength"] == curve.strength


def test_away_from_a_concept_strengths_are_negative(world, steering):
    def bad(texts):
        return -good(texts)

    curve = found(world, lambda size: steering.edits(-size), effect=bad, towards=-1)
    assert curve.strength < 0


def test_a_vector_reads_its_own_effect(world, steering):
    (vector,) = steering.vectors.values()
    one = vector.at(vector.sites[0])
    curve = found(world, one, effect=None)
    assert curve.strength > 0


def test_another_models_vector_is_refused_unless_forced(world, steering):
    (vector,) = steering.vectors.values()
    foreign = replace(vector, model={**vector.model, "fingerprint": "other"})
    with pytest.raises(CovecError, match="force it"):
        found(world, foreign)
    assert found(world, foreign, force=True).strength == found(world, vector).strength


def test_nothing_within_the_budget_is_told_in_a_line(world, steering):
    with pytest.raises(CovecError, match="allow more"):
        found(world, steering, effect=lambda texts: np.zeros(len(texts)))
    with pytest.raises(CovecError, match="reads nothing"):
        found(world, steering.edits, effect=None)
    with pytest.raises(CovecError, match="towards"):
        found(world, steering, towards=2)


@pytest.mark.parametrize("values", [(0, 2), (float("nan"), 2), (0.1, 0.5), (0.1, float("inf"))])
def test_a_budget_is_refused_where_it_is_none(values):
    with pytest.raises(CovecError, match="a budget of"):
        Budget(*values)


def test_what_is_over_budget_is_never_chosen():
    def tried(strength, gain, within):
        return Tried(strength, Figure(gain), 0.1, 1.0, within, "")

    curve = [tried(1.0, 0.1, True), tried(2.0, 0.3, True), tried(3.0, 0.9, False)]
    assert _chosen(curve, 1, Budget()) == 2.0
