"""A toy whose texts with good words are described as such, or by neutral texts, which show nothing of the vector."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from covec.checks._trial import Trial
from covec.concepts.examples import Examples
from covec.concepts.judges import ClassifierJudge
from covec.concepts.vector import ConceptVector
from covec.find.mean_difference import MeanDifference
from covec.worlds.toys import Toy, toy

SITE = "resid.0"


@lru_cache(maxsize=16)
def _world(seed: int) -> tuple[Toy, ClassifierJudge]:
    """A toy, and a judge that was trained on half of its texts."""
    made = toy(seed, read=True)
    good, bad = made.examples.positive[48:], made.examples.negative[48:]
    rest, others = made.neutral[64:], made.neutral[48:64]
    judge = ClassifierJudge(
        {
            "good": Examples.from_lists(good, [*bad, *rest], name="good"),
            "nothing": Examples.from_lists(rest, [*good, *bad], name="nothing"),
            "other": Examples.from_lists(others, rest, name="other"),
        }
    )
    return made, judge


def trial(there: bool, seed: int) -> Trial:
    """The vector of good words under its own description, or under that of nothing in particular."""
    made, judge = _world(seed)
    rows = made.model.capture(list(made.examples.inputs), SITE, "last")[SITE]
    found = MeanDifference().fit(rows, made.examples.labels)
    means = found.mean_positive_, found.mean_negative_
    vector = ConceptVector.from_direction("good words", SITE, found.direction_, *means, model=made.model.describe())
    order = np.random.default_rng(seed).permutation(48)
    neutral = [made.neutral[row] for row in order]
    given = {
        "model": made.model,
        "vector": vector,
        "description": "good" if there else "nothing",
        "shown": list(made.examples.positive[:24]) if there else neutral[:16],
        "control": neutral[16:32],
        "others": {"other": neutral[32:]},
        "judge": judge,
        "seed": seed,
    }
    wrong: dict[str, dict[str, Any]] = {
        "no description": {"description": " "},
        "one that the judge does not know": {"description": "strange"},
        "no texts that show it": {"shown": []},
        "no control": {"control": []},
        "nothing to compare with": {"others": {}},
        "another description without texts": {"others": {"other": []}},
    }
    return Trial(given, wrong)
