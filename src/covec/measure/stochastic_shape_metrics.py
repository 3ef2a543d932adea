"""Stochastic shape metrics: how far two noisy representations lie apart, whatever the axes of either.

"Representational dissimilarity metric spaces for stochastic neural networks", arXiv:2211.11665.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from covec.errors import CovecError
from covec.registry import method
from covec.statistics.figure import Figure

GROUPS = ("orthogonal", "permutation", "identity")
_STEPS, _TOLERANCE = 1000, 1e-8
_ENERGY_STEPS, _ENERGY_TOLERANCE, _NEAREST = 100, 1e-6, 1e-6
_RIDGE = 1e-9  # of the mean variance, added to every variance


@dataclass(frozen=True)
class ShapeDistance:
    """The distance over all stimuli, and over stimuli that the alignment was not fitted to."""

    figure: Figure
    held_out: Figure


@dataclass(frozen=True, eq=False)
class _Shape:
    """Mean responses, centred over the stimuli [m, n], square roots of the covariances [m, n, n], samples [m, r, n]."""

    means: Float[Tensor, "m n"]
    roots: Float[Tensor, "m n n"]
    samples: Float[Tensor, "m r n"]

    @classmethod
    def of(cls, samples: Float[Tensor, "m r n"]) -> _Shape:
        middle = samples.mean(1)
        noise = samples - middle[:, None]
        covariance = noise.mT @ noise / (samples.shape[1] - 1)
        origin = middle.mean(0)
        return cls(middle - origin, _root(covariance), samples - origin)

    def drawn(self, generator: torch.Generator) -> _Shape:
        """As many samples of Gaussians with these means and covariances."""
        m, r, n = self.samples.shape
        noise = torch.randn(m, r, n, generator=generator, dtype=self.means.dtype)
        return _Shape.of(self.means[:, None] + noise @ self.roots)

    def at(self, stimuli: slice) -> _Shape:
        return _Shape(self.means[stimuli], self.roots[stimuli], self.samples[stimuli])


@method("stochastic-shape-metrics", verb="measure", card="stochastic-shape-metrics")
def stochastic_shape_metrics(
    one: Float[Tensor, "m r n"],
    other: Float[Tensor, "m r n"],
    *,
    alpha: float = 1.0,
    kind: str = "gaussian",
    group: str = "orthogonal",
    restarts: int = 2,
    nulls: int = 3,
    seed: int = 0,
) -> ShapeDistance:
    """Distance between the noisy responses of two networks to the same stimuli, after the best alignment.

    Of Gaussians it is the root mean over stimuli of `alpha` times the squared distance of the means plus `2 - alpha`
    times that of the covariances (Bures). The null is what two samples of one network come to, drawn of the Gaussians
    of either side.

    Parameters
    ----------
    one, other
        Responses of m stimuli in r repeats; the narrower side is padded with zeros.
    alpha
        0 (covariances alone) to 2 (means alone, as in deterministic shape metrics); 1 is the 2-Wasserstein distance.
    kind
        `gaussian`, or `energy`: the energy distance of the samples themselves, which has no `alpha`.
    group
        What the other side may be turned by: `orthogonal`, `permutation` or `identity`.
    restarts
        Alignments from random beginnings, beside the one that begins at the means; the nearest counts.
    nulls
        Pairs of samples drawn of each side.

    Raises
    ------
    CovecError
        The stimuli differ in number, there are fewer than four, or no more repeats than units.
    """
    one, other = _checked(one, other, kind)
    if not 0 <= alpha <= 2 or group not in GROUPS or kind not in ("gaussian", "energy"):
        raise CovecError(f"alpha is 0 to 2, kind gaussian or energy, group one of {', '.join(GROUPS)}")
    generator = torch.Generator().manual_seed(seed)
    shapes = _Shape.of(one), _Shape.of(other)
    turn = partial(_align, alpha=alpha, group=group, restarts=restarts, generator=generator)
    far = partial(_gaussian, alpha=alpha) if kind == "gaussian" else _energy
    fit = turn if kind == "gaussian" else partial(_energy_alignment, group=group)
    found = _distances(*shapes, fit, far)
    drawn = [
        _distances(side.drawn(generator), side.drawn(generator), fit, far) for side in shapes for _ in range(nulls)
    ]
    null = [sum(each) / len(drawn) for each in zip(*drawn, strict=True)] if drawn else [None, None]
    how = f"{kind} distance, alpha {alpha:g}, {group}" if kind == "gaussian" else f"energy distance, {group}"
    figures = [
        Figure(value, null=chance, n=len(one), how=f"{how}{extra}; null: two samples of one network")
        for value, chance, extra in zip(found, null, ("", ", stimuli it was not aligned on"), strict=True)
    ]
    return ShapeDistance(*figures)


def _checked(one: Float[Tensor, "m r n"], other: Float[Tensor, "m r n"], kind: str) -> tuple[Tensor, Tensor]:
    """Both sides in float64, the narrower one padded with zeros."""
    sides = [torch.as_tensor(side).detach().to("cpu", torch.float64) for side in (one, other)]
    for side in sides:
        if side.ndim != 3 or not bool(side.isfinite().all()):
            raise CovecError(f"responses are finite numbers [stimuli, repeats, units], not {list(side.shape)}")
        if len(side) < 4 or len(side) != len(sides[0]):
            raise CovecError("both networks are shown the same stimuli, and four of them at least")
        if side.shape[1] < 2 or (kind == "gaussian" and side.shape[1] <= side.shape[2]):
            raise CovecError(
                f"{side.shape[1]} repeats are too few for the covariance of {side.shape[2]} units: "
                "repeat more often, or keep fewer principal components"
            )
    width = max(side.shape[2] for side in sides)
    first, second = (torch.nn.functional.pad(side, (0, width - side.shape[2])) for side in sides)
    return first, second


def _distances(
    one: _Shape, other: _Shape, fit: Callable[..., Tensor], far: Callable[[_Shape, _Shape, Tensor], float]
) -> tuple[float, float]:
    """The distance over all stimuli, and the root mean square of those over half of them, aligned on the others."""
    whole = math.sqrt(max(0.0, far(one, other, fit(one, other))))
    halves = (slice(0, None, 2), slice(1, None, 2))
    crossed = [
        far(one.at(unseen), other.at(unseen), fit(one.at(known), other.at(known)))
        for known, unseen in (halves, halves[::-1])
    ]
    return whole, math.sqrt(max(0.0, sum(crossed) / 2))


def _align(
    one: _Shape, other: _Shape, *, alpha: float, group: str, restarts: int, generator: torch.Generator
) -> Float[Tensor, "n n"]:
    """The turn of the other side that brings it nearest, by alternating Procrustes problems.

    The paper's code weights means and roots by alpha and 2 - alpha; square roots of these are what its objective says.
    """
    first, second = math.sqrt(alpha), math.sqrt(2 - alpha)
    target = torch.cat([first * one.means, second * one.roots.flatten(0, 1)])
    best, least = torch.eye(one.means.shape[1], dtype=torch.float64, device="cpu"), math.inf
    for turn in _beginnings(one, other, group, restarts, generator):
        loss = math.inf
        for _ in range(_STEPS):
            turned = _polar(one.roots @ (other.roots @ turn).mT) @ other.roots
            source = torch.cat([first * other.means, second * turned.flatten(0, 1)])
            turn = _nearest(source.T @ target, group)
            before, loss = loss, float((target - source @ turn).norm())
            if before - loss < _TOLERANCE * max(loss, 1e-30):
                break
        if loss < least:
            best, least = turn, loss
    return best


def _beginnings(
    one: _Shape, other: _Shape, group: str, restarts: int, generator: torch.Generator
) -> Iterator[Float[Tensor, "n n"]]:
    yield _nearest(other.means.T @ one.means, group)
    for _ in range(0 if group == "identity" else restarts):
        yield _nearest(torch.randn(one.means.shape[1], one.means.shape[1], generator=generator).double(), group)


def _gaussian(one: _Shape, other: _Shape, turn: Float[Tensor, "n n"], alpha: float) -> float:
    """Squared: mean over stimuli of the means' distance and of tr A + tr C - 2 |A^1/2 C^1/2|, the nuclear norm."""
    apart = (one.means - other.means @ turn).square().sum()
    roots = other.roots @ turn
    overlap = torch.linalg.svdvals(one.roots @ roots.mT).sum()
    noise = one.roots.square().sum() + roots.square().sum() - 2 * overlap
    return float(alpha * apart + (2 - alpha) * noise) / len(one.means)


def _energy_alignment(one: _Shape, other: _Shape, *, group: str) -> Float[Tensor, "n n"]:
    """The turn that makes the mean distance of the samples least: Procrustes, reweighted by the distances."""
    turn, before = _nearest(other.means.T @ one.means, group), math.inf
    for _ in range(_ENERGY_STEPS):
        distance = torch.cdist(one.samples, other.samples @ turn)
        weight = 1 / distance.clamp_min(_NEAREST)
        turn = _nearest((other.samples.mT @ weight.mT @ one.samples).sum(0), group)
        loss = float(distance.mean())
        if before - loss < _ENERGY_TOLERANCE * max(loss, 1e-30):
            break
        before = loss
    return turn


def _energy(one: _Shape, other: _Shape, turn: Float[Tensor, "n n"]) -> float:
    """Squared: mean distance across, less half of that between two samples of each side."""
    across = torch.cdist(one.samples, other.samples @ turn).mean()
    within = [
        torch.cdist(side.samples, side.samples).sum((1, 2)).mean()
        / (side.samples.shape[1] * (side.samples.shape[1] - 1))
        for side in (one, other)
    ]
    return float(across - sum(within) / 2)


def _nearest(product: Float[Tensor, "n n"], group: str) -> Float[Tensor, "n n"]:
    """The turn T of the group that makes the trace of T^T product largest."""
    if group == "identity":
        return torch.eye(len(product), dtype=product.dtype, device=product.device)
    if group == "permutation":
        rows, columns = linear_sum_assignment(product.numpy(), maximize=True)
        turn = torch.zeros_like(product)
        turn[rows, columns] = 1
        return turn
    return _polar(product)


def _polar(product: Float[Tensor, "*m n n"]) -> Float[Tensor, "*m n n"]:
    """The orthogonal matrix nearest to each."""
    left, _, right = torch.linalg.svd(product)
    return left @ right


def _root(covariance: Float[Tensor, "m n n"]) -> Float[Tensor, "m n n"]:
    """Symmetric square roots, every variance at least a trifle."""
    sizes, axes = torch.linalg.eigh(covariance)
    least = _RIDGE * sizes.mean().clamp_min(1e-300)
    return axes @ (sizes.clamp_min(0) + least).sqrt().diag_embed() @ axes.mT
