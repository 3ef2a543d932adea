"""Paired differences in two conditions, between which their vector is turned and stretched by known amounts.

Activations of a pair are a common part plus and minus half a vector, with noise of their own.
"""

from __future__ import annotations

from math import cos, radians, sin

import torch
from jaxtyping import Float
from torch import Tensor


def turned(
    pairs: int, width: int, *, degrees: float, stretch: float, noise: float, seed: int = 0
) -> tuple[Float[Tensor, "pairs width"], Float[Tensor, "pairs width"]]:
    """Differences without and with a context that turns the vector by `degrees` and multiplies its length by `stretch`.

    Parameters
    ----------
    noise
        Length of an activation's own noise beside that of the vector without context.
    """
    generator = torch.Generator().manual_seed(seed)
    plane = torch.linalg.qr(torch.randn(width, 2, generator=generator)).Q
    angle = radians(degrees)
    vectors = plane[:, 0], stretch * (cos(angle) * plane[:, 0] + sin(angle) * plane[:, 1])
    plain, context = (_differences(vector, pairs, noise / width**0.5, generator) for vector in vectors)
    return plain, context


def _differences(vector: Tensor, pairs: int, spread: float, generator: torch.Generator) -> Tensor:
    common = torch.randn(pairs, len(vector), generator=generator)
    one, other = spread * torch.randn(2, pairs, len(vector), generator=generator)
    return (common + vector / 2 + one) - (common - vector / 2 + other)
