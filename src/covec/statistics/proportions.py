"""Closed-form intervals of proportions, and of the paired difference of any two estimates."""

from __future__ import annotations

from math import sqrt

from scipy.stats import norm

Z = float(norm.ppf(0.975))


def wilson(share: float, n: int) -> tuple[float, float]:
    """95% score interval of a proportion that was `share` of `n` rows (Wilson 1927)."""
    middle = share + Z**2 / (2 * n)
    spread = Z * sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return max(0.0, (middle - spread) / (1 + Z**2 / n)), min(1.0, (middle + spread) / (1 + Z**2 / n))


def difference_interval(
    first: tuple[float, float, float], second: tuple[float, float, float], correlation: float
) -> tuple[float, float]:
    """95% interval of `first - second`, each `(value, low, high)`, from their own intervals and correlation.

    Unlike value +- 1.96 standard errors it keeps the lopsidedness of the two intervals, and so has a width where an
    estimate sits at its bound. For two proportions it is Newcombe's method 10.

    References
    ----------
    Zou and Donner, Construction of confidence limits about effect measures, Statistics in Medicine 27 (2008).
    """
    (a, a_low, a_high), (b, b_low, b_high) = first, second

    def reach(x: float, y: float) -> float:
        return sqrt(max(0.0, x**2 + y**2 - 2 * correlation * x * y))

    return a - b - reach(a - a_low, b_high - b), a - b + reach(a_high - a, b - b_low)
