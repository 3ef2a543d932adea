"""Rows in which the classes differ along a planted direction, or do not differ."""

from __future__ import annotations

from typing import Any

import torch

from covec.checks._trial import Trial
from covec.checks.planted import draw
from covec.find.mean_difference import MeanDifference


def trial(there: bool, seed: int) -> Trial:
    """A concept that other examples would show again, and labels without one."""
    world = draw(120, 24, effect=3.0 * there, seed=seed, shared=0.0)
    given = {"finder": MeanDifference, "rows": world.X, "labels": world.y, "units": list(range(120)), "seed": seed}
    wrong: dict[str, dict[str, Any]] = {
        "one class": {"labels": world.y | True},
        "fewer labels than rows": {"labels": world.y[:-1]},
        "a row that is no number": {"rows": torch.full_like(world.X, torch.nan)},
    }
    return Trial(given, wrong)
