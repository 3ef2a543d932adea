"""The maximum over the tokens: a concept is in a text where one token shows it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from covec.detect._aggregator import Aggregator, ranges
from covec.registry import method


@method("max", verb="detect")
class Max(Aggregator):
    """The highest score of the content. It grows with the length of a text: compare texts of similar length."""

    read = "content/max"

    def aggregate(
        self, scores: Float[np.ndarray, "tokens"], offsets: Int[np.ndarray, "n_plus_1"]
    ) -> Float[np.ndarray, "n"]:
        values, bounds = ranges(scores, offsets)
        return np.maximum.reduceat(values, bounds[:-1])
