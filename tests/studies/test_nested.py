"""Cross-validation of small data: what knows nothing stays at chance, whatever classes the folds hold."""

from types import SimpleNamespace

import numpy as np
import pytest

from covec.concepts.examples import Examples
from covec.measure._baselines import bag_of_words
from covec.statistics.auroc import auroc
from covec.statistics.splits import Split, deal
from covec.studies._nested import FOLDS, _pooled
from covec.studies._sweep import Data

WORDS = [f"word{index}" for index in range(200)]


def drawn(seed, sizes=(1, 1, 1, 1, 8)):
    """Random words in groups of `sizes`, as many of them positive as negative; folds come out unequal."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([True, False], sum(sizes))
    groups = [f"{label}{index}" for label in "+-" for index, size in enumerate(sizes) for _ in range(size)]
    return Examples(tuple(" ".join(rng.choice(WORDS, 8)) for _ in labels), labels, groups=tuple(groups))


def folds_of(examples, seed):
    fold = deal(examples.units, examples.labels, k=FOLDS, seed=seed)
    return [np.flatnonzero(fold == index) for index in range(FOLDS)]


def splits_of(tests):
    """Each fold as test rows, the next one as validation."""
    for index, test in enumerate(tests):
        after = (index + 1) % FOLDS
        rest = np.concatenate([part for place, part in enumerate(tests) if place not in (index, after)])
        yield Split(rest, tests[after], test)


def plainly_pooled(examples, tests):
    """Log-odds as they are: a fold that holds more positives was fitted on fewer, and its log-odds are lower."""
    scores = [bag_of_words(examples, part).scores for part in splits_of(tests)]
    return auroc(np.concatenate(scores), examples.labels[np.concatenate(tests)])


def test_random_words_are_at_chance_where_folds_hold_unequal_classes():
    plain, standard = [], []
    for seed in range(8):
        examples = drawn(seed)
        tests = folds_of(examples, seed)
        plain.append(plainly_pooled(examples, tests))
        standard.append(_pooled(bag_of_words, Data(examples, {}), tests, SimpleNamespace(seed=0)).auroc.value)
    assert np.mean(plain) < 0.3
    assert np.mean(standard) == pytest.approx(0.5, abs=0.1)


def test_a_baseline_is_right_as_often_as_its_own_folds_say():
    examples = drawn(0)
    tests = folds_of(examples, 0)
    found = _pooled(bag_of_words, Data(examples, {}), tests, SimpleNamespace(seed=0))
    right = [bag_of_words(examples, part).accuracy.value * len(part.test) for part in splits_of(tests)]
    assert found.accuracy.value == pytest.approx(sum(right) / len(examples))
