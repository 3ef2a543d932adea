"""AUROC, accuracy, F1 and the threshold: agreement with scikit-learn, laws, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from covec.errors import CovecError
from covec.statistics.auroc import accuracy, auroc, best_threshold, f1


@st.composite
def scored_rows(draw):
    """Scores with many ties, labels of both classes."""
    labels = draw(st.lists(st.booleans(), min_size=2, max_size=30).filter(lambda x: len(set(x)) == 2))
    scores = draw(st.lists(st.integers(-4, 4), min_size=len(labels), max_size=len(labels)))
    return np.array(scores) / 2, np.array(labels)


@settings(max_examples=60, deadline=None)
@given(scored_rows())
def test_agrees_with_scikit_learn(rows):
    scores, labels = rows
    assert auroc(scores, labels) == pytest.approx(roc_auc_score(labels, scores))
    assert accuracy(scores, labels, 0.25) == pytest.approx(accuracy_score(labels, scores > 0.25))
    assert f1(scores, labels, 0.25) == pytest.approx(f1_score(labels, scores > 0.25))


@settings(max_examples=40, deadline=None)
@given(scored_rows())
def test_ranks_are_all_that_matters(rows):
    scores, labels = rows
    assert auroc(np.exp(scores), labels) == auroc(scores, labels)
    assert auroc(-scores, labels) == pytest.approx(1 - auroc(scores, labels))
    assert auroc(scores, ~labels) == pytest.approx(1 - auroc(scores, labels))
    assert auroc(scores.astype(np.float32), labels.astype(int)) == auroc(scores, labels)


def test_batches_equal_single_rows():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(5, 40)).round(1), rng.random((5, 40)) < 0.4
    single = [auroc(s, y) for s, y in zip(scores, labels, strict=True)]
    assert auroc(scores, labels) == pytest.approx(single)
    assert auroc(scores[0], labels) == pytest.approx([auroc(scores[0], y) for y in labels])
    assert auroc(scores, labels[0]) == pytest.approx([auroc(s, labels[0]) for s in scores])
    assert accuracy(scores, labels[0]) == pytest.approx([accuracy(s, labels[0]) for s in scores])
    assert isinstance(auroc(scores[0], labels[0]), float)


@pytest.mark.parametrize(
    ("scores", "labels", "threshold"),
    [
        ([-2, -1, 1, 2], [0, 0, 1, 1], 0.0),  # one plateau, from -1 to 1
        ([-3, -1, 0, 4, 5, 6], [0, 1, 0, 1, 0, 1], 2.0),  # three plateaus of accuracy 4/6, the widest from 0 to 4
        ([-2, -1, 0, 2, 3, 5], [0, 1, 0, 1, 0, 1], 1.0),  # equally wide: 0 to 2 and 3 to 5, nearer 0 is taken
        ([0, 1, 1, 2], [0, 0, 1, 1], 1.0),  # the tie at 1 ends no plateau
        ([5, 5, 5], [1, 1, 0], 4.5),  # below all scores
        ([1, 2, 3, 4], [1, 1, 1, 0], 0.625),  # best is to call all positive
    ],
)
def test_threshold_lies_in_the_middle_of_its_plateau(scores, labels, threshold):
    assert best_threshold(scores, labels) == pytest.approx(threshold)


@settings(max_examples=60, deadline=None)
@given(scored_rows(), st.sampled_from([0.01, 100.0]))
def test_threshold_is_the_most_accurate_and_moves_with_the_scale(rows, scale):
    scores, labels = rows
    threshold = best_threshold(scores, labels)
    candidates = np.append(np.unique(scores), scores.min() - 1)
    assert accuracy(scores, labels, threshold) == max(accuracy(scores, labels, other) for other in candidates)
    if np.ptp(scores) > 0:  # equal scores tell no scale
        assert best_threshold(scores * scale, labels) == pytest.approx(threshold * scale)


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([1.0, 2.0], [True, True], "same label"),
        ([1.0, np.nan], [True, False], "NaN"),
        ([1.0, np.inf], [True, False], "infinite"),
        ([1.0, 2.0, 3.0], [True, False], "do not match"),
        ([[1.0, 2.0]] * 3, [[True, False]] * 2, "do not match"),
        ([], [], "n > 0"),
        ([1.0, 2.0], [1, 2], "true or false"),
        ([1.0, 2.0], ["yes", "no"], "true or false"),
        (["a", "b"], [True, False], "numbers"),
    ],
)
@pytest.mark.parametrize("statistic", [auroc, accuracy, f1, best_threshold])
def test_bad_input_is_refused(statistic, scores, labels, message):
    with pytest.raises(CovecError, match=message) as error:
        statistic(scores, labels)
    assert "\n" not in str(error.value)
