"""Shared machinery of the finders: one factorisation a site, ridge by exact cross-validation, and convex losses.

Everything runs on rows that are standardised (mean 0 and variance 1 a feature, so that no loud dimension decides) and
turned onto their principal axes. A ridge is then in units of the variance of a feature, whatever the model's scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.linalg import eigh
from torch import Tensor
from torch.nn.functional import softplus

from covec.statistics.auroc import areas_of

if TYPE_CHECKING:
    from covec.find._rows import Rows

Score = Callable[[Tensor, Tensor], Tensor]

CHOOSING, FINAL = 2e-2, 1e-5  # what must be left of the gradient for a solution to choose a ridge by, and to keep
_STEPS, _TURNS, _HALVINGS = 100, 200, 30


@dataclass(frozen=True)
class Spectrum:
    """Standardised rows along their principal axes.

    Parameters
    ----------
    standardised
        The rows with mean 0 and variance 1 a feature, or 0 where a feature does not vary [n, d] (float64).
    inverse_deviation
        What each feature was multiplied with [d].
    coordinates
        The standardised rows along the axes [n, r], with r at most min(n - 1, d).
    variances
        Variance along each axis [r], ascending; they sum to the number of features that vary.
    """

    standardised: Float[Tensor, "n d"]
    inverse_deviation: Float[Tensor, "d"]
    coordinates: Float[Tensor, "n r"]
    variances: Float[Tensor, "r"]

    @classmethod
    def of(cls, X: Float[Tensor, "n d"]) -> Spectrum:
        """Factorise rows, by the smaller of their Gram and covariance matrices.

        In NumPy and SciPy: their BLAS is half as fast again at this as torch's, and it is most of what a fit costs.
        """
        centred = X.double() - X.double().mean(0)
        deviation = centred.square().mean(0).sqrt()
        inverse = torch.where(deviation > 1e-6 * X.abs().amax(0), 1 / deviation, 0.0)  # float32 resolves no less
        Z = (centred * inverse).numpy()
        n, d = Z.shape
        variances, vectors = eigh(Z @ Z.T if n < d else Z.T @ Z, driver="evd", check_finite=False, overwrite_a=True)
        kept = slice(np.searchsorted(variances, 1e-10 * variances[-1], side="right"), None)
        variances, vectors = variances[kept], vectors[:, kept]
        coordinates = vectors * np.sqrt(variances) if n < d else Z @ vectors
        return cls(torch.from_numpy(Z), inverse, torch.from_numpy(coordinates), torch.from_numpy(variances / n))

    def direction(self, weights: Float[Tensor, "r"]) -> Float[Tensor, "d"]:
        """Weights on the axes as a direction in the space of the rows."""
        along_rows = self.coordinates @ (weights / (len(self.coordinates) * self.variances))
        return self.inverse_deviation * (along_rows @ self.standardised)


@dataclass(frozen=True)
class Loss:
    """A convex loss of the margin (label x output): its value, its slope and curvature, and its curvature at 0."""

    value: Callable[[Tensor], Tensor]
    slopes: Callable[[Tensor], tuple[Tensor, Tensor]]
    curvature: float


def _logistic(margin: Tensor) -> tuple[Tensor, Tensor]:
    miss = torch.sigmoid(-margin)
    return -miss, miss * (1 - miss)


def _squared_hinge(margin: Tensor) -> tuple[Tensor, Tensor]:
    short = (1 - margin).clamp_min(0)
    return -2 * short, 2 * (short > 0).to(margin)


LOGISTIC = Loss(lambda margin: softplus(-margin), _logistic, 0.25)
SQUARED_HINGE = Loss(lambda margin: (1 - margin).clamp_min(0).square(), _squared_hinge, 2.0)


def fit_convex(
    rows: Rows, loss: Loss, ridges: Sequence[float], score: Score | None = None
) -> tuple[Float[Tensor, "d"], float]:
    """Choose a ridge by grouped five-fold cross-validation, then fit all rows with it.

    Minimises mean(loss(s_i (u . z_i + b))) + ridge / 2 |u|^2 over u and b, for labels s_i = +-1.

    Parameters
    ----------
    ridges
        Candidates; one alone needs no choice. Folds keep the total penalty of the full fit.
    score
        Of out-of-fold outputs [ridges, n] and labels [n]: the higher the better [ridges]; AUROC where None. Ties go to
        the larger ridge.

    Returns
    -------
    The direction in the space of the rows, and the ridge.
    """
    ridge, start, folds = max(ridges), None, rows.folds()
    if len(ridges) > 1 and folds is not None:
        k = int(folds.max()) + 1
        trained = (folds != torch.arange(k, device=folds.device)[:, None]).repeat_interleave(len(ridges), 0)
        candidates = rows.X.new_tensor(ridges).repeat(k)
        problem = Problem.of(rows, loss, trained, candidates, torch.float32)
        solutions = minimise(problem, CHOOSING)
        outputs = problem.outputs(solutions).unflatten(0, (k, len(ridges)))
        unseen = outputs[folds, :, torch.arange(len(folds), device=folds.device)].T
        chosen = best((score or areas)(unseen, rows.positive), ridges)
        ridge, start = ridges[chosen], solutions.unflatten(0, (k, len(ridges)))[:, chosen].mean(0, keepdim=True)
    everything, chosen_ridge = rows.X.new_ones(1, len(rows.X)), rows.X.new_tensor([ridge])
    problem = Problem.of(rows, loss, everything, chosen_ridge, torch.float64)
    weights = minimise(problem, FINAL, start)
    return rows.spectrum.direction(weights[0, :-1]), ridge


def areas(outputs: Float[Tensor, "ridges n"], positive: Bool[Tensor, "n"]) -> Float[Tensor, "ridges"]:
    """AUROC of every ridge."""
    return torch.from_numpy(areas_of(outputs.numpy(), positive.expand_as(outputs).numpy()))


def best(scores: Float[Tensor, "ridges"], ridges: Sequence[float]) -> int:
    """Index of the highest score; ties go to the larger ridge, which is the more stable one."""
    return max(range(len(ridges)), key=lambda index: (float(scores[index]), ridges[index]))


@dataclass(frozen=True)
class Problem:
    """Several regularised problems on the same rows (folds x ridges), solved side by side.

    They stand in the first dimension of everything: products with few rows are what processors do quickly.

    Parameters
    ----------
    loss
        Of the margin.
    design
        Coordinates of the rows, and a last column of ones for the intercept, which is not penalised [n, r + 1].
    signs
        Labels, +-1 [n].
    share
        1 / n where a problem trains on a row, else 0 [p, n].
    penalty
        The ridge of each problem on each weight [p, r + 1].
    metric
        Inverse curvature at zero: on the principal axes it is diagonal [p, r + 1].
    """

    loss: Loss
    design: Float[Tensor, "n r1"]
    signs: Float[Tensor, "n"]
    share: Float[Tensor, "p n"]
    penalty: Float[Tensor, "p r1"]
    metric: Float[Tensor, "p r1"]

    @classmethod
    def of(cls, rows: Rows, loss: Loss, trained: Tensor, ridges: Tensor, dtype: torch.dtype) -> Problem:
        """The problems of `rows`, with the rows `trained` [p, n] and the ridge [p] of each."""
        spectrum = rows.spectrum
        design = torch.cat([spectrum.coordinates, rows.X.new_ones(len(rows.X), 1)], 1)
        variances = torch.cat([spectrum.variances, rows.X.new_ones(1)])
        penalty = ridges[:, None].repeat(1, len(variances))
        penalty[:, -1] = 0
        metric = 1 / (loss.curvature * variances + penalty)
        share = trained.float() / len(rows.X)
        return cls(loss, *(part.to(dtype) for part in (design, rows.signs, share, penalty, metric)))

    def only(self, going: Tensor) -> Problem:
        """Some of the problems."""
        return replace(self, **{name: getattr(self, name)[going] for name in ("share", "penalty", "metric")})

    def outputs(self, weights: Tensor) -> Tensor:
        """What weights [p, r + 1] say of every row [p, n]."""
        return weights @ self.design.T

    def objective(self, weights: Tensor, outputs: Tensor) -> Tensor:
        """What is minimised [p]."""
        value = self.loss.value(outputs * self.signs)
        return (self.share * value).sum(1) + (self.penalty * weights.square()).sum(1) / 2

    def slopes(self, weights: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient [p, r + 1], and the curvature of each row [p, n]."""
        slope, curvature = self.loss.slopes(outputs * self.signs)
        gradient = torch.addcmul((self.share * slope * self.signs) @ self.design, self.penalty, weights)
        return gradient, self.share * curvature

    def size(self, gradient: Tensor) -> Tensor:
        """Squared length of a gradient in the metric [p]."""
        return (gradient.square() * self.metric).sum(1)


def minimise(problem: Problem, tolerance: float, start: Float[Tensor, "p r1"] | None = None) -> Float[Tensor, "p r1"]:
    """Solve all of `problem` by Newton's method, each step by conjugate gradients.

    One is done once its gradient is `tolerance` times what it was at zero, in the metric of the problem.
    """
    weights = torch.zeros_like(problem.metric)
    initial = problem.size(problem.slopes(weights, problem.outputs(weights))[0])
    if start is not None:
        weights = start.to(weights)
    outputs, solution = problem.outputs(weights), weights.clone()
    open_ = torch.arange(len(weights), device=weights.device)
    for _ in range(_STEPS):
        gradient, curvature = problem.slopes(weights, outputs)
        left = (problem.size(gradient) / initial[open_]).sqrt()
        solution[open_] = weights
        going = torch.nonzero(left > tolerance)[:, 0]
        if not len(going):
            break
        if len(going) < len(open_):
            problem, open_ = problem.only(going), open_[going]
            state = (weights, outputs, gradient, curvature, left)
            weights, outputs, gradient, curvature, left = (part[going] for part in state)
        accuracy = (2 * left).clamp(tolerance / 10, 0.1)
        step, moved = _newton_step(problem, gradient, curvature, accuracy)
        length = _step_length(problem, (weights, outputs), (step, moved), (gradient * step).sum(1))
        weights, outputs = weights + length * step, outputs + length * moved
    return solution


def _newton_step(problem: Problem, gradient: Tensor, curvature: Tensor, accuracy: Tensor) -> tuple[Tensor, Tensor]:
    """The step [p, r + 1] that cancels `gradient` up to `accuracy` [p], and how it moves the outputs [p, n]."""
    step, moved = torch.zeros_like(gradient), torch.zeros_like(curvature)
    residual = -gradient
    ahead = problem.metric * residual
    along = (residual * ahead).sum(1)
    enough = along * accuracy.square()
    going = along > enough
    for _ in range(_TURNS):
        reach = problem.outputs(ahead)
        bent = torch.addcmul((curvature * reach) @ problem.design, problem.penalty, ahead)
        length = torch.where(going, along / (ahead * bent).sum(1), 0.0)[:, None]
        step.addcmul_(length, ahead)
        moved.addcmul_(length, reach)
        residual.addcmul_(length, bent, value=-1)
        steepest = problem.metric * residual
        previous, along = along, (residual * steepest).sum(1)
        going = going & (along > enough)
        if not going.any():
            break
        ahead = torch.addcmul(steepest, torch.where(going, along / previous, 0.0)[:, None], ahead)
    return step, moved


def _step_length(
    problem: Problem, here: tuple[Tensor, Tensor], step: tuple[Tensor, Tensor], slope: Tensor
) -> Float[Tensor, "p 1"]:
    """The longest of 1, 1/2, 1/4, ... that lowers each objective by enough (Armijo)."""
    length, objective = torch.ones_like(slope), problem.objective(*here)
    rounding = 10 * torch.finfo(objective.dtype).eps * objective
    for _ in range(_HALVINGS):
        reached = (start + length[:, None] * whole for start, whole in zip(here, step, strict=True))
        lower = problem.objective(*reached) <= objective + 1e-4 * length * slope + rounding
        if lower.all():
            break
        length = torch.where(lower, length, length / 2)
    return length[:, None]
