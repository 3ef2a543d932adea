"""What RAPTOR is judged against: recursive feature machines and Gaussian concept subspaces, in their plainest form."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from covec.statistics.auroc import auroc

BANDWIDTHS, RIDGE, ITERATIONS = (1.0, 10.0, 100.0), 1e-3, 5
PROBES = 100  # of a Gaussian concept subspace
Predict = Callable[[Float[Tensor, "m d"]], Float[Tensor, "m"]]


def recursive_feature_machine(
    X: Float[Tensor, "n d"], labels: Bool[np.ndarray, "n"], iterations: int = ITERATIONS
) -> Predict:
    """Kernel ridge regression that learns its metric from its own mean outer product of gradients.

    As concepts are found with it ("Toward universal steering and monitoring of AI models", arXiv:2502.03708): three
    bandwidths, gradients centred or not, five iterations, of all of which the one with the highest AUROC on a fifth of
    the rows is kept. Features are standardised.

    References
    ----------
    Radhakrishnan et al., "Mechanism of feature learning in deep fully connected networks and kernel machines that
    recursively learn features", arXiv:2212.13881, algorithm 1.
    """
    mean, deviation = X.mean(0), X.std(0).clamp_min(1e-6)
    signs, unseen = torch.from_numpy(np.where(labels, 1.0, -1.0)), _fifth(labels)
    basis = torch.linalg.qr(((X - mean) / deviation)[~unseen].double().T).Q

    def coordinates(rows: Tensor) -> Tensor:
        """Rows in the span of the known ones, where all gradients lie, and how far they are from it."""
        Z = ((rows - mean) / deviation).double()
        inside = Z @ basis
        return torch.cat([inside, (Z - inside @ basis.T).norm(dim=1, keepdim=True)], 1)

    known, held_out, target = coordinates(X[~unseen]), coordinates(X[unseen]), signs[~unseen]
    known[:, -1] = 0  # but for rounding it is
    best: tuple[float, Predict] | None = None
    for bandwidth, centred in product(BANDWIDTHS, (True, False)):
        metric = torch.eye(known.shape[1], dtype=known.dtype)
        for _ in range(iterations):
            gram = _kernel(known, known, metric, bandwidth)
            weights = torch.linalg.solve(gram + RIDGE * torch.eye(len(known)), target)
            found = _kernel(held_out, known, metric, bandwidth) @ weights
            score = float(auroc(found.numpy(), labels[unseen.numpy()]))
            if best is None or score > best[0]:
                best = score, _predictor(coordinates, known, metric, weights, bandwidth)
            metric = _outer_product(known, metric, weights, bandwidth, centred)
            # Scaled as where it was defined, by its largest entry among the features themselves.
            metric = metric / ((basis @ metric[:-1, :-1]) * basis).sum(1).max().clamp_min(1e-30)
    assert best is not None
    return best[1]


def _predictor(
    coordinates: Callable[[Tensor], Tensor], known: Tensor, metric: Tensor, weights: Tensor, bandwidth: float
) -> Predict:
    return lambda rows: _kernel(coordinates(rows), known, metric, bandwidth) @ weights


def gaussian_subspace(
    X: Float[Tensor, "n d"], labels: Bool[np.ndarray, "n"], rng: np.random.Generator, probes: int = PROBES
) -> tuple[Float[np.ndarray, "d"], Float[np.ndarray, "d"]]:
    """Mean and standard deviation of the weights of plain logistic probes, each fitted on a random half of the rows.

    Features are standardised, without which each probe takes a hundred times as long.

    References
    ----------
    Zhao et al., "Beyond Single Concept Vector: Modeling Concept Subspace in LLMs with Gaussian Distribution",
    arXiv:2410.00153.
    """
    rows = ((X - X.mean(0)) / X.std(0).clamp_min(1e-6)).numpy()
    weights = []
    for _ in range(probes):
        half = rng.permutation(len(rows))[: len(rows) // 2]
        weights.append(LogisticRegression(max_iter=1000).fit(rows[half], labels[half]).coef_[0])
    return np.mean(weights, axis=0), np.std(weights, axis=0)


def _fifth(labels: Bool[np.ndarray, "n"]) -> Bool[Tensor, "n"]:
    """Every fifth row of either class."""
    place = np.empty(len(labels), dtype=int)
    for label in (False, True):
        place[labels == label] = np.arange((labels == label).sum())
    return torch.from_numpy(place % 5 == 0)


def _distances(one: Tensor, other: Tensor, metric: Tensor) -> Tensor:
    moved = one @ metric
    squared = (moved * one).sum(1)[:, None] - 2 * moved @ other.T + ((other @ metric) * other).sum(1)
    return squared.clamp_min(0).sqrt()


def _kernel(one: Tensor, other: Tensor, metric: Tensor, bandwidth: float) -> Tensor:
    return (-_distances(one, other, metric) / bandwidth).exp()


def _outer_product(X: Tensor, metric: Tensor, weights: Tensor, bandwidth: float, centred: bool) -> Tensor:
    """Mean outer product of the predictor's gradients at the rows."""
    distances = _distances(X, X, metric)
    pull = torch.where(distances > 1e-6, (-distances / bandwidth).exp() / distances, 0.0) * weights / bandwidth
    gradients = (pull @ X - pull.sum(1, keepdim=True) * X) @ metric
    if centred:
        gradients = gradients - gradients.mean(0)
    return gradients.T @ gradients / len(X)
