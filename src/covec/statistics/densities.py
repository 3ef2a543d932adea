"""How values are distributed in several groups, as histograms with shared edges, and how far the groups lie apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.ndimage import gaussian_filter1d

BINS = 64
_SMOOTH = 1.0  # standard deviation of the smoothing, in bins
_FLOOR = 1e-6  # added to every share, so that no logarithm is of zero
_AT_ONCE = 2**22  # values that are sorted into bins at a time


@dataclass(frozen=True, eq=False)
class Densities:
    """Distributions of the values of m units in each of k groups.

    Parameters
    ----------
    low, step
        Lower edge of each unit's first bin, and the width of its bins [m].
    shares
        Share of a group's values in each bin [k, m, bins + 1], smoothed; the last bin holds exact zeros alone, such as
        the codes of a sparse unit that does not fire.
    """

    low: Float[np.ndarray, "m"]
    step: Float[np.ndarray, "m"]
    shares: Float[np.ndarray, "k m bins_plus_1"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "n m"], groups: Int[np.ndarray, "n"], bins: int = BINS) -> Densities:
        """The distributions of `values` in the groups 0 to k - 1, each of which has a row."""
        count, (n, m) = int(groups.max()) + 1, values.shape
        plain = np.where(values == 0, np.nan, values)
        never = np.isnan(plain).all(0)  # a unit that never fires
        plain[:, never] = 0
        low, high = np.nanmin(plain, 0), np.nanmax(plain, 0)
        step = np.where(high > low, (high - low) / bins, 1.0)
        counts = np.zeros(count * m * (bins + 1))
        rows = max(1, _AT_ONCE // m)
        for start in range(0, n, rows):
            part, group = values[start : start + rows], groups[start : start + rows, None]
            place = np.clip((part - low) / step, 0, bins - 1).astype(np.int64)
            place[part == 0] = bins
            cell = (group * m + np.arange(m)) * (bins + 1) + place
            counts += np.bincount(cell.ravel(), minlength=len(counts))
        shares = counts.reshape(count, m, bins + 1) / np.bincount(groups, minlength=count)[:, None, None]
        shares[..., :bins] = gaussian_filter1d(shares[..., :bins], _SMOOTH, axis=2, mode="reflect")
        shares += _FLOOR
        return cls(low, step, shares / shares.sum(2, keepdims=True))

    def distance(self) -> Float[np.ndarray, "m"]:
        """Jensen-Shannon distance of the groups, unit by unit: 0 where they are alike, 1 where none overlaps."""
        return jensen_shannon(self.shares)

    def against_rest(self) -> Float[np.ndarray, "k m"]:
        """Jensen-Shannon distance of each group from the mean of the others."""
        total, others = self.shares.sum(0), len(self.shares) - 1
        return np.stack([jensen_shannon(np.stack([own, (total - own) / others])) for own in self.shares])

    def posterior(self, group: int) -> Float[np.ndarray, "m bins"]:
        """How likely a value in each bin came from `group`, all groups being as likely; exact zeros left out."""
        chances: np.ndarray = self.shares[group] / self.shares.sum(0)
        return chances[:, :-1]


def jensen_shannon(shares: Float[np.ndarray, "k *m bins"]) -> Float[np.ndarray, "*m"]:
    """Square root of the Jensen-Shannon divergence of k distributions, over what k disjoint ones have."""
    divergence = _entropy(shares.mean(0)) - _entropy(shares).mean(0)
    distance: np.ndarray = np.sqrt(np.clip(divergence, 0, None) / np.log2(len(shares)))
    return distance


def _entropy(shares: Float[np.ndarray, "*m bins"]) -> Float[np.ndarray, "*m"]:
    bits: np.ndarray = -(shares * np.log2(shares, where=shares > 0, out=np.zeros_like(shares))).sum(-1)
    return bits
