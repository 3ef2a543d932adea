"""Rows of activations in which the direction of a concept is known, and the same rows with labels that mean nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Drawn:
    """Rows of a world whose direction is known: activations [n, d], labels [n], pair ids [n], direction [d]."""

    X: Float[Tensor, "n d"]
    y: Bool[np.ndarray, "n"]
    pairs: list[str]
    direction: Float[Tensor, "d"]

    def shuffled(self, seed: int) -> Drawn:
        """The same rows with labels that mean nothing: swapped within half of the pairs, so that nothing is left.

        Exactly half, an odd one out staying as it is: labels and truth then have no correlation at all.
        """
        pairs = len(self.y) // 2
        swap = np.random.default_rng(seed).permutation(pairs) < pairs // 2
        return replace(self, y=self.y ^ swap.repeat(2))


def draw(n: int, d: int, *, effect: float, seed: int, shared: float = 0.9, decay: float = 0.5) -> Drawn:
    """Rows with correlated noise, and one direction along which the class means are `effect` deviations apart.

    Parameters
    ----------
    n, d
        Rows, an even number, and width. Rows 2 i and 2 i + 1 are a pair, the first of them positive.
    effect
        Distance of the class means in standard deviations of the noise along the direction.
    shared
        Share of the noise's variance that the two rows of a pair have in common.
    decay
        The j-th largest variance of the noise is j to the power of -`decay`.
    """
    rng = np.random.default_rng(seed)
    axes, direction = _axes(d)
    spread = np.arange(1, d + 1) ** (-decay / 2)
    common, own = rng.standard_normal((n // 2, d)).repeat(2, 0), rng.standard_normal((n, d))
    noise = (np.sqrt(shared) * common + np.sqrt(1 - shared) * own) * spread @ axes
    y = np.arange(n) % 2 == 0
    shift = effect * np.linalg.norm(spread * (axes @ direction)) * direction
    X = noise + np.where(y, 0.5, -0.5)[:, None] * shift
    return Drawn(torch.from_numpy(X).float(), y, [f"pair {row // 2}" for row in range(n)], torch.from_numpy(direction))


@lru_cache(maxsize=8)
def _axes(d: int) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, "d"]]:
    """Random axes of the noise, and a random direction."""
    rng = np.random.default_rng(d)
    axes, _ = np.linalg.qr(rng.standard_normal((d, d)))
    direction = rng.standard_normal(d)
    return axes, direction / np.linalg.norm(direction)
