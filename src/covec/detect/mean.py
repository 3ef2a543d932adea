"""The mean over the tokens: what a vector read at `mean` was made for."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from covec.detect._aggregator import Aggregator, ranges
from covec.registry import method


@method("mean", verb="detect")
class Mean(Aggregator):
    """The mean score of the content; scores are linear, so it is the score of the mean activation."""

    read = "content/mean"

    def aggregate(
        self, scores: Float[np.ndarray, "tokens"], offsets: Int[np.ndarray, "n_plus_1"]
    ) -> Float[np.ndarray, "n"]:
        values, bounds = ranges(scores, offsets)
        return np.add.reduceat(values, bounds[:-1]) / np.diff(bounds)
