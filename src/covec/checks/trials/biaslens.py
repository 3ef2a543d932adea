"""Concepts of known directions: two references at right angles, and a target that leans to one or to neither."""

from __future__ import annotations

from typing import Any

import torch

from covec.checks._trial import Trial

TEXTS, WIDTH = 200, 24


def trial(there: bool, seed: int) -> Trial:
    """A target that is near the first reference, and one as far from both; codes are the features, split by sign."""
    generator = torch.Generator().manual_seed(seed)
    axes = torch.eye(3, WIDTH)

    def texts(direction: torch.Tensor) -> torch.Tensor:
        return torch.randn(TEXTS, WIDTH, generator=generator) + 4 * direction

    own = axes[2] + 0.7 * axes[0] if there else axes[2] + 0.5 * (axes[0] + axes[1])
    given = {
        "targets": {"target": texts(own / own.norm())},
        "first": texts(axes[0]),
        "second": texts(axes[1]),
        "others": texts(0 * own),
        "encode": lambda rows: torch.cat([rows.relu(), (-rows).relu()], 1),
        "permutations": 9,
        "draws": 3,
        "seed": seed,
    }
    wrong: dict[str, dict[str, Any]] = {
        "no target": {"targets": {}},
        "a target of another width": {"targets": {"target": torch.ones(TEXTS, WIDTH + 1)}},
        "nine texts": {"first": torch.eye(9, WIDTH)},
        "no number": {"second": torch.full((TEXTS, WIDTH), torch.nan)},
        "codes that never change": {"encode": lambda rows: 0 * rows},
        "a name that is taken": {"targets": {"other texts": torch.ones(TEXTS, WIDTH)}},
    }
    return Trial(given, wrong)
