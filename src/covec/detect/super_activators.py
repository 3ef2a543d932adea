"""SuperActivators: only the extreme tail of the tokens that show a concept tells of it reliably."""

from __future__ import annotations

from typing import Self

import numpy as np
from jaxtyping import Bool, Float, Int

from covec.detect._aggregator import Aggregator, labelled, ranges
from covec.errors import CovecError
from covec.registry import method
from covec.statistics.auroc import f1


@method(
    "super-activators",
    verb="detect",
    card="super-activators",
    cannot={"what can be told apart is": "its threshold is a quantile of the concept's tokens, and some are below"},
)
class SuperActivators(Aggregator):
    """A text has the concept where one token reaches the tail of the tokens that show it.

    The score of a text is its highest token. The threshold of sparsity delta is the 1 - delta quantile (linear) of the
    scores of in-concept tokens, and delta that of the highest F1 on the texts it is fitted on, the sparsest of equal
    ones. Without token labels all tokens of positive texts count as in-concept, which makes the threshold weaker.

    Attributes
    ----------
    delta
        The share of in-concept tokens in the tail, once fitted.

    References
    ----------
    "The SuperActivator Mechanism: Transformers Concentrate Reliable Concept Signals in the Tail", arXiv:2512.05038.
    """

    DELTAS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    read = "content/none"
    delta: float | None = None

    def aggregate(
        self, scores: Float[np.ndarray, "tokens"], offsets: Int[np.ndarray, "n_plus_1"]
    ) -> Float[np.ndarray, "n"]:
        values, bounds = ranges(scores, offsets)
        return np.maximum.reduceat(values, bounds[:-1])

    def fit(
        self,
        scores: Float[np.ndarray, "tokens"],
        offsets: Int[np.ndarray, "n_plus_1"],
        labels: Bool[np.ndarray, "n"],
        inside: Bool[np.ndarray, "tokens"] | None = None,
    ) -> Self:
        """Choose delta and with it the threshold."""
        values, bounds, labels, marks = labelled(scores, offsets, labels, inside)
        shown = values[np.repeat(labels, np.diff(bounds)) & marks]
        if not len(shown):
            raise CovecError("no token of the texts that have the concept is marked: mark some, or give no marks")
        # A token that reaches the quantile is in the tail; texts have the concept above the threshold.
        thresholds = np.nextafter(np.quantile(shown, 1 - np.array(self.DELTAS)), -np.inf)
        highest = self.aggregate(values, bounds)
        best = int(np.argmax([f1(highest, labels, threshold) for threshold in thresholds]))
        self.delta, self.threshold = self.DELTAS[best], float(thresholds[best])
        return self

    def tail(self, scores: Float[np.ndarray, "tokens"]) -> Bool[np.ndarray, "tokens"]:
        """The SuperActivators: tokens that reach the tail."""
        return np.asarray(scores, dtype=np.float64) > self.threshold

    def local_vectors(
        self,
        scores: Float[np.ndarray, "tokens"],
        offsets: Int[np.ndarray, "n_plus_1"],
        rows: Float[np.ndarray, "tokens d"],
        *,
        top: bool = False,
    ) -> Float[np.ndarray, "n d"]:
        """What the concept looks like in each text: its SuperActivators' rows, weighted by the softmax of their scores.

        A text without a SuperActivator gives the row of its highest token, and with `top` all texts do.

        Parameters
        ----------
        rows
            The tokens' centred activations.
        """
        values, bounds = ranges(scores, offsets)
        highest = np.repeat(self.aggregate(values, bounds), np.diff(bounds))
        chosen = (values == highest) | (self.tail(values) & (not top))
        weights = np.where(chosen, np.exp(values - highest), 0.0)
        weights /= np.repeat(np.add.reduceat(weights, bounds[:-1]), np.diff(bounds))
        return np.add.reduceat(weights[:, None] * rows, bounds[:-1])
