"""Measures of descriptions: exact cases, and what each cannot see."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from covec.measure import _descriptions as measures

numbers = st.lists(st.floats(-10, 10), min_size=3, max_size=12).map(np.array)


def test_cosy_is_the_auroc_and_mad_the_difference_in_deviations_of_the_control():
    shown, control = np.array([3.0, 2.0, 5.0]), np.array([1.0, 2.0, 0.0, 4.0])
    assert measures.cosy_auc(shown, control) == roc_auc_score([1] * 3 + [0] * 4, [*shown, *control])
    assert measures.mean_difference(shown, control) == pytest.approx((10 / 3 - 1.75) / control.std())
    assert measures.mean_difference(shown, np.ones(4)) == 0
    low, high = measures.cosy_auc_ends(shown, control)
    assert low < measures.cosy_auc(shown, control) < high
    assert measures.cosy_p(np.arange(10.0) + 20, np.arange(10.0)) < 1e-3 < measures.cosy_p(control, control)


@given(numbers, numbers)
def test_clarity_does_not_see_the_sign_and_cosy_does(shown, control):
    assert measures.clarity(-shown, -control) == pytest.approx(measures.clarity(shown, control))
    assert measures.cosy_auc(-shown, -control) == pytest.approx(1 - measures.cosy_auc(shown, control))


def test_ratings_between_clear_and_absent_are_left_out():
    activation, ratings = np.array([5.0, 4.0, 9.0, 1.0, 0.0]), np.array([2.0, 1.6, 1.0, 0.2, 0.0])
    assert measures.responsiveness(activation, ratings) == 1
    assert measures.purity(activation, ratings) == 1
    assert measures.purity(-activation, ratings) == 1  # turned round where it fires on the others
    for alike in (np.zeros(5), np.full(5, 2.0), np.ones(5)):
        assert np.isnan(measures.responsiveness(activation, alike))
        assert np.isnan(measures.purity(activation, alike))


def test_detection_asks_whether_the_most_active_tenth_are_rated_so():
    activation = np.arange(20.0)
    assert measures.detection(activation, (activation >= 18) * 2.0) == 1
    assert measures.detection(activation, np.zeros(20)) == 0.5
    assert measures.detection(activation, (activation < 18) * 2.0) == 0


def test_simulation_is_a_correlation_and_nothing_foretells_nothing():
    activation = np.array([1.0, 2.0, 4.0])
    assert measures.simulation(activation, 0.1 * activation + 1) == pytest.approx(1)
    assert measures.simulation(activation, np.ones(3)) == 0
    assert measures.simulation(np.ones(3), activation) == 0


@pytest.mark.parametrize(
    ("shares", "unsteered", "wanted"),
    [([0.6, 0.2], 0.2, 0.5), ([0.1], 0.2, 0.0), ([1.0], 0.0, 1.0), ([1.0], 1.0, 0.0)],
)
def test_faithfulness_is_the_share_of_what_was_left_to_win(shares, unsteered, wanted):
    assert measures.faithfulness(shares, unsteered) == pytest.approx(wanted)


def test_descriptions_of_one_unit_that_lie_apart_make_it_polysemantic():
    rows = {"a": [1.0, 0.0], "b": [0.0, 1.0]}

    def encode(texts):
        return torch.tensor([rows[text] for text in texts])

    assert measures.polysemanticity(encode, ["a"]) == 0
    assert measures.polysemanticity(encode, ["a", "a"]) == pytest.approx(0)
    assert measures.polysemanticity(encode, ["a", "b", "b"]) == pytest.approx(2 / 3)
    assert measures.uniqueness(["food", "Food ", "sport"]) == pytest.approx([0.5, 0.5, 1])
