"""Whitened difference of means: linear discriminant analysis with a shrunken covariance.

The shrinkage is that of Chen, Wiesel, Eldar and Hero, "Shrinkage Algorithms for MMSE Covariance Estimation", IEEE
Transactions on Signal Processing 58 (2010), equation 23 (oracle-approximating shrinkage).
"""

from __future__ import annotations

from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from covec.find._finder import Finder
from covec.registry import method


@method("whitened-difference", verb="find", needs="moments")
class WhitenedDifference(Finder):
    """Difference of the class means, in the metric of the inverse covariance of all rows.

    Features are standardised first, so that the shrinkage is towards each feature's own variance and no loud dimension
    decides. With the correlation matrix R shrunk to (1 - a) R + a I, the direction is that of ridge regression at the
    ridge a / (1 - a): one path, two names; here the place on it is computed and not cross-validated.
    """

    closed_form = True
    details = ("shrinkage",)

    def fit_moments(self, moments: Any) -> Self:
        covariance, mean, gap = moments.covariance(), moments.mean(), moments.mean(True) - moments.mean(False)
        deviation = covariance.diagonal().clamp_min(0).sqrt()
        varying = torch.nonzero(deviation > 1e-6 * mean.abs())[:, 0]  # float32 resolves no less
        deviation = deviation[varying]
        correlation = covariance[varying][:, varying] / torch.outer(deviation, deviation)
        self.shrinkage_ = shrinkage(correlation, moments.count())
        shrunken = (1 - self.shrinkage_) * correlation
        shrunken.diagonal().add_(self.shrinkage_)
        weights = torch.linalg.solve(shrunken, gap[varying] / deviation) / deviation
        self.direction_ = torch.zeros_like(gap).index_copy(0, varying, weights)
        return self


def shrinkage(covariance: Float[Tensor, "d d"], count: int) -> float:
    """How far to shrink a covariance of `count` rows towards the identity times its mean variance, from 0 to 1."""
    d = len(covariance)
    spread, level = covariance.square().mean(), (covariance.trace() / d).square()
    excess = (count + 1) * (spread - level / d)
    return 1.0 if excess <= 0 else float(((spread + level) / excess).clamp(max=1))
