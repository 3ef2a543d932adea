"""The contract of aggregators: one score a text from the scores of its tokens, and a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from covec import registry
from covec.checks._check import Check, Law, checks, refusal
from covec.detect import Aggregator, aggregators
from covec.models.positions import Layout, mask
from covec.statistics.auroc import accuracy


@dataclass(frozen=True)
class Texts:
    """Texts as the scores of their tokens, in a row, with the offsets of the texts, and a label a text."""

    scores: Float[np.ndarray, "tokens"]
    offsets: Int[np.ndarray, "n_plus_1"]
    labels: Bool[np.ndarray, "n"]

    @classmethod
    def of(cls, rows: Sequence[Float[np.ndarray, "tokens"]], labels: Bool[np.ndarray, "n"]) -> Texts:
        """The texts whose tokens score `rows`."""
        return cls(np.concatenate(rows), np.cumsum([0, *map(len, rows)]), np.asarray(labels))

    @property
    def rows(self) -> list[Float[np.ndarray, "tokens"]]:
        """The scores text by text."""
        return np.split(self.scores, self.offsets[1:-1])

    @property
    def inside(self) -> Bool[np.ndarray, "tokens"]:
        """The tokens that show the concept: the last one of each positive text."""
        last = np.isin(np.arange(len(self.scores)), self.offsets[1:] - 1)
        return last & np.repeat(self.labels, np.diff(self.offsets))


def texts(count: int = 60, effect: float = 2.0, seed: int = 0) -> Texts:
    """Texts of one to six tokens; those of positive ones score `effect` more, on the last token three times as much."""
    rng, labels = np.random.default_rng(seed), np.arange(count) % 2 == 0
    rows = [rng.normal(effect * label, 1.0, rng.integers(1, 7)) for label in labels]
    for row, label in zip(rows, labels, strict=True):
        row[-1] += 2 * effect * label
    return Texts.of(rows, labels)


@dataclass(frozen=True)
class Subject:
    """The aggregator under test."""

    kind: type[Aggregator]

    def scores(self, given: Texts) -> Float[np.ndarray, "n"]:
        """What it says of texts."""
        return self.kind().aggregate(given.scores, given.offsets)

    def fitted(self, given: Texts) -> Aggregator:
        """One that is fitted on labelled texts."""
        return self.kind().fit(given.scores, given.offsets, given.labels, given.inside)


def equal_scores_give_that_score(subject: Subject) -> None:
    """A text whose tokens all score the same scores that, whatever its length; one token gives its own score."""
    for value in (-1.5, 0.0, 0.1, 3.0):
        alike = Texts.of([np.full(size, value) for size in (1, 2, 3, 50)], np.zeros(4, dtype=bool))
        np.testing.assert_allclose(subject.scores(alike), value, rtol=1e-12)


def a_text_scores_within_its_tokens(subject: Subject) -> None:
    """A text scores no less than its lowest token and no more than its highest: scores stay in units of the concept."""
    given = texts()
    for score, row in zip(subject.scores(given), given.rows, strict=True):
        assert row.min() - 1e-12 <= score <= row.max() + 1e-12


def higher_tokens_lower_no_text(subject: Subject) -> None:
    """A token that scores higher lowers the score of no text."""
    given, before = texts(), subject.scores(texts())
    for step in (0.01, 1.0, 10.0):
        for token in range(len(given.scores)):
            higher = given.scores.copy()
            higher[token] += step
            assert (subject.kind().aggregate(higher, given.offsets) >= before - 1e-12).all()


def neighbours_change_nothing(subject: Subject) -> None:
    """A text scores alone, in any company and in any order what it scores in a batch, to the bit."""
    given, order = texts(), np.random.default_rng(0).permutation(60)
    wanted = subject.scores(given)
    moved = Texts.of([given.rows[row] for row in order], given.labels[order])
    assert (subject.scores(moved) == wanted[order]).all()
    alone = [subject.scores(Texts.of([row], np.ones(1, dtype=bool)))[0] for row in given.rows]
    assert (np.array(alone) == wanted).all()


def every_array_of_scores_is_taken(subject: Subject) -> None:
    """Lists, float32 and read-only arrays give the same, as float64, one a text; and they are left alone."""
    given = texts()
    single = given.scores.astype(np.float32)
    wanted = subject.kind().aggregate(single.astype(np.float64), given.offsets)
    frozen = single.copy()
    frozen.flags.writeable = False
    for scores, offsets in ((single.tolist(), given.offsets.tolist()), (frozen, given.offsets.astype(np.int32))):
        found = subject.kind().aggregate(scores, offsets)
        assert found.dtype == np.float64
        assert found.shape == given.labels.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def wrong_offsets_are_refused(subject: Subject) -> None:
    """One line for offsets that do not run from 0 to the number of scores, and for a text without a token."""
    for offsets in ([0, 2], [1, 3], [0, 2, 2, 3], [0, 4], [0, 2, 1, 3], [], [[0, 3]]):
        refusal(partial(subject.kind().aggregate, np.array([0.1, 0.2, 0.3]), np.array(offsets, dtype=int)))


def scores_that_are_no_numbers_are_refused(subject: Subject) -> None:
    """One line for a NaN or an infinity among the scores, also where the aggregate would not show it."""
    given = texts()
    for value in (np.nan, np.inf, -np.inf):
        for token in (0, len(given.scores) // 2, len(given.scores) - 1):
            broken = given.scores.copy()
            broken[token] = value
            refusal(partial(subject.kind().aggregate, broken, given.offsets))


def a_text_without_content_has_a_token(subject: Subject) -> None:
    """What it reads is a selection that finds a token in every text, also where all of them are special."""
    selection = subject.kind.selection()
    assert selection.pool == "none"
    for special in ([True], [True, True, True], [True, False], [False]):
        assert mask(selection, Layout(np.array(special), len(special), len(special) - 1)).any()


def what_can_be_told_apart_is(subject: Subject) -> None:
    """Texts that its scores separate are all on their side of the fitted threshold."""
    given = texts(effect=20)
    fitted = subject.fitted(given)
    assert np.isfinite(fitted.threshold)
    assert accuracy(subject.scores(given), given.labels, fitted.threshold) == 1


def order_of_texts_changes_no_threshold(subject: Subject) -> None:
    """The same texts in another order, and the same texts twice, give the same threshold."""
    given, order = texts(effect=1), np.random.default_rng(0).permutation(60)
    for places in (order, np.arange(60).repeat(2)):
        moved = Texts.of([given.rows[row] for row in places], given.labels[places])
        np.testing.assert_allclose(subject.fitted(moved).threshold, subject.fitted(given).threshold, rtol=1e-12)


def ties_are_no_trouble(subject: Subject) -> None:
    """Where all texts score the same the threshold is a number, and no text is told from another."""
    alike = Texts.of([np.full(3, 0.25)] * 10, np.arange(10) < 6)
    fitted = subject.fitted(alike)
    assert np.isfinite(fitted.threshold)
    assert len(set(subject.scores(alike) > fitted.threshold)) == 1


def what_cannot_be_fitted_is_refused(subject: Subject) -> None:
    """One line for labels of one class, of another number than the texts, and marks of another number than tokens."""
    given = texts()
    for labels, inside in (
        (np.ones(60, dtype=bool), given.inside),
        (np.zeros(60, dtype=bool), given.inside),
        (given.labels[1:], given.inside),
        (given.labels, given.inside[1:]),
        (np.arange(60), given.inside),
    ):
        refusal(partial(subject.kind().fit, given.scores, given.offsets, labels, inside))


def name_and_threshold_are_all_of_it(subject: Subject) -> None:
    """Made again with the fitted threshold, as from a vector's file, it decides as the fitted one does."""
    given, fresh = texts(), texts(seed=1)
    fitted = subject.fitted(given)
    loaded = subject.kind(fitted.threshold)
    wanted = fitted.aggregate(fresh.scores, fresh.offsets) > fitted.threshold
    assert ((loaded.aggregate(fresh.scores, fresh.offsets) > loaded.threshold) == wanted).all()


def the_tail_is_that_of_tokens_that_show_the_concept(subject: Subject) -> None:
    """The threshold is the 1 - delta quantile of the tokens inside the concept: a share delta of them reaches it."""
    given = texts(200, effect=1)
    fitted: Any = subject.fitted(given)
    shown = given.scores[given.inside]
    assert fitted.delta in fitted.DELTAS
    assert abs((shown > fitted.threshold).mean() - fitted.delta) <= 1 / len(shown)


LAWS: tuple[Law, ...] = (
    equal_scores_give_that_score,
    a_text_scores_within_its_tokens,
    higher_tokens_lower_no_text,
    neighbours_change_nothing,
    every_array_of_scores_is_taken,
    wrong_offsets_are_refused,
    scores_that_are_no_numbers_are_refused,
    a_text_without_content_has_a_token,
    what_can_be_told_apart_is,
    order_of_texts_changes_no_threshold,
    ties_are_no_trouble,
    what_cannot_be_fitted_is_refused,
    name_and_threshold_are_all_of_it,
    the_tail_is_that_of_tokens_that_show_the_concept,
)


def aggregator_checks(
    aggregator: str | type[Aggregator], expected_failures: Mapping[str, str] | None = None
) -> list[Check]:
    """The checks of an aggregator: a registered name, or a class; the law of the tail where it has `delta`."""
    kind: type[Aggregator] = registry.get("detect", aggregator) if isinstance(aggregator, str) else aggregator
    tail = hasattr(kind, "delta")
    laws = [law for law in LAWS if tail or law is not the_tail_is_that_of_tokens_that_show_the_concept]
    entry: registry.Entry = getattr(kind, "entry", registry.Entry(kind.__name__, "detect"))
    return checks("detect", entry.name, laws, Subject(kind), {**entry.cannot, **(expected_failures or {})})


def discovered() -> list[Check]:
    """The checks of every registered aggregator."""
    return [check for name in aggregators() for check in aggregator_checks(name)]
