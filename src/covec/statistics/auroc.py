"""How well scores tell two classes apart: AUROC, accuracy, F1, and the threshold of highest accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from covec.errors import ExamplesError


def auroc(scores: ArrayLike, labels: ArrayLike) -> Any:
    """Area under the ROC curve: the chance that a positive scores above a negative, ties counting half.

    Parameters
    ----------
    scores, labels
        `[n]` or `[m, n]` each; one row of either is compared with every row of the other.

    Returns
    -------
    float or array [m]

    Raises
    ------
    ExamplesError
        Shapes differ, a score is not finite, a label is not true or false, or a class is empty.

    References
    ----------
    Mann and Whitney (1947), by mid-ranks.
    """
    scores, labels = checked_scores(scores, labels)
    areas = areas_of(scores, labels)
    return areas if areas.ndim else float(areas)


def areas_of(scores: Float[np.ndarray, "*m n"], labels: Bool[np.ndarray, "*m n"]) -> Float[np.ndarray, "*m"]:
    """AUROC of arrays already checked; NaN where a class is empty, as a permuted or resampled label set may have it."""
    ranks = _midranks(scores)
    weights = labels.astype(ranks.dtype)
    rank_sums = weights @ ranks if ranks.ndim == 1 else np.einsum("...n,...n->...", ranks, weights)
    positives = labels.sum(-1).astype(np.float64)
    negatives = labels.shape[-1] - positives
    with np.errstate(invalid="ignore"):
        return np.asarray((rank_sums - positives * (positives + 1) / 2) / (positives * negatives))


def accuracy(scores: ArrayLike, labels: ArrayLike, threshold: float = 0.0) -> Any:
    """Share of rows on the right side of `threshold`, which positives exceed; shapes and errors as for `auroc`."""
    scores, labels = checked_scores(scores, labels)
    shares = ((scores > threshold) == labels).mean(-1)
    return shares if shares.ndim else float(shares)


def f1(scores: ArrayLike, labels: ArrayLike, threshold: float = 0.0) -> float:
    """Harmonic mean of precision and recall of `scores > threshold`, `[n]` each; 0 where nothing is found."""
    scores, labels = checked_scores(scores, labels, one_row=True)
    fires = scores > threshold
    return float(2 * (fires & labels).sum() / (fires.sum() + labels.sum()))


def best_threshold(scores: ArrayLike, labels: ArrayLike) -> float:
    """The threshold of highest accuracy, in the middle of its plateau.

    Between two neighbouring scores every threshold is equally accurate. Of the best such plateaus the widest is
    taken, of equally wide ones that nearest to 0. Beyond the lowest and highest score, where all rows fall on one
    side, a plateau counts as wide as the mean gap, so that it wins only where no other is as good.

    Parameters
    ----------
    scores, labels
        `[n]` each.
    """
    scores, labels = checked_scores(scores, labels, one_row=True)
    levels, level_of_row = np.unique(scores, return_inverse=True)
    positives = np.bincount(level_of_row, weights=labels)
    negatives = np.bincount(level_of_row, weights=~labels)
    # Threshold k lies below level k: rows of lower levels are called negative.
    right = np.append(0, np.cumsum(negatives - positives))
    gap = (levels[-1] - levels[0]) / len(levels) or 1.0
    edges = np.concatenate([[levels[0] - gap], levels, [levels[-1] + gap]])
    best = right == right.max()
    # A level with as many positives as negatives does not end a plateau: runs of best gaps are one.
    starts = np.flatnonzero(best & ~np.append(False, best[:-1]))
    ends = np.flatnonzero(best & ~np.append(best[1:], False))
    low, high = edges[starts], edges[ends + 1]
    middle, width = (low + high) / 2, high - low
    widest = np.flatnonzero(np.isclose(width, width.max(), rtol=1e-9, atol=0))
    return float(min(middle[widest], key=lambda threshold: (abs(threshold), threshold)))


def best_f1_threshold(scores: ArrayLike, labels: ArrayLike) -> float:
    """The threshold of highest F1, midway between two scores; of equally good ones the highest. As `best_threshold`."""
    scores, labels = checked_scores(scores, labels, one_row=True)
    levels, level_of_row = np.unique(scores, return_inverse=True)
    # Threshold k lies below level k: rows of that level and above are called positive.
    called = np.cumsum(np.bincount(level_of_row)[::-1])[::-1]
    found = np.cumsum(np.bincount(level_of_row, weights=labels)[::-1])[::-1]
    merit = 2 * found / (called + labels.sum())
    best = int(np.flatnonzero(merit == merit.max())[-1])
    return float(np.nextafter(levels[0], -np.inf) if best == 0 else (levels[best - 1] + levels[best]) / 2)


def checked_scores(
    scores: ArrayLike, labels: ArrayLike, *, one_row: bool = False
) -> tuple[Float[np.ndarray, "*m n"], Bool[np.ndarray, "*m n"]]:
    """`scores` as finite floats, `labels` as booleans of both classes, in matching shapes; or `ExamplesError`."""
    scores, labels = np.asarray(scores), checked_labels(labels)
    if scores.dtype.kind not in "bfiu":
        raise ExamplesError(f"scores are numbers, not {scores.dtype}: pass what decision_function gives")
    rows = [array.shape[:-1] for array in (scores, labels) if array.ndim == 2]
    fits = scores.ndim in (1, 2) and scores.shape[-1] == labels.shape[-1] and len(set(rows)) < 2
    if not fits or (one_row and rows):
        wanted = "[n] each" if one_row else "[n] or [m, n] each"
        raise ExamplesError(f"scores {scores.shape} and labels {labels.shape} do not match: pass {wanted}")
    if not np.isfinite(scores).all():
        count = int((~np.isfinite(scores)).sum())
        raise ExamplesError(f"{count} scores are NaN or infinite: look for the same in the activations")
    return scores if scores.dtype == np.float32 else scores.astype(np.float64), labels


def checked_labels(labels: ArrayLike) -> Bool[np.ndarray, "*m n"]:
    """`labels` as booleans `[n]` or `[m, n]`, both classes in each row; or `ExamplesError`."""
    labels = np.asarray(labels)
    if labels.ndim not in (1, 2) or labels.size == 0:
        raise ExamplesError(f"labels have the shape {labels.shape}: pass [n] with n > 0")
    if labels.dtype != bool and not np.isin(labels, (0, 1)).all():
        raise ExamplesError("labels are true or false (or 1 and 0): name the positive label when reading the examples")
    labels = labels.astype(bool)
    if (labels.all(-1) | ~labels.any(-1)).any():
        raise ExamplesError("all rows have the same label: add examples of the other class")
    return labels


def _midranks(scores: Float[np.ndarray, "*m n"]) -> Float[np.ndarray, "*m n"]:
    """Ranks from 1 along the last axis, ties sharing their mean; rows without ties need no second look."""
    order = np.argsort(scores, axis=-1)
    ascending = np.take_along_axis(scores, order, -1)
    ranks = np.empty(scores.shape)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(1.0, scores.shape[-1] + 1), scores.shape), -1)
    tied = (ascending[..., 1:] == ascending[..., :-1]).any(-1)
    if tied.any():
        ranks[tied] = rankdata(scores[tied], axis=-1)
    return ranks
