"""A grid of scales at which the concept follows the scale, or does not; the perplexity rises with it either way."""

from __future__ import annotations

from typing import Any

import numpy as np

from covec.checks._trial import Trial

SCALES = np.linspace(-2, 2, 9)


def trial(there: bool, seed: int) -> Trial:
    """Effects along a hyperbolic tangent with noise, or noise alone."""
    noise = 0.03 * np.random.default_rng(seed).standard_normal(len(SCALES))
    effects = 0.5 + 0.4 * np.tanh(SCALES) * there + noise
    perplexities = 20 * np.exp(0.3 * SCALES**2)
    wrong: dict[str, dict[str, Any]] = {
        "no zero": {"scales": SCALES + 0.1},
        "a scale twice": {"scales": np.where(SCALES == 2, 1.5, SCALES)},
        "too few": {"scales": SCALES[3:6], "effects": effects[3:6], "perplexities": perplexities[3:6]},
        "not one of each": {"effects": effects[:-1]},
        "no number": {"effects": effects * np.nan},
        "no perplexity": {"perplexities": perplexities * 0},
        "beyond all fluency": {"perplexities": perplexities * 1000},
    }
    return Trial({"scales": SCALES, "effects": effects, "perplexities": perplexities, "seed": seed}, wrong)
