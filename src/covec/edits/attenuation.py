"""Attenuation of units: scaled down where their value speaks for a concept, and left alone where it does not.

"Evaluating Sparse Autoencoders for Monosemantic Representation", arXiv:2508.15094. Units are the coordinates of a site,
or the codes of a dictionary there; of these what the dictionary does not explain stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from covec.concepts.dictionary import Dictionary
from covec.edits.algebra import Edit
from covec.errors import CovecError
from covec.models.plan import Pass
from covec.models.sites import Site
from covec.statistics.densities import BINS, Densities

SPREAD = 2.5  # standard deviations about the mean that range masking takes for the concept's


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Attenuate(Edit):
    """Multiply some units by a factor that depends on their value.

    Parameters
    ----------
    units
        Numbers of the units [u].
    low, step
        Where the first bin of each begins, and how wide bins are [u].
    factors
        In the middle of each bin, before the first and after the last [u, bins + 2]; in between they are drawn
        straight.
    size
        Width of the site.
    dictionary
        Of whose codes the units are; of the site's coordinates where None.
    """

    units: Int[Tensor, "u"]
    low: Float[Tensor, "u"]
    step: Float[Tensor, "u"]
    factors: Float[Tensor, "u bins_plus_2"]
    size: int
    dictionary: Dictionary | None = None

    @property
    def width(self) -> int:
        return self.size

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        wide = h.to(torch.promote_types(h.dtype, torch.float32))
        if self.dictionary is None:
            values = wide[..., self.units]
            return wide.index_copy(-1, self.units, values * self._factor(values)).to(h.dtype)
        codes = self.dictionary.encode(wide.flatten(0, -2)).to(wide)[:, self.units].unflatten(0, h.shape[:-1])
        directions = self.dictionary.directions.to(wide)[self.units]
        return (wide + (codes * (self._factor(codes) - 1)) @ directions).to(h.dtype)

    def _factor(self, values: Float[Tensor, "*tokens u"]) -> Float[Tensor, "*tokens u"]:
        last = self.factors.shape[1] - 1
        place = ((values - self.low) / self.step + 0.5).clamp(0, last)
        below = place.detach().floor().long().clamp(max=last - 1)
        row = torch.arange(len(self.units), device=values.device)
        left, right = (self.factors.to(values.dtype)[row, index] for index in (below, below + 1))
        return left + (place - below) * (right - left)


def attenuate(
    site: str | Site,
    densities: Densities,
    concept: int,
    units: Sequence[int],
    *,
    width: int,
    dictionary: Dictionary | None = None,
    **others: Any,
) -> Attenuate:
    """APP: each unit times the probability that its value came from another concept than `concept`.

    All concepts are as likely; beyond the values that were seen, nothing is known but that.

    Parameters
    ----------
    densities
        How the values of all units are distributed in each concept.
    concept
        Number of the concept.
    units
        Numbers of the units to attenuate.
    width
        Width of the site.
    others
        `position`, `gate` and the like, as of every edit.
    """
    chosen = _chosen(units, densities)
    known, even = 1 - densities.posterior(concept)[chosen], 1 - 1 / len(densities.shares)
    factors = np.pad(known, ((0, 0), (1, 1)), constant_values=even)
    return _made(site, chosen, densities.low[chosen], densities.step[chosen], factors, width, dictionary, others)


def mask_units(
    site: str | Site, units: Sequence[int], *, width: int, dictionary: Dictionary | None = None, **others: Any
) -> Attenuate:
    """Set units to zero, whatever their value."""
    chosen = np.asarray(units, dtype=np.int64)
    even = np.zeros(len(chosen))
    return _made(site, chosen, even, even + 1, np.zeros((len(chosen), 3)), width, dictionary, others)


def mask_range(
    site: str | Site,
    values: Float[np.ndarray, "n m"],
    units: Sequence[int],
    *,
    width: int,
    dictionary: Dictionary | None = None,
    **others: Any,
) -> Attenuate:
    """Set units to zero where they lie within 2.5 standard deviations of their mean among `values` of the concept."""
    chosen = np.asarray(units, dtype=np.int64)
    own = values[:, chosen]
    reach = SPREAD * own.std(0) + 1e-12
    factors = np.zeros((len(chosen), BINS + 2))
    factors[:, [0, -1]] = 1
    return _made(site, chosen, own.mean(0) - reach, 2 * reach / BINS, factors, width, dictionary, others)


def _chosen(units: Sequence[int], densities: Densities) -> Int[np.ndarray, "u"]:
    chosen = np.asarray(units, dtype=np.int64)
    count = len(densities.low)
    if chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() >= count:
        raise CovecError(f"units are numbers from 0 to {count - 1}, one at least, not {str(list(units))[:50]}")
    return chosen


def _made(
    site: str | Site,
    units: np.ndarray,
    low: np.ndarray,
    step: np.ndarray,
    factors: np.ndarray,
    width: int,
    dictionary: Dictionary | None,
    others: dict[str, Any],
) -> Attenuate:
    return Attenuate(
        site=Site.parse(site),
        units=torch.from_numpy(units),
        low=torch.from_numpy(low).float(),
        step=torch.from_numpy(step).float(),
        factors=torch.from_numpy(factors).float(),
        size=width,
        dictionary=dictionary,
        **others,
    )
