"""The exact permutation test of the whole selection: every finder refitted under permuted labels."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from covec.progress import Progress
from covec.statistics.permutation import permuted_labels
from covec.studies import _sweep as sweeping
from covec.studies._holdout import Found
from covec.studies._settings import Settings
from covec.studies._sweep import Data


def exact_p(data: Data, found: Found, settings: Settings, progress: Progress) -> tuple[float, str]:
    """The maximum validation AUROC over all cells and finders against refits under permuted labels, and a note."""
    train, validation = found.train, found.validation
    rows = np.concatenate([train, validation])
    count = settings.exact_permutations or 0
    rng = np.random.default_rng(settings.seed)
    shuffled = permuted_labels(data.labels[rows], count, groups=data.groups(rows), pairs=data.pairs(rows), rng=rng)

    def highest(labels: np.ndarray) -> float:
        moved = data.labels.copy()
        moved[rows] = labels
        permuted = replace(data, examples=replace(data.examples, labels=moved))
        ones = sweeping.sweep(permuted, train, validation, settings.sites, settings.positions, settings.finders)
        return max(one.auroc for one in ones)

    begun = time.monotonic()
    observed = highest(data.labels[rows])
    minutes = count * (time.monotonic() - begun) / 60
    maxima = []
    with progress(f"refitting under {count} permutations, about {minutes:.0f} min", count) as bar:
        for labels in shuffled:
            maxima.append(highest(labels))
            bar.advance()
    p = (1 + sum(value >= observed - 1e-12 for value in maxima)) / (1 + count)
    return p, f"p_sweep from {count} full refits ({time.monotonic() - begun:.0f} s)"
