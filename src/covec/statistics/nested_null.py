"""What a nested cross-validation finds in labels that mean nothing: the whole of it, for permuted labels.

Out-of-fold scores of one row were made with the labels of the others, so that permuting the labels of finished scores
tells too small a spread. Here selection and fit are repeated for every permutation, by the difference of class means:
it is linear in the labels, so that sums by fold serve all folds and all permutations at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from covec.statistics.auroc import areas_of, checked_labels
from covec.statistics.groups import Groups
from covec.statistics.permutation import Exchange

_WORK = 150_000  # rows times permutations: seconds for a study of sixty cells
_FEWEST, _MOST = 199, 999


def nested_null(
    cells: Iterable[Float[np.ndarray, "n d"]],
    labels: ArrayLike,
    folds: ArrayLike,
    groups: Groups = None,
    pairs: Groups = None,
    *,
    permutations: int | None = None,
    seed: int = 0,
) -> Float[np.ndarray, "permutations"]:
    """Pooled out-of-fold AUROCs of a nested cross-validation under permuted labels.

    For each fold the cell with the highest AUROC in the cross-validation of the other folds is fitted on them; its
    scores, standardised on them, are pooled over the folds.

    Parameters
    ----------
    cells
        Activations of the same rows, cell after cell; each is needed only while it is its turn.
    labels, folds
        Label and fold of each row; labels are permuted within folds, as `groups` and `pairs` allow.
    permutations
        Their number; unless given 199 to 999, fewer where there are more rows.

    Raises
    ------
    ExamplesError
        Only one class has rows, or groups or pairs are not one a row.
    """
    labels, folds = checked_labels(labels), np.asarray(folds)
    exchange = Exchange.of(labels, groups, pairs, folds.tolist())
    count = permutations or int(np.clip(_WORK // len(labels), _FEWEST, _MOST))
    permuted = exchange.permuted(count, np.random.default_rng(seed))
    names = np.unique(folds)
    highest = np.full((len(names), count), -np.inf)
    scores = np.zeros(permuted.shape)
    for rows in cells:
        means = _FoldMeans(rows, permuted, folds)
        for index, fold in enumerate(names):
            inner = _inner_areas(means, fold)
            better = inner > highest[index]
            highest[index, better] = inner[better]
            own = folds == fold
            found = means.scores([fold])[better]
            spread = found[:, ~own].std(1, keepdims=True)
            scores[np.ix_(better, own)] = (found[:, own] - found[:, ~own].mean(1, keepdims=True)) / (spread + 1e-30)
    return _areas(scores, permuted)


class _FoldMeans:
    """Sums of one cell's activations by permutation, class and fold, from which every fit on some folds follows."""

    def __init__(self, rows: ArrayLike, permuted: Bool[np.ndarray, "p n"], folds: np.ndarray) -> None:
        centred = np.asarray(rows, dtype=np.float64)
        centred = centred - centred.mean(0)
        if centred.shape[0] < centred.shape[1]:  # the same inner products, in as many dimensions as there are rows
            centred = np.transpose(np.linalg.qr(centred.T, mode="r"))
        self.rows, self.permuted, self.folds = centred.astype(np.float32), permuted, folds
        self.names = np.unique(folds)
        self._sums = {
            (label, fold): (permuted[:, own] == label).astype(np.float32) @ self.rows[own]
            for label in (True, False)
            for fold, own in ((fold, folds == fold) for fold in self.names)
        }

    def scores(self, without: list[int], of: int | None = None) -> Float[np.ndarray, "p m"]:
        """Scores of all rows, or of those of fold `of`, by the difference of means of all folds but some."""
        known = ~np.isin(self.folds, without)
        means = []
        for label in (True, False):
            total = sum(self._sums[label, fold] for fold in self.names if fold not in without)
            means.append(total / np.maximum((self.permuted[:, known] == label).sum(1), 1)[:, None].astype(np.float32))
        rows = self.rows if of is None else self.rows[self.folds == of]
        return np.asarray((means[0] - means[1]) @ rows.T)


def _inner_areas(means: _FoldMeans, outer: int) -> Float[np.ndarray, "p"]:
    """AUROCs of the cross-validation of all folds but `outer`."""
    rest = means.folds != outer
    scores = np.zeros(means.permuted.shape, dtype=np.float32)
    for fold in np.unique(means.folds[rest]):
        scores[:, means.folds == fold] = means.scores([outer, fold], of=fold)
    return _areas(scores[:, rest], means.permuted[:, rest])


def _areas(scores: Float[np.ndarray, "p n"], labels: Bool[np.ndarray, "p n"]) -> Float[np.ndarray, "p"]:
    areas = areas_of(scores, labels)
    return np.where(np.isnan(areas), 0.5, areas)
