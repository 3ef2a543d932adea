"""Clusters that a fine-tuning moves: each its own way, or all of them alike."""

from __future__ import annotations

from typing import Any

import torch

from covec.checks._trial import Trial

CONCEPTS, ROWS, WIDTH = 6, 40, 24


def trial(there: bool, seed: int) -> Trial:
    """Shifts of each concept, and one shift of all."""
    generator = torch.Generator().manual_seed(seed)
    centres, own = torch.randn(2, CONCEPTS, WIDTH, generator=generator)
    before = (4 * centres).repeat_interleave(ROWS, 0) + torch.randn(CONCEPTS * ROWS, WIDTH, generator=generator)
    shifts = 3 * (own if there else own[:1].expand_as(own))
    after = before + shifts.repeat_interleave(ROWS, 0) + 0.3 * torch.randn(before.shape, generator=generator)
    wrong: dict[str, dict[str, Any]] = {
        "fewer rows of one model": {"after": after[:-1]},
        "another width": {"after": after[:, 1:]},
        "one concept": {"concepts": 1},
        "hardly a row a concept": {"concepts": 100},
        "no number": {"after": torch.full_like(after, torch.nan)},
        "nothing changed": {"after": before},
    }
    return Trial({"before": before, "after": after, "concepts": CONCEPTS, "seed": seed}, wrong)
