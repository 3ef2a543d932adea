"""PNE: a known curve comes back, and what is no curve is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.errors import ExamplesError
from covec.measure.perplexity_normalised_effect import curve, perplexity_normalised_effect

SCALES = np.linspace(-4, 4, 9)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.1, 2), st.floats(0.01, 0.25), st.booleans())
def test_known_curves_come_back(a, b, down):
    a = -a if down else a
    found = curve(SCALES, 0.5 + np.tanh(a * SCALES), 30 * np.exp(b * SCALES**2))
    assert found.a == pytest.approx(a, rel=0.05)
    assert found.b == pytest.approx(b, rel=0.05)
    assert found.c == pytest.approx(0, abs=0.05)
    assert found.r2 > 0.99


def test_the_unit_of_the_scales_does_not_matter():
    effects, perplexities = 0.5 + 0.3 * np.tanh(SCALES), 30 * np.exp(0.1 * SCALES**2)
    one, other = (curve(factor * SCALES, effects, perplexities) for factor in (1, 64))
    assert one.range == pytest.approx(other.range, rel=1e-3)


def test_lost_fluency_counts_against_the_effect():
    effects = 0.5 + 0.4 * np.tanh(SCALES)
    cheap, dear = (perplexity_normalised_effect(SCALES, effects, 30 * np.exp(b * SCALES**2)) for b in (0.01, 0.4))
    assert cheap.value > 2 * dear.value
    assert cheap.value > 2 * cheap.null


def test_a_point_beyond_all_fluency_says_nothing_of_the_rise():
    perplexities = 30 * np.exp(0.1 * SCALES**2)
    spoilt = perplexities.copy()
    spoilt[-1] = 1e9
    effects = 0.5 + 0.3 * np.tanh(SCALES)
    assert curve(SCALES, effects, spoilt).b == pytest.approx(0.1, rel=1e-3)


def test_what_is_no_grid_is_refused():
    with pytest.raises(ExamplesError, match="five different scales"):
        curve(SCALES + 0.5, SCALES, np.ones(9))
    with pytest.raises(ExamplesError, match="give one of each"):
        curve(SCALES, SCALES[:3], np.ones(9))
