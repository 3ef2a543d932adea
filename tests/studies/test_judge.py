"""The verdict is the first that applies, and the nulls are what they say."""

import numpy as np
import pytest
import torch

from covec.statistics.figure import Figure
from covec.studies import _judge as judge

BEYOND, LEVEL_WITH_WORDS = Figure(0.1, 0.05, 0.2), Figure(0.01, -0.03, 0.05)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({}, "found"),
        ({"too_little": True}, "too-little-data"),
        ({"p": 0.011}, "not-found"),
        ({"auroc_value": 0.7}, "not-found"),
        ({"used": "used"}, "found-and-used"),
        ({"used": "steers-only"}, "found"),
        ({"beyond_words": LEVEL_WITH_WORDS}, "text-only"),
        ({"beyond_words": LEVEL_WITH_WORDS, "used": "used"}, "found-and-used"),
        ({"beyond_words": LEVEL_WITH_WORDS, "used": "used", "p": 0.5}, "not-found"),
    ],
)
def test_the_first_verdict_that_applies(case, expected):
    usual = {
        "too_little": False, "p": 0.01, "auroc_value": 0.9, "random_high": 0.7, "used": "not-shown",
        "beyond_words": BEYOND,
    }  # fmt: skip
    verdict, warnings = judge.verdict(**{**usual, **case})
    assert verdict == expected
    no_better_than_words = expected == "found-and-used" and case.get("beyond_words") is LEVEL_WITH_WORDS
    assert bool(warnings) == (no_better_than_words or "auroc_value" in case)


def rows(seed, gap):
    rng = np.random.default_rng(seed)
    labels = np.arange(200) % 2 == 0
    found = rng.normal(size=(200, 40))
    found[labels, 0] += gap
    return torch.from_numpy(found).float(), labels


def test_random_and_shuffled_directions_know_nothing_of_a_concept_on_one_axis_of_many():
    train, labels = rows(0, 2.0)
    test, truth = rows(1, 2.0)
    randoms = judge.random_directions(train, labels, test, truth, seed=0)
    shuffled = judge.shuffled_directions(train, labels, test, truth, None, None, seed=0)
    assert len(randoms) == judge.RANDOM_DIRECTIONS
    assert 0.5 < np.median(randoms) < 0.7  # turned by the training rows, so a little above chance
    assert abs(np.median(shuffled) - 0.5) < 0.1
    assert np.quantile(randoms, 0.95) < 0.9


def test_a_baseline_below_chance_is_no_credit_to_the_vector():
    scores, labels = np.array([0.9, 0.2, -0.3, 0.6, -0.8, -0.1, 0.4, -0.5]), np.array([1, 1, 0, 1, 0, 0, 0, 0], bool)
    test = judge.Test(scores, labels, 0.0)
    area = test.figures(0.5, 0)["auroc"]
    found = test.beyond(-scores, 0)
    assert found.value == pytest.approx(area.value - 0.5)
    assert found.low == pytest.approx(area.low - 0.5)
    assert "worse than guessing" in found.how
    assert test.beyond(scores, 0).value == 0


def test_accuracy_by_threshold_and_by_rows_called_right_agree():
    scores, labels = np.array([0.9, 0.2, -0.3, 0.6, -0.8, -0.1, 0.4, -0.5]), np.array([1, 1, 0, 1, 0, 0, 0, 0], bool)
    plain = judge.Test(scores, labels, 0.3).figures(0.5, 0)["accuracy"]
    right = judge.Test(scores, labels, 0.0, right=(scores > 0.3) == labels).figures(0.5, 0)["accuracy"]
    assert plain.value == right.value == 0.75
    assert (plain.low, plain.high) == (right.low, right.high)
