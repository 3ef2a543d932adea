"""The perplexity-normalised effect (PNE): what guidance does to a concept, where it has not cost the model its fluency.

von Rütte et al., "A Language Model's Guide Through Latent Space", arXiv:2402.14433, section on the metric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import curve_fit

from covec.errors import ExamplesError
from covec.registry import method
from covec.statistics.figure import Figure

MOST = 2000.0  # a perplexity beyond which a point says nothing
SHUFFLES = 19


@dataclass(frozen=True)
class Curve:
    """y(s) = (tanh(a s) + c) / exp(b s^2), fitted to effects that are divided by the rise of the perplexity.

    `r2` is the share of the variance of the points that it explains; `ends` are its highest and lowest place.
    """

    a: float
    b: float
    c: float
    r2: float
    scales: tuple[float, float]

    def __call__(self, scales: ArrayLike) -> Float[np.ndarray, "m"]:
        """Its values."""
        return _shape(np.asarray(scales, dtype=float), self.a, self.b, self.c)

    @property
    def range(self) -> float:
        """From its lowest to its highest value between the ends of the grid."""
        values = self(np.linspace(*self.scales, 1001))
        return float(values.max() - values.min())


@method("perplexity-normalised-effect", verb="measure", card="concept-guidance")
def perplexity_normalised_effect(
    scales: ArrayLike, effects: ArrayLike, perplexities: ArrayLike, *, seed: int = 0
) -> Figure:
    """PNE of a grid of guidance scales; the null is the mean over effects that are shuffled among the scales.

    Parameters
    ----------
    scales
        Strengths [m], both signs and 0 among them.
    effects
        Mean score of the concept, from 0 to 1, in what is written at each scale [m].
    perplexities
        Perplexity of the guided model on texts of people, at each scale [m].
    seed
        Of the shuffles.

    Raises
    ------
    ExamplesError
        There are not five different scales or more with 0 among them, shapes differ, or a number is not finite.
    """
    s, e, p = _checked(scales, effects, perplexities)
    found, rng = _fitted(s, e, p), np.random.default_rng(seed)
    shuffled = [_fitted(s, rng.permutation(e), p).range for _ in range(SHUFFLES)]
    how = f"range of the fitted curve, r2 {found.r2:.2f}; null: effects shuffled among the scales"
    return Figure(found.range, null=float(np.mean(shuffled)), n=len(s), how=how)


def curve(scales: ArrayLike, effects: ArrayLike, perplexities: ArrayLike) -> Curve:
    """The curve behind the measure, with the same arguments."""
    return _fitted(*_checked(scales, effects, perplexities))


def _checked(*given: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    s, e, p = (np.asarray(one, dtype=float).ravel() for one in given)
    if not len(s) == len(e) == len(p):
        raise ExamplesError(f"{len(s)} scales, {len(e)} effects and {len(p)} perplexities: give one of each a scale")
    if not all(np.isfinite(one).all() for one in (s, e, p)) or (p <= 0).any():
        raise ExamplesError("scales, effects and perplexities must be finite, and perplexities above 0")
    if len(np.unique(s)) < max(5, len(s)) or not (s == 0).any():
        raise ExamplesError("give five different scales at least, with 0 among them")
    if (p < MOST).sum() < 4 or p[s == 0][0] >= MOST:
        raise ExamplesError(f"the perplexity is above {MOST:g} at almost all scales: give smaller ones")
    return s, e, p


def _fitted(s: np.ndarray, e: np.ndarray, p: np.ndarray) -> Curve:
    at_zero = int(np.flatnonzero(s == 0)[0])
    ratio, size, near = p / p[at_zero], float(np.abs(s).max()), p < MOST
    x, logs = s / size, np.log(ratio)  # scales have no unit of their own
    b = max(0.0, float((logs[near] * x[near] ** 2).sum() / (x[near] ** 4).sum()))
    y = (e - e[at_zero]) / ratio

    def shape(at: np.ndarray, a: float, c: float) -> np.ndarray:
        return _shape(at, a, b, c)

    slope = float((x * y).sum() / (x * x).sum())
    (a, c), _ = curve_fit(shape, x, y, p0=(slope, 0.0), bounds=([-50, -2], [50, 2]))
    left = float(((y - shape(x, a, c)) ** 2).sum()) / max(float(((y - y.mean()) ** 2).sum()), np.finfo(float).tiny)
    return Curve(float(a) / size, b / size**2, float(c), 1 - left, (float(s.min()), float(s.max())))


def _shape(s: np.ndarray, a: float, b: float, c: float) -> Float[np.ndarray, "m"]:
    return (np.tanh(a * s) + c) / np.exp(np.minimum(b * s * s, 700))
