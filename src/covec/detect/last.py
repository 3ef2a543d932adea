"""The score of the last token: what a vector read at `last` was made for."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from covec.detect._aggregator import Aggregator, ranges
from covec.registry import method


@method("last", verb="detect")
class Last(Aggregator):
    """The last token's score, special or not; the same as the read position `last/none`."""

    read = "last/none"

    def aggregate(
        self, scores: Float[np.ndarray, "tokens"], offsets: Int[np.ndarray, "n_plus_1"]
    ) -> Float[np.ndarray, "n"]:
        values, bounds = ranges(scores, offsets)
        return values[bounds[1:] - 1]
