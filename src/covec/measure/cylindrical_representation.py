"""The cylindrical representation: difference vectors share an axis, and each has a large part of its own beside it.

"The Cylindrical Representation Hypothesis for Language Model Steering", arXiv:2605.01844.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from covec.errors import CovecError
from covec.registry import method
from covec.statistics.figure import Figure
from covec.statistics.splits import lot

_ROUNDING = 1e-6  # of the length of a difference: activations are float32
POWERS = (2.0, -1.0)  # of sine and cosine in the law of steerability, as published


@dataclass(frozen=True, eq=False)
class Cylinder:
    """The geometry of difference vectors.

    Attributes
    ----------
    figure
        Mean cosine of a difference with the axis of the others: near 1 where a concept is one direction, near 0 where
        there is none.
    rank
        Effective rank of what lies across the axis: how many directions the samples' own parts fill. The null is that
        of isotropic parts.
    axis
        Mean difference [d]; its length is one step of steering.
    cosines
        Of each difference with the axis of the folds it is not in [n].
    """

    figure: Figure
    rank: Figure
    axis: Float[Tensor, "d"]
    cosines: Float[np.ndarray, "n"]

    def steering(self, differences: Float[Tensor, "n d"], length: float, penalty: float = 1.0) -> Float[Tensor, "n d"]:
        """Shifts of each sample: `length` times its cosine along the axis, and times its sine along its own part.

        A `penalty` of 1 leaves the own part out, one of 0 gives the sample's own direction; shifts with a penalty above
        0 are shorter than `length`.
        """
        unit = torch.nn.functional.normalize(self.axis, dim=0)
        directions = torch.nn.functional.normalize(torch.as_tensor(differences).float(), dim=1)
        along = (directions @ unit)[:, None] * unit
        return length * (along + (1 - penalty) * (directions - along))


@method("cylindrical-representation", verb="measure", card="cylindrical-representation")
def cylindrical_representation(
    differences: Float[Tensor, "n d"],
    *,
    groups: Sequence[Hashable] | None = None,
    nulls: int = 20,
    seed: int = 0,
) -> Cylinder:
    """How far the difference vectors of single samples share one axis, each measured by the axis of the others.

    The null is the same with signs drawn at random, so that there is no axis.

    Parameters
    ----------
    differences
        Activations with the concept less those without it, a row a sample.
    groups
        What must stay together when the axis is held out, such as the question; each row alone where None.

    Raises
    ------
    CovecError
        There are fewer than four groups, a difference is zero or not finite, or the axis is zero.
    """
    rows = torch.as_tensor(differences).detach().to("cpu", torch.float64)
    if rows.ndim != 2 or not bool(rows.isfinite().all() and rows.any(1).all()):
        raise CovecError(
            f"differences are rows [n, d] of finite numbers, none of them all zero, not {list(rows.shape)}"
        )
    units = list(range(len(rows))) if groups is None else list(groups)
    if len(units) != len(rows) or len(set(units)) < 4:
        raise CovecError(f"{len(set(units))} groups for {len(rows)} differences: give one a row, and four at least")
    axis = rows.mean(0)
    if axis.norm() < _ROUNDING * rows.norm(dim=1).mean():
        raise CovecError("the differences cancel, so that they share no axis: take them all from without to with")
    folds = _folds(units)
    cosines, rng = _cosines(rows, folds), np.random.default_rng(seed)
    drawn = [_cosines(rows * _signs(units, rng)[:, None], folds).mean() for _ in range(nulls)]
    low, high = _interval(cosines, units, rng)
    how = f"mean cosine with the axis of other folds, bootstrap; null: signs at random, {nulls} times"
    figure = Figure(float(cosines.mean()), low, high, float(np.mean(drawn)), len(rows), how)
    unit = torch.nn.functional.normalize(axis, dim=0)
    across = rows - (rows @ unit)[:, None] * unit
    across[across.norm(dim=1) < _ROUNDING * rows.norm(dim=1)] = 0  # what lies on the axis has no part of its own
    across = torch.nn.functional.normalize(across, dim=1)
    isotropic = torch.nn.functional.normalize(torch.from_numpy(rng.standard_normal(rows.shape)), dim=1)
    told = "effective rank of the parts across the axis; null: isotropic parts"
    rank = Figure(_effective_rank(across), null=_effective_rank(isotropic), n=len(rows), how=told)
    return Cylinder(figure, rank, axis.float(), cosines)


def sine_law(cosines: Float[np.ndarray, "n"], powers: tuple[float, float] = POWERS) -> Float[np.ndarray, "n"]:
    """sin^m cos^n of the angles to the axis: steerability over the squared length of the axis is said to follow it."""
    along = np.clip(np.abs(cosines), 1e-10, 1)
    law: np.ndarray = np.sqrt(1 - along**2) ** powers[0] * along ** powers[1]
    return law


def _folds(units: Sequence[Hashable]) -> Int[np.ndarray, "n"]:
    """The fold of each row, at most five, groups dealt out in the order of their hashes."""
    line = sorted(set(units), key=lambda unit: (lot(unit, 0), str(unit)))
    place = {unit: index % 5 for index, unit in enumerate(line)}
    return np.array([place[unit] for unit in units])


def _cosines(rows: Float[Tensor, "n d"], folds: np.ndarray) -> Float[np.ndarray, "n"]:
    """Of each row with the mean of the rows in other folds."""
    total, found = rows.sum(0), np.empty(len(rows))
    for fold in np.unique(folds):
        own = rows[torch.from_numpy(folds == fold)]
        found[folds == fold] = torch.nn.functional.cosine_similarity(own, (total - own.sum(0))[None], dim=1).numpy()
    return found


def _signs(units: Sequence[Hashable], rng: np.random.Generator) -> Float[Tensor, "n"]:
    """A sign a group."""
    drawn = {unit: rng.choice((-1.0, 1.0)) for unit in dict.fromkeys(units)}
    return torch.tensor([drawn[unit] for unit in units], dtype=torch.float64, device="cpu")


def _effective_rank(rows: Float[Tensor, "n d"]) -> float:
    """Exponential of the entropy of the shares of the variance along the principal axes; 0 where there is none."""
    shares = torch.linalg.svdvals(rows).square()
    if not shares.any():
        return 0.0
    shares = shares[shares > 0] / shares.sum()
    return float((-(shares * shares.log()).sum()).exp())


def _interval(values: np.ndarray, units: Sequence[Hashable], rng: np.random.Generator) -> tuple[float, float]:
    """Bootstrap over groups of the mean."""
    named = list(dict.fromkeys(units))
    place = {unit: index for index, unit in enumerate(named)}
    codes = np.array([place[unit] for unit in units])
    sums, counts = (
        np.bincount(codes, weights=weights, minlength=len(named)) for weights in (values, np.ones(len(codes)))
    )
    chosen = rng.integers(len(named), size=(2000, len(named)))
    means = sums[chosen].sum(1) / counts[chosen].sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return min(float(low), float(values.mean())), max(float(high), float(values.mean()))
