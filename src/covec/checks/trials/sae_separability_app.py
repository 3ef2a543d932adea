"""Units that fire for one concept each, or for none."""

from __future__ import annotations

from typing import Any

import numpy as np

from covec.checks._trial import Trial

ROWS, UNITS, CONCEPTS = 120, 24, 4


def trial(there: bool, seed: int) -> Trial:
    """Sparse units of which a third follow the concepts, and units that follow nothing."""
    rng = np.random.default_rng(seed)
    concepts = np.arange(ROWS) % CONCEPTS
    values = rng.exponential(size=(ROWS, UNITS)) * (rng.random((ROWS, UNITS)) < 0.3)
    for unit in range(8 if there else 0):
        values[concepts == unit % CONCEPTS, unit] += 2
    wrong: dict[str, dict[str, Any]] = {
        "one concept": {"concepts": ["one"] * ROWS},
        "a concept of three rows": {"concepts": ["few"] * 3 + ["many"] * (ROWS - 3)},
        "fewer concepts than rows": {"concepts": concepts.tolist()[1:]},
        "no number": {"values": np.full_like(values, np.nan)},
        "a single row": {"values": values[0]},
        "more of the best than there are": {"top": UNITS + 1},
    }
    return Trial({"values": values, "concepts": concepts.tolist(), "top": 2, "seed": seed}, wrong)
