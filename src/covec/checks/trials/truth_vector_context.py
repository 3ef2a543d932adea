"""Differences around one vector, which another condition turns by 60 degrees, or only measures again."""

from __future__ import annotations

from typing import Any

import torch

from covec.checks._trial import Trial
from covec.worlds.contexts import turned

PAIRS, WIDTH = 60, 24


def trial(there: bool, seed: int) -> Trial:
    """A context that turns the vector, and one that does nothing."""
    without, context = turned(PAIRS, WIDTH, degrees=60.0 * there, stretch=1.0, noise=0.5, seed=seed)
    wrong: dict[str, dict[str, Any]] = {
        "fewer pairs in one condition": {"context": context[:-1]},
        "three pairs": {"without": without[:3], "context": context[:3]},
        "a difference of zero": {"context": context * (torch.arange(PAIRS) > 0)[:, None]},
        "no number": {"context": torch.full_like(context, torch.nan)},
        "not a row a pair": {"without": without[0], "context": context[0]},
    }
    return Trial({"without": without, "context": context, "seed": seed}, wrong)
