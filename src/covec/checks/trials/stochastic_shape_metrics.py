"""Noisy networks with the same mean responses: one the other turned about, or one with noise of another shape."""

from __future__ import annotations

from typing import Any

import torch

from covec.checks._trial import Trial

STIMULI, REPEATS, UNITS = 8, 60, 4


def trial(there: bool, seed: int) -> Trial:
    """Round noise and drawn-out noise of the same size, and two copies with noise of their own."""
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(STIMULI, 1, UNITS, generator=generator)
    turn = torch.linalg.qr(torch.randn(UNITS, UNITS, generator=generator)).Q
    noise = torch.randn(2, STIMULI, REPEATS, UNITS, generator=generator)
    spread = torch.tensor([1.9, 0.3, 0.3, 0.3]) if there else torch.ones(UNITS)
    one, other = means + noise[0], (means + noise[1] * spread) @ turn
    wrong: dict[str, dict[str, Any]] = {
        "other stimuli": {"other": other[1:]},
        "three stimuli": {"one": one[:3], "other": other[:3]},
        "no repeats": {"one": one[:, :1]},
        "no more repeats than units": {"one": one[:, :UNITS]},
        "rows without repeats": {"one": one[:, 0]},
        "no number": {"other": torch.full_like(other, torch.nan)},
        "an alpha that is none": {"alpha": 3.0},
        "a group that is none": {"group": "affine"},
    }
    return Trial({"one": one, "other": other, "restarts": 0, "nulls": 2, "seed": seed}, wrong)
