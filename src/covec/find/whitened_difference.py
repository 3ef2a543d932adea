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
        covariance = moments.covariance()
        deviation = covariance.diagonal().clamp_min(0).sqrt()
        inverse = torch.where(deviation > 1e-6 * moments.mean().abs(), 1 / deviation, 0.0)
        correlation = inverse[:, None] * covariance * inverse
        self.shrinkage_ = shrinkage(correlation, moments.count())
        identity = torch.eye(len(inverse), dtype=torch.float64)
        shrunken = (1 - self.shrinkage_) * correlation + self.shrinkage_ * identity
        gap = inverse * (moments.mean(True) - moments.mean(False))
        self.direction_ = inverse * torch.linalg.solve(shrunken, gap)
        return self


def shrinkage(covariance: Float[Tensor, "d d"], count: int) -> float:
    """How far to shrink a covariance of `count` rows towards the identity times its mean variance, from 0 to 1."""
    d = len(covariance)
    spread, level = covariance.square().mean(), (covariance.trace() / d).square()
    excess = (count + 1) * (spread - level / d)
    return 1.0 if excess <= 0 else float(((spread + level) / excess).clamp(max=1))
