"""The p-value of a whole sweep: the best of many cells, against the best under labels that mean nothing.

The finders here are linear in the labels: with centred activations X, their direction is A X' (y - mean y) for an A
that does not know y. One factorisation a cell therefore serves every permutation of the labels and every ridge, and
a cell's activations are needed only while it is added. As in `covec.find`, all but the difference of means work on
features of variance 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from covec.errors import ExamplesError
from covec.statistics.auroc import areas_of, checked_labels
from covec.statistics.groups import Groups
from covec.statistics.multiplicity import step_down_maximum
from covec.statistics.permutation import Exchange

FINDERS = ("mean-difference", "whitened-difference", "ridge")
RIDGES = tuple(10.0**power for power in range(-3, 4))  # in units of the variance of a feature


@dataclass(frozen=True)
class SweepTest:
    """What `SweepNull.finish` found.

    Parameters
    ----------
    p_sweep
        Chance that labels without meaning give a maximum at least as high as the one observed.
    observed
        Highest validation AUROC over all cells.
    null_median, null_95
        Median and 95th percentile of that maximum under permuted labels.
    permutations
        Number of permutations.
    cells
        For each cell and finder, its p-value corrected by the step-down maximum.
    """

    p_sweep: float
    observed: float
    null_median: float
    null_95: float
    permutations: int
    cells: dict[tuple[Hashable, str], float]


class SweepNull:
    """Validation AUROCs of every cell of a sweep under the observed and under permuted labels.

    Add every cell, then finish. Labels are permuted over training and validation rows together, the same way in every
    cell.

    Parameters
    ----------
    labels_train, labels_validation
        `[n]` and `[m]`.
    groups, pairs
        Group and pair of each row, training rows first, `[n + m]`; None where there is none.
    permutations, seed
        Number of permutations, and the seed that draws them.
    ridges
        Ridges to try, in units of the variance of a feature; a cell's ridge AUROC is the highest of them.
    finders
        Some of `FINDERS`; the difference of means alone takes no factorisation.

    Raises
    ------
    ExamplesError
        A part has only one class, groups or pairs are not one a row, or a finder is not one of them.
    """

    def __init__(
        self,
        labels_train: ArrayLike,
        labels_validation: ArrayLike,
        *,
        groups: Groups = None,
        pairs: Groups = None,
        permutations: int = 200,
        seed: int = 0,
        ridges: Sequence[float] = RIDGES,
        finders: Sequence[str] = FINDERS,
    ) -> None:
        if strange := [finder for finder in finders if finder not in FINDERS] or (not finders and ["none"]):
            raise ExamplesError(f"finder {strange[0]} has no null of a sweep: choose from {', '.join(FINDERS)}")
        train, validation = checked_labels(labels_train), checked_labels(labels_validation)
        exchange = Exchange.of(np.concatenate([train, validation]), groups, pairs)
        permuted = exchange.permuted(permutations, np.random.default_rng(seed))
        labels = np.concatenate([exchange.labels[None], permuted])
        self._validation = labels[:, len(train) :]
        self._centred = (labels[:, : len(train)] - labels[:, : len(train)].mean(1, keepdims=True)).T
        self._ridges, self._finders = np.asarray(ridges, dtype=np.float64), tuple(finders)
        self._areas: dict[tuple[Hashable, str], Float[np.ndarray, "1+permutations"]] = {}

    def add(self, cell: Hashable, train: Any, validation: Any) -> None:
        """Take in one cell.

        Parameters
        ----------
        cell
            Its key, such as `(site, position)`.
        train, validation
            Its activations `[n, d]` and `[m, d]`, NumPy or torch.

        Raises
        ------
        ExamplesError
            Shapes differ from the labels', an activation is NaN or infinite, or the cell was added before.
        """
        train, validation = _rows(train, len(self._centred), cell), _rows(validation, self._validation.shape[1], cell)
        if train.shape[1] != validation.shape[1]:
            raise ExamplesError(f"cell {cell}: activations {train.shape} and {validation.shape} differ in width")
        if (cell, self._finders[0]) in self._areas:
            raise ExamplesError(f"cell {cell} was added before: give each cell a key of its own")
        deviation = train.std(0)
        varies = deviation > 1e-6 * np.abs(train).max(0)  # float32 resolves no less
        mean, deviation = train.mean(0)[varies], deviation[varies]
        train, validation = train[:, varies] - mean, validation[:, varies] - mean
        areas = {FINDERS[0]: self._judge((validation @ train.T @ self._centred).T)}
        if set(self._finders) - areas.keys():
            left, spectrum, right = _factors(train / deviation, validation / deviation, self._centred)
            whitened, *ridges = self._judge(_scores(left, spectrum, right, train.shape, self._ridges))
            areas |= zip(FINDERS[1:], (whitened, np.max(ridges, axis=0)), strict=True)
        self._areas |= {(cell, finder): areas[finder] for finder in self._finders}

    def _judge(self, scores: Float[np.ndarray, "*k p m"]) -> Float[np.ndarray, "*k p"]:
        """Validation AUROCs under every labelling, 0.5 where a permutation leaves one class in validation."""
        areas = areas_of(scores, self._validation)
        return np.where(np.isnan(areas), 0.5, areas)

    def finish(self) -> SweepTest:
        """The test over all cells added."""
        if not self._areas:
            raise ExamplesError("a sweep needs at least one cell: add some first")
        observed, *null = np.stack(list(self._areas.values()), axis=1)
        corrected = step_down_maximum(observed, null)
        maxima = np.max(null, axis=1)
        return SweepTest(
            p_sweep=float(corrected.min()),
            observed=float(observed.max()),
            null_median=float(np.median(maxima)),
            null_95=float(np.quantile(maxima, 0.95)),
            permutations=len(null),
            cells=dict(zip(self._areas, corrected.tolist(), strict=True)),
        )


def _factors(
    train: Float[np.ndarray, "n d"], validation: Float[np.ndarray, "m d"], labels: Float[np.ndarray, "n p"]
) -> tuple[Float[np.ndarray, "m r"], Float[np.ndarray, "r"], Float[np.ndarray, "r p"]]:
    """Factors of validation scores: ridge l gives `left @ (right / (spectrum + l))`, up to a positive factor.

    The spectrum is that of the total covariance, by way of the smaller of it and the Gram matrix. It is found in
    float64, or the weakest ridges drift; what is made of it needs no more than float32.
    """
    n, d = train.shape
    if n < d:
        spectrum, vectors = np.linalg.eigh(train @ train.T / n)
        left, right = (validation @ train.T) @ vectors, vectors.T @ labels
    else:
        spectrum, vectors = np.linalg.eigh(train.T @ train / n)
        left, right = validation @ vectors, vectors.T @ (train.T @ labels)
    return left.astype(np.float32), np.maximum(spectrum, 0), right.astype(np.float32)


def _scores(
    left: Float[np.ndarray, "m r"],
    spectrum: Float[np.ndarray, "r"],
    right: Float[np.ndarray, "r p"],
    shape: tuple[int, int],
    ridges: Float[np.ndarray, "k"],
) -> Float[np.ndarray, "1+k p m"]:
    """Scores of the whitened difference and of each ridge, up to a positive factor, from the factors of `[n, d]` rows.

    The whitened difference is the ridge a / (1 - a), where a is the oracle-approximating shrinkage of the correlation
    matrix towards the identity (Chen et al., IEEE Transactions on Signal Processing 58, 2010, equation 23).
    """
    n, d = shape[0], max(shape[1], 1)
    square = float((spectrum**2).sum()) / d**2  # mean of the squared correlations
    excess = (n + 1) * (square - 1 / d)
    shrinkage = min((square + 1) / excess, 1.0) if excess > 0 else 1.0
    weights = 1 / np.vstack([(1 - shrinkage) * spectrum + shrinkage, spectrum + ridges[:, None]])
    return (weights[:, None, :].astype(np.float32) * right.T) @ left.T


def _rows(activations: Any, n: int, cell: Hashable) -> Float[np.ndarray, "n d"]:
    """Activations as float64, checked."""
    if hasattr(activations, "detach"):
        activations = activations.detach().double().cpu().numpy()
    rows = np.asarray(activations, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != n:
        raise ExamplesError(f"cell {cell}: activations {rows.shape} for {n} labels: pass [{n}, d]")
    if not np.isfinite(rows).all():
        raise ExamplesError(f"cell {cell}: an activation is NaN or infinite: drop the site, or load in float32")
    return rows
