"""Fitting a vector for detection: which aggregator, which threshold, and what probability a score means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from covec import registry
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.detect._aggregator import Aggregator, aggregators
from covec.detect._detect import flat
from covec.detect._scores import Readers, token_scores
from covec.models.batching import TOKEN_BUDGET
from covec.models.text import TextModel
from covec.models.tokens import Tokenized
from covec.progress import Progress, silent
from covec.statistics.auroc import auroc

_FOLDS = 5
_FLAT = 1e-3  # slope of a score that ranks the classes no better than chance: probabilities must not fall with it


def calibrate(
    model: TextModel,
    vector: ConceptVector,
    examples: Examples,
    indices: Sequence[int] | Int[np.ndarray, "n"],
    *,
    batch_tokens: int = TOKEN_BUDGET,
    progress: Progress = silent,
) -> ConceptVector:
    """`vector` with the aggregator, threshold and calibration that suit the rows `indices` of `examples` best.

    One pass over these rows (validation) gives the score of every token. The aggregator is that of the highest AUROC;
    of equal ones that of the vector's read position, else that whose threshold errs least in cross-validation, else
    the first by name. Probabilities are Platt's.

    Raises
    ------
    ExamplesError
        The rows have one class only.
    """
    rows = [int(index) for index in indices]
    labels = np.asarray(examples.labels)[rows]
    tokens = model.tokenize([examples.inputs[row] for row in rows])
    spans = None if examples.spans is None else [examples.spans[row] for row in rows]
    shown = [_inside(item, None if spans is None else spans[place]) for place, item in enumerate(tokens)]
    readers = Readers.of(model, [vector])
    scores = [
        found[:, 0] for found in token_scores(model, readers, tokens, batch_tokens=batch_tokens, progress=progress)
    ]
    candidates = {}
    for name, kind in aggregators().items():
        position = kind.selection()
        values, offsets = flat(scores, tokens, position)
        marks = flat(shown, tokens, position)[0]
        unmarked = ~np.logical_or.reduceat(marks, offsets[:-1])  # its span is at tokens that are not read
        marks |= np.repeat(unmarked, np.diff(offsets))
        candidates[name] = _Candidate(name, values, offsets, labels, marks)
    best = max(candidates.values(), key=lambda one: one.rank(str(vector.read_position)))
    aggregator = best.fitted()
    calibration = platt(aggregator.aggregate(best.scores, best.offsets), labels)
    return replace(vector, aggregator=best.name, threshold=float(aggregator.threshold), calibration=calibration)


def platt(scores: Float[np.ndarray, "n"], labels: Bool[np.ndarray, "n"]) -> tuple[float, float]:
    """Slope and offset of Platt scaling; the slope is positive.

    The targets are Platt's (1999), (n+ + 1) / (n+ + 2) and 1 / (n- + 2), so that separable scores stay finite.
    """
    from sklearn.linear_model import LogisticRegression

    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
    positives, negatives = int(labels.sum()), int((~labels).sum())
    targets = np.where(labels, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    twice = np.concatenate([values, values])[:, None]  # each row once with either label, weighted by its target
    weights = np.concatenate([targets, 1 - targets])
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000)
    model.fit(twice, np.repeat([1, 0], len(values)), sample_weight=weights)
    slope, offset = float(model.coef_[0, 0]), float(model.intercept_[0])
    if slope >= _FLAT:
        return slope, offset
    share = targets.mean()
    return _FLAT, float(np.log(share / (1 - share)) - _FLAT * values.mean())


@dataclass(frozen=True)
class _Candidate:
    """An aggregator and what it would be fitted on."""

    name: str
    scores: Float[np.ndarray, "tokens"]
    offsets: Int[np.ndarray, "n_plus_1"]
    labels: Bool[np.ndarray, "n"]
    inside: Bool[np.ndarray, "tokens"]

    def fitted(self) -> Aggregator:
        """The aggregator, fitted on all texts."""
        return self._fit(np.arange(len(self.labels)))

    def rank(self, read: str) -> tuple[float, bool, float, list[int]]:
        """What decides between candidates, the highest winning."""
        kind = registry.get("detect", self.name)
        area = auroc(kind().aggregate(self.scores, self.offsets), self.labels)
        return area, kind.read == read, -self._errors(), [-ord(letter) for letter in self.name]

    def _errors(self) -> int:
        """Texts on the wrong side of a threshold that was fitted without them."""
        fold = np.empty(len(self.labels), dtype=np.int64)
        for label in (False, True):  # every fold has both classes
            same = self.labels == label
            fold[same] = np.arange(same.sum()) % min(_FOLDS, self.labels.sum(), (~self.labels).sum())
        wrong = 0
        for held in np.unique(fold):
            if min(self.labels[fold != held].sum(), (~self.labels)[fold != held].sum()) == 0:
                continue
            aggregator = self._fit(np.flatnonzero(fold != held))
            fires = aggregator.aggregate(self.scores, self.offsets) > aggregator.threshold
            wrong += int((fires != self.labels)[fold == held].sum())
        return wrong

    def _fit(self, texts: Int[np.ndarray, "m"]) -> Aggregator:
        sizes = np.diff(self.offsets)
        keep = np.isin(np.repeat(np.arange(len(sizes)), sizes), texts)
        offsets = np.concatenate([[0], np.cumsum(sizes[texts])])
        aggregator: Aggregator = registry.get("detect", self.name)()
        return aggregator.fit(self.scores[keep], offsets, self.labels[texts], self.inside[keep])


def _inside(item: Tokenized, span: tuple[int, int] | None) -> Bool[np.ndarray, "tokens"]:
    """The tokens that show the concept: those of the span, or all where none is given."""
    if span is None:
        return np.ones(len(item.ids), dtype=bool)
    return np.array([start < span[1] and end > span[0] and end > start for start, end in item.offsets])
