"""Difference of means: the oldest concept vector, and still the one that most papers steer with.

Konen et al., "Style Vectors for Steering Generative Large Language Models", arXiv:2402.01618, equation 3.
"""

from __future__ import annotations

from typing import Any, Self

from covec.find._finder import Finder
from covec.registry import method


@method(
    "mean-difference",
    verb="find",
    needs="moments",
    card="style-vectors",
    cannot={
        "hard direction found": "the loudest noise drowns the difference of the means; whitening is the mend",
        "loud dimension survived": "features are not standardised, as published: a loud dimension wins",
    },
)
class MeanDifference(Finder):
    """Difference of the class means: the direction from lacking a concept to having it."""

    closed_form = True

    def fit_moments(self, moments: Any) -> Self:
        self.direction_ = moments.mean(True) - moments.mean(False)
        return self
