"""Explanations whose bridge was read among other words, and explanations that name any of the bridges."""

from __future__ import annotations

from typing import Any

import numpy as np

from covec.checks._trial import Trial

NAMES = ["Ada", "Bertrand", "Cornelia", "Dimitri", "Eleonora", "Ferdinand", "Guinevere", "Hildebrand"]


def trial(there: bool, seed: int) -> Trial:
    """What was read names the bridge of each question; explanations claim it, or one drawn at random."""
    rng = np.random.default_rng(seed)
    bridges = rng.choice(NAMES, 400)
    claimed = bridges if there else rng.choice(NAMES, 400)
    given = {
        "interpretations": [("something else", f"it is {name.lower()}, I think") for name in bridges],
        "claimed": claimed.tolist(),
        "permutations": 20,
        "seed": seed,
    }
    wrong: dict[str, dict[str, Any]] = {
        "no question": {"interpretations": [], "claimed": []},
        "a bridge too few": {"claimed": claimed.tolist()[1:]},
        "an empty bridge": {"claimed": ["", *claimed.tolist()[1:]]},
        "a question that was not read": {"interpretations": [()] * 400},
        "a text in place of a list": {"interpretations": ["Ada"] * 400},
    }
    return Trial(given, wrong)
