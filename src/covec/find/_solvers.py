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
from torch.linalg import vecdot
from torch.nn.functional import softplus

from covec.statistics.auroc import areas_of

if TYPE_CHECKING:
    from covec.find._rows import Rows

Score = Callable[[Tensor, Tensor], Tensor]

CHOOSING, FINAL = 1e-3, 1e-5  # what may be left of the gradient in a solution to choose a ridge by, and in one to keep
_TURNS, _HALVINGS = 1000, 30


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

        In NumPy and SciPy: their BLAS is half as fast again at this as torch's, and it is most of what a fit costs;
        sums over rows cost torch many times as much.
        """
        Z = X.numpy().astype(np.float64)
        n, d = Z.shape
        Z -= Z.mean(0)
        deviation = np.sqrt(np.einsum("nd,nd->d", Z, Z) / n)
        varies = deviation > 1e-6 * np.abs(X.numpy()).max(0)  # float32 resolves no less
        inverse = np.divide(1.0, deviation, out=np.zeros(d), where=varies)
        Z *= inverse
        products = (Z @ Z.T if n < d else Z.T @ Z).T  # the same, in the order that LAPACK works on without a copy
        variances, vectors = eigh(products, driver="evd", check_finite=False, overwrite_a=True)
        kept = slice(np.searchsorted(variances, 1e-10 * variances[-1], side="right"), None)
        variances, vectors = variances[kept], vectors[:, kept]
        coordinates = vectors * np.sqrt(variances) if n < d else Z @ vectors
        found = (Z, inverse, coordinates, variances / n)
        return cls(*map(torch.from_numpy, found))

    def direction(self, weights: Float[Tensor, "r"]) -> Float[Tensor, "d"]:
        """Weights on the axes as a direction in the space of the rows."""
        along_rows = self.coordinates @ (weights / (len(self.coordinates) * self.variances))
        return self.inverse_deviation * (along_rows @ self.standardised)


@dataclass(frozen=True)
class Loss:
    """A convex loss of the margin (label x output): its value, and its slope and curvature."""

    value: Callable[[Tensor], Tensor]
    slopes: Callable[[Tensor], tuple[Tensor, Tensor]]


def _logistic(margin: Tensor) -> tuple[Tensor, Tensor]:
    miss = torch.sigmoid(-margin)
    return -miss, miss * (1 - miss)


def _squared_hinge(margin: Tensor) -> tuple[Tensor, Tensor]:
    short = (1 - margin).clamp_min(0)
    return -2 * short, 2 * (short > 0).to(margin)


LOGISTIC = Loss(lambda margin: softplus(-margin), _logistic)
SQUARED_HINGE = Loss(lambda margin: (1 - margin).clamp_min(0).square(), _squared_hinge)


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
        outputs = (problem.margins(solutions) * rows.signs).unflatten(0, (k, len(ridges)))
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
        Coordinates of the rows and a last column of ones for the intercept, which is not penalised, times the label of
        the row [n, r + 1].
    variances
        Of the columns of the design, about zero [r + 1].
    share
        1 / n where a problem trains on a row, else 0 [p, n].
    penalty
        The ridge of each problem on each weight [p, r + 1].
    """

    loss: Loss
    design: Float[Tensor, "n r1"]
    variances: Float[Tensor, "r1"]
    share: Float[Tensor, "p n"]
    penalty: Float[Tensor, "p r1"]

    @classmethod
    def of(cls, rows: Rows, loss: Loss, trained: Tensor, ridges: Tensor, dtype: torch.dtype) -> Problem:
        """The problems of `rows`, with the rows `trained` [p, n] and the ridge [p] of each."""
        spectrum, one = rows.spectrum, rows.X.new_ones(1)
        design = rows.signs[:, None] * torch.cat([spectrum.coordinates, one.expand(len(rows.X), 1)], 1)
        variances = torch.cat([spectrum.variances, one])
        penalty = ridges[:, None] * torch.cat([torch.ones_like(spectrum.variances), 0 * one])
        share = trained.float() / len(rows.X)
        return cls(loss, *(part.to(dtype) for part in (design, variances, share, penalty)))

    def only(self, going: Tensor) -> Problem:
        """Some of the problems."""
        return replace(self, share=self.share[going], penalty=self.penalty[going])

    def margins(self, weights: Tensor) -> Tensor:
        """What weights [p, r + 1] say of every row, times its label [p, n]."""
        return weights @ self.design.T

    def objective(self, weights: Tensor, margins: Tensor) -> Tensor:
        """What is minimised [p]."""
        return vecdot(self.share, self.loss.value(margins)) + vecdot(self.penalty, weights.square()) / 2

    def slopes(self, weights: Tensor, margins: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient [p, r + 1], and the curvature of each row [p, n]."""
        slope, curvature = self.loss.slopes(margins)
        return torch.addcmul((self.share * slope) @ self.design, self.penalty, weights), self.share * curvature

    def metric(self, curvature: Tensor) -> Tensor:
        """Inverse curvature along each axis, as if all rows shared theirs [p, r + 1]."""
        shared = curvature.sum(1, keepdim=True).clamp_min(torch.finfo(curvature.dtype).eps)
        return 1 / torch.addcmul(self.penalty, shared, self.variances)


def minimise(problem: Problem, tolerance: float, start: Float[Tensor, "p r1"] | None = None) -> Float[Tensor, "p r1"]:
    """Solve all of `problem` by conjugate gradients on the losses themselves.

    The directions are those of Hager and Zhang, "A new conjugate gradient method with guaranteed descent and an
    efficient line search", SIAM Journal on Optimization 16 (2005), in the metric of where each begins; a step is that
    of Newton's method along the direction, or a part of it. One is done once its gradient is `tolerance` times as long
    as at zero, both in the metric of their place.
    """
    weights = torch.zeros_like(problem.penalty)
    gradient, curvature = problem.slopes(weights, problem.margins(weights))
    enough = tolerance**2 * vecdot(problem.metric(curvature), gradient.square())
    weights = weights if start is None else start.to(weights)
    margins = problem.margins(weights)
    objective = problem.objective(weights, margins)
    solution, open_ = weights.clone(), torch.arange(len(weights), device=weights.device)
    ahead = before = torch.zeros_like(weights)
    for _ in range(_TURNS):
        gradient, curvature = problem.slopes(weights, margins)
        metric = problem.metric(curvature)
        going = torch.nonzero(vecdot(metric, gradient.square()) > enough)[:, 0]
        if len(going) < len(open_):
            solution[open_] = weights
            problem, open_ = problem.only(going), open_[going]
            state = (weights, margins, objective, gradient, curvature, metric, enough, ahead, before)
            weights, margins, objective, gradient, curvature, metric, enough, ahead, before = (
                part[going] for part in state
            )
        if not len(open_):
            break
        ahead, before = _direction(gradient, metric, ahead, before), gradient
        reach = problem.margins(ahead)
        slope = vecdot(gradient, ahead)
        length = -slope / (vecdot(curvature, reach.square()) + vecdot(problem.penalty, ahead.square()))
        weights, margins, objective = _step(problem, (weights, margins, objective), (ahead, reach, slope), length)
    solution[open_] = weights
    return solution


def _direction(gradient: Tensor, metric: Tensor, last: Tensor, before: Tensor) -> Float[Tensor, "p r1"]:
    """Where to go, after going along `last` from where the gradient was `before` (both zero at first)."""
    steepest, change = metric * gradient, gradient - before
    bent = vecdot(last, change)
    turn = vecdot(steepest, change) - 2 * vecdot(last, gradient) * vecdot(metric, change.square()) / bent
    return torch.where(bent > 0, turn / bent, 0.0)[:, None] * last - steepest


def _step(
    problem: Problem, here: tuple[Tensor, Tensor, Tensor], along: tuple[Tensor, Tensor, Tensor], length: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, margins and objective after the longest of `length`, its half, its quarter, ... that lowers each
    objective by enough (Armijo).
    """
    (weights, margins, objective), (ahead, reach, slope) = here, along
    rounding = 10 * torch.finfo(objective.dtype).eps * objective
    for _ in range(_HALVINGS):
        reached = torch.addcmul(weights, length[:, None], ahead), torch.addcmul(margins, length[:, None], reach)
        lowered = problem.objective(*reached)
        enough = lowered <= objective + 1e-4 * length * slope + rounding
        if enough.all():
            break
        length = torch.where(enough, length, length / 2)
    return *reached, lowered
