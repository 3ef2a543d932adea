"""The aggregators: each against its definition, and the SuperActivator tail against the paper's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covec import registry
from covec.detect import Aggregator, aggregators
from covec.errors import CovecError
from covec.statistics.auroc import accuracy, f1

NAMES = ("last", "max", "mean", "super-activators")
EXACT = {"last": lambda row: row[-1], "max": max, "mean": np.mean, "super-activators": max}
texts = st.lists(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=6), min_size=1, max_size=8)


def flat(rows: list[list[float]]) -> tuple[list[float], list[int]]:
    return [score for row in rows for score in row], np.cumsum([0, *map(len, rows)]).tolist()


def make(name: str, threshold: float = 0.0) -> Aggregator:
    found: Aggregator = registry.get("detect", name)(threshold)
    return found


def test_the_registry_lists_the_aggregators_and_no_machinery() -> None:
    assert tuple(aggregators()) == NAMES


@pytest.mark.parametrize("name", NAMES)
@given(rows=texts)
@settings(max_examples=25, deadline=None)
def test_each_text_gets_the_score_of_its_definition(name: str, rows: list[list[float]]) -> None:
    found = make(name).aggregate(*flat(rows))
    assert np.allclose(found, [EXACT[name](row) for row in rows])


@pytest.mark.parametrize("name", NAMES)
@given(rows=texts, data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_text_does_not_depend_on_its_neighbours(name: str, rows: list[list[float]], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    found = make(name).aggregate(*flat(rows))
    assert np.allclose(found[order], make(name).aggregate(*flat([rows[index] for index in order])))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("offsets", [[0, 2], [1, 3], [0, 2, 2, 3], [0, 4]])
def test_offsets_that_do_not_fit_are_refused(name: str, offsets: list[int]) -> None:
    with pytest.raises(CovecError, match="offsets|no token"):
        make(name).aggregate([0.1, 0.2, 0.3], offsets)


@pytest.mark.parametrize("name", ["last", "max", "mean"])
def test_the_threshold_has_the_highest_accuracy_of_all(name: str) -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(40) % 2 == 0
    rows = [list(generator.normal(0.8 * label, 1.0, 4)) for label in labels]
    fitted = make(name).fit(*map(np.array, flat(rows)), labels)
    highest = fitted.aggregate(*flat(rows))
    others = np.concatenate([highest - 1e-9, highest + 1e-9])
    assert accuracy(highest, labels, fitted.threshold) == max(accuracy(highest, labels, other) for other in others)


def tail(seed: int = 0, texts: int = 200, size: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Texts of `size` tokens; in positive ones four tokens show the concept, of which one stands out."""
    generator = np.random.default_rng(seed)
    labels = np.arange(texts) % 2 == 0
    scores = generator.normal(0.0, 1.0, (texts, size))
    inside = np.zeros((texts, size), dtype=bool)
    inside[labels, 5:9] = True
    scores[labels, 5] += 6.0
    return scores.ravel(), np.arange(0, texts * size + 1, size), labels, inside.ravel()


def test_the_tail_is_the_quantile_of_in_concept_tokens() -> None:
    scores, offsets, labels, inside = tail()
    fitted = make("super-activators").fit(scores, offsets, labels, inside)
    delta = fitted.delta  # type: ignore[attr-defined]
    assert np.nextafter(fitted.threshold, np.inf) == np.quantile(scores[inside], 1 - delta)
    fires = fitted.aggregate(scores, offsets) > fitted.threshold
    reached = (scores.reshape(len(labels), -1) >= np.quantile(scores[inside], 1 - delta)).any(1)
    assert (fires == reached).all()
    assert delta <= 0.3  # one of four in-concept tokens stands out


def test_delta_has_the_highest_f1_and_is_the_sparsest_of_those() -> None:
    scores, offsets, labels, inside = tail(seed=1)
    fitted = make("super-activators").fit(scores, offsets, labels, inside)
    highest, grid = fitted.aggregate(scores, offsets), fitted.DELTAS  # type: ignore[attr-defined]
    reached = [f1(highest, labels, np.nextafter(np.quantile(scores[inside], 1 - delta), -np.inf)) for delta in grid]
    assert fitted.delta == grid[int(np.argmax(reached))]  # type: ignore[attr-defined]
    assert f1(highest, labels, fitted.threshold) == max(reached)


def test_the_tail_finds_what_the_mean_and_the_last_token_miss() -> None:
    fit, test = tail(seed=2), tail(seed=3)
    found = {}
    for name in NAMES:
        fitted = make(name).fit(*fit)
        found[name] = f1(fitted.aggregate(*test[:2]), test[2], fitted.threshold)
    assert found["super-activators"] > found["mean"] + 0.05
    assert found["super-activators"] > found["last"] + 0.2


def test_without_token_labels_all_tokens_of_positive_texts_count() -> None:
    scores, offsets, labels, _ = tail()
    all_of_them = np.repeat(labels, np.diff(offsets))
    one, other = (make("super-activators").fit(scores, offsets, labels, inside) for inside in (None, all_of_them))
    assert one.threshold == other.threshold
    spans = make("super-activators").fit(scores, offsets, labels, tail()[3])
    assert one.threshold != spans.threshold
