"""Judging a frozen vector on test rows: figures, nulls and baselines, and the verdict they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from covec.statistics.auroc import auroc
from covec.statistics.figure import Figure
from covec.statistics.intervals import accuracy_figure, auroc_difference, auroc_figure, widened
from covec.statistics.permutation import Exchange, null_aurocs, p_test, p_value, permuted_labels

RANDOM_DIRECTIONS = 100
SHUFFLES = 100
LEVEL = 0.01  # of p_test, for a concept to be found


@dataclass(frozen=True)
class Test:
    """Test rows of one concept with the frozen winner's scores; `groups`, `pairs`, `folds` say how labels may move.

    Where scores are out of fold, `right` says which rows were called right, as every fold had a threshold of its own,
    and `null` holds AUROCs of the whole cross-validation under permuted labels.
    """

    scores: Float[np.ndarray, "n"]
    labels: Bool[np.ndarray, "n"]
    threshold: float
    groups: list[Any] | None = None
    pairs: list[Any] | None = None
    folds: list[int] | None = None
    right: Bool[np.ndarray, "n"] | None = None
    null: Float[np.ndarray, "permutations"] | None = None

    def figures(self, null: float, seed: int) -> dict[str, Figure]:
        """Accuracy and AUROC with intervals; `null` is the AUROC of vectors of shuffled labels."""
        share = float(max(self.labels.mean(), 1 - self.labels.mean()))
        called = self.scores > self.threshold if self.right is None else self.right == self.labels
        figures = {
            "accuracy": accuracy_figure(called.astype(float), self.labels, 0.5, self.groups, share, seed=seed),
            "auroc": auroc_figure(self.scores, self.labels, self.groups, null, seed=seed),
        }
        return {name: self._widened(figure) for name, figure in figures.items()}

    def p(self, seed: int) -> float:
        """Of the AUROC, under labels permuted as the data are exchangeable."""
        if self.null is not None:
            return float(p_value(float(auroc(self.scores, self.labels)), self.null))
        return p_test(self.scores, self.labels, self.groups, self.pairs, self.folds, seed=seed)

    def beyond(self, baseline: Float[np.ndarray, "n"], seed: int) -> Figure:
        """Paired difference of AUROC from a baseline on the same rows, or from guessing where that is better."""
        if auroc(baseline, self.labels) >= 0.5:
            difference = auroc_difference(self.scores, baseline, self.labels, self.groups, seed=seed)
        else:
            own = auroc_figure(self.scores, self.labels, self.groups, seed=seed)
            low, high = (own.value if end is None else end for end in (own.low, own.high))
            how = f"from 0.5, as the baseline does worse than guessing; {own.how}"
            difference = Figure(own.value - 0.5, low - 0.5, high - 0.5, 0.0, own.n, how)
        return self._widened(difference, share=False)

    def _widened(self, figure: Figure, *, share: bool = True) -> Figure:
        """`figure` as it is, or with an interval that knows how scores out of fold vary."""
        return figure if self.null is None else widened(figure, self._excess, share=share)

    @cached_property
    def _excess(self) -> float:
        """How much more the AUROC of refitted scores varies under the null than that of finished ones."""
        if self.null is None:
            return 1.0
        exchange = Exchange.of(self.labels, self.groups, self.pairs, self.folds)
        finished = null_aurocs(self.scores, exchange, len(self.null)).std()
        return max(1.0, float(self.null.std() / finished)) if finished else 1.0


def random_directions(
    train: Float[Tensor, "m d"], train_labels: np.ndarray, test: Float[Tensor, "n d"], labels: np.ndarray, seed: int
) -> np.ndarray:
    """Test AUROCs of isotropic directions, each turned so that training positives score higher."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(RANDOM_DIRECTIONS, train.shape[1], generator=generator, dtype=torch.float32)
    return _turned(directions, train, train_labels, test, labels)


def shuffled_directions(
    train: Float[Tensor, "m d"],
    train_labels: np.ndarray,
    test: Float[Tensor, "n d"],
    labels: np.ndarray,
    groups: Any,
    pairs: Any,
    seed: int,
) -> np.ndarray:
    """Test AUROCs of differences of class means under shuffled training labels."""
    rng = np.random.default_rng(seed)
    shuffled = permuted_labels(train_labels, SHUFFLES, groups=groups, pairs=pairs, rng=rng)
    signs = torch.from_numpy(
        np.where(shuffled, 1 / shuffled.sum(1, keepdims=True), -1 / (~shuffled).sum(1, keepdims=True))
    )
    return np.atleast_1d(auroc((signs.float() @ train @ test.T).numpy(), labels))


def _turned(
    directions: Tensor, train: Tensor, train_labels: np.ndarray, test: Tensor, labels: np.ndarray
) -> np.ndarray:
    truth = torch.from_numpy(train_labels)
    gaps = (train[truth].mean(0) - train[~truth].mean(0)) @ directions.T
    turned = directions * torch.where(gaps < 0, -1.0, 1.0)[:, None]
    return np.atleast_1d(auroc((turned @ test.T).numpy(), labels))


def random_figure(aurocs: np.ndarray) -> Figure:
    """Median and 95th percentile (`high`) of the random directions."""
    median, high = np.quantile(aurocs, [0.5, 0.95])
    return Figure(
        float(median), high=float(high), null=0.5, n=len(aurocs), how="test AUROC of random directions: median, 95%"
    )


def verdict(
    *, too_little: bool, p: float, auroc_value: float, random_high: float, used: str, beyond_words: Figure
) -> tuple[str, tuple[str, ...]]:
    """The first verdict that applies, and the warnings that go with it."""
    if too_little:
        return "too-little-data", ()
    if p > LEVEL:
        return "not-found", ()
    if auroc_value <= random_high:
        told = f"random directions tell these examples apart as well: one in twenty has an AUROC of {random_high:.2f}"
        return "not-found", (f"{told} or more, so that no direction stands out; look for what else parts the examples",)
    surpasses = beyond_words.low is not None and beyond_words.low > 0
    if used == "used":
        warning = f"the vector does not beat a bag of words on the raw text (difference of AUROC {beyond_words})"
        return "found-and-used", () if surpasses else (warning,)
    return ("found" if surpasses else "text-only"), ()
