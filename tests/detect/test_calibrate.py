"""What a vector is given for detection: the aggregator and threshold that suit it, and Platt's probabilities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.detect import calibrate
from covec.detect._calibrate import platt
from covec.errors import CovecError
from covec.models.text import TextModel
from tiny import tiny_model


def loss(parameters: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> float:
    """Platt's: cross-entropy with his targets."""
    positives, negatives = labels.sum(), (~labels).sum()
    targets = np.where(labels, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    logits = parameters[0] * scores + parameters[1]
    return float((np.logaddexp(0, logits) - targets * logits).sum())


@given(seed=st.integers(0, 10_000), gap=st.floats(0.3, 8), scale=st.floats(0.2, 5))
@settings(max_examples=20, deadline=None)
def test_platt_minimises_his_loss(seed: int, gap: float, scale: float) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.random(60) < 0.4
    labels[:2] = [False, True]
    scores = scale * (generator.normal(0, 1, 60) + gap * labels)
    found = platt(scores, labels)
    best = minimize(loss, np.array([1.0, 0.0]), (scores, labels), method="BFGS")
    assert found[0] > 0
    if best.x[0] > 1e-3:
        assert loss(np.array(found), scores, labels) <= best.fun + 1e-4


def test_probabilities_of_separable_scores_are_finite_and_of_useless_ones_the_base_rate() -> None:
    labels = np.arange(40) < 10
    slope, offset = platt(labels * 2.0 - 1.0, labels)
    assert 0 < slope < 100
    assert abs(offset) < 100
    slope, offset = platt(-(labels * 2.0 - 1.0), labels)
    assert slope > 0
    assert 1 / (1 + np.exp(-(slope * 0.3 + offset))) == pytest.approx(0.25, abs=0.05)


def test_the_aggregator_is_the_one_that_finds_the_concept(
    llama: TextModel, seven: ConceptVector, sevens: Examples
) -> None:
    found = calibrate(llama, seven, sevens, range(60))
    assert found.aggregator in ("max", "super-activators")  # the last token never shows it
    fires = [detection.fires for detection in llama.detect(found, sevens.inputs, tokens=False)]
    assert fires == sevens.labels.tolist()
    slope, _ = found.calibration or (0.0, 0.0)
    assert slope > 0
    assert replace(found, aggregator="last", threshold=0.0, calibration=None) == seven


@pytest.mark.parametrize(("read", "aggregator"), [("last/none", "last"), ("content/mean", "mean")])
def test_where_all_do_equally_well_the_read_position_decides(
    llama: TextModel, seven: ConceptVector, read: str, aggregator: str
) -> None:
    texts = ["5 7", "3 7", "2 7", "4 7", "5 4", "3 2", "2 3", "4 5"] * 3
    examples = Examples(tuple(texts), [text.endswith("7") for text in texts])
    found = calibrate(llama, replace(seven, read_position=read), examples, range(len(texts)))
    assert found.aggregator == aggregator


def test_only_the_rows_given_count_in_any_order(llama: TextModel, seven: ConceptVector, sevens: Examples) -> None:
    rows = np.random.default_rng(0).permutation(60)[:40]
    one = calibrate(llama, seven, sevens, rows)
    assert one.aggregator == calibrate(llama, seven, sevens, sorted(rows)).aggregator
    swapped = replace(sevens, labels=np.where(np.isin(np.arange(60), rows), sevens.labels, ~sevens.labels))
    assert calibrate(llama, seven, swapped, rows) == one


def test_one_class_is_refused(llama: TextModel, seven: ConceptVector, sevens: Examples) -> None:
    with pytest.raises(CovecError, match="same label"):
        calibrate(llama, seven, sevens, np.flatnonzero(sevens.labels))


def test_spans_at_tokens_that_are_not_read_mark_the_whole_text(seven: ConceptVector) -> None:
    """Without a BOS the first word is token 0, which is never read as content."""
    module, tokenizer = tiny_model("gpt-neox")
    model = TextModel(module, tokenizer, name="no BOS")
    texts = tuple(f"{'7' if row % 2 else '2'} boils at {row} degrees" for row in range(40))
    labels = [row % 2 for row in range(40)]
    vector = replace(seven, model={})
    first = Examples(texts, labels, spans=tuple((0, 1) for _ in texts), name="first")
    found, whole = (calibrate(model, vector, one, range(40)) for one in (first, replace(first, spans=None)))
    assert (found.aggregator, found.threshold) == (whole.aggregator, whole.threshold)
