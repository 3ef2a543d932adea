"""Differences that share an axis beside large parts of their own, or have such parts alone."""

from __future__ import annotations

from typing import Any

import torch

from covec.checks._trial import Trial

ROWS, WIDTH = 60, 24


def trial(there: bool, seed: int) -> Trial:
    """An axis about as long as a tenth of the samples' own parts squared, or none."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(ROWS, WIDTH, generator=generator)
    rows[:, 0] += 3 * there
    wrong: dict[str, dict[str, Any]] = {
        "one difference": {"differences": rows[:1]},
        "a single vector": {"differences": rows[0]},
        "no number": {"differences": torch.full_like(rows, torch.nan)},
        "a difference of nothing": {"differences": rows * (torch.arange(ROWS) > 0)[:, None]},
        "three groups": {"groups": [row % 3 for row in range(ROWS)]},
        "too few groups": {"groups": list(range(ROWS - 1))},
    }
    return Trial({"differences": rows, "seed": seed}, wrong)
