"""Two toys in which a concept is equally decodable: later layers read it in one, in the other none does."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from covec.checks._trial import Trial
from covec.concepts.vector import ConceptVector
from covec.find.mean_difference import MeanDifference
from covec.measure._readout import Continuation
from covec.measure.used import NullVectors
from covec.statistics.permutation import permuted_labels
from covec.worlds.toys import BAD, GOOD, Toy, toy

SITE = "resid.0"  # after which the toy that reads the direction reads it


@lru_cache(maxsize=16)
def _world(there: bool, seed: int) -> Toy:
    return toy(seed, read=there)


def trial(there: bool, seed: int) -> Trial:
    """The vector of good words, what may follow, and vectors of shuffled labels."""
    made = _world(there, seed)
    inputs, labels = list(made.examples.inputs), made.examples.labels
    rows = made.model.capture(inputs, SITE, "last")[SITE]
    found = MeanDifference().fit(rows, labels)
    means = found.mean_positive_, found.mean_negative_
    vector = ConceptVector.from_direction("good words", SITE, found.direction_, *means, model=made.model.describe())
    shuffled = permuted_labels(labels, 19, rng=np.random.default_rng(seed))
    norm = float(vector.parts[vector.site].write.norm())
    given = {
        "model": made.model,
        "vector": vector,
        "prompts": made.neutral[:16],
        "neutral": made.neutral[16:32],
        "positives": inputs[:16],
        "negatives": inputs[-16:],
        "continuations": [Continuation(word, word in GOOD) for word in (*GOOD, *BAD)],
        "nulls": NullVectors.of_labels(rows, shuffled, labels, norm),
        "seed": seed,
    }
    wrong: dict[str, dict[str, Any]] = {
        "no prompts": {"prompts": []},
        "continuations of one class": {"continuations": [Continuation(word, True) for word in GOOD]},
    }
    return Trial(given, wrong)
