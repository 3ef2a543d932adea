"""A Gaussian teacher: isotropic inputs whose labels follow one direction by a logistic law.

The setting in which the theory of "RAPTOR: Ridge-Adaptive Logistic Probes", arXiv:2602.00158, is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Teacher:
    """Labels that are positive with probability sigmoid(`slope` * direction . x), for x from a standard Gaussian."""

    direction: Float[Tensor, "d"]
    slope: float

    @classmethod
    def draw(cls, d: int, slope: float, rng: np.random.Generator) -> Teacher:
        """A teacher with a direction of unit norm drawn at random."""
        direction = rng.standard_normal(d)
        return cls(torch.from_numpy(direction / np.linalg.norm(direction)), slope)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Float[Tensor, "n d"], Bool[np.ndarray, "n"]]:
        """`n` inputs and their labels."""
        X = torch.from_numpy(rng.standard_normal((n, len(self.direction))))
        chance = torch.sigmoid(self.slope * (X @ self.direction)).numpy()
        return X.float(), rng.random(n) < chance

    def overlap(self, direction: Float[Tensor, "d"]) -> float:
        """Cosine between `direction` and the teacher's."""
        found = direction.double()
        return float(found @ self.direction / found.norm())
