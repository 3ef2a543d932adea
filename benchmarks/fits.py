"""Logistic fits, 7 ridges x 5 folds at several sites, against a loop of scikit-learn fits on the same folds.

Usage: python benchmarks/fits.py [SITES]   (CPU time on one thread, interleaved site by site; medians)
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from covec.find._rows import Rows
from covec.find.logistic import RIDGES, Logistic
from covec.statistics.auroc import auroc


def main(sites: int) -> None:
    """Assert that the chosen ridge is as good as the loop's best, then print the ratio of times."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    labels = np.arange(480) % 2 == 0
    mixing = rng.normal(size=(576, 576)) * np.arange(1, 577) ** -0.5
    ratios = []
    for _ in range(sites):
        rows = rng.normal(size=(480, 576)) @ mixing
        rows[labels] += 0.3 * rng.normal(size=576)
        cell = torch.from_numpy(rows).float()
        own, found = _timed(lambda cell=cell: Logistic().fit_many(cell[None], labels))
        loop, areas = _timed(lambda cell=cell: _loop(cell, labels))
        chosen = int(np.argmin(np.abs(np.log(RIDGES) - np.log(float(found.details["ridge"][0])))))
        assert max(areas) - areas[chosen] < 0.01, areas
        ratios.append(loop / own)
    print(f"scikit-learn loop / covec: median {np.median(ratios):.1f}, from {min(ratios):.1f} to {max(ratios):.1f}")


def _timed(run):
    begun = time.process_time()
    found = run()
    return time.process_time() - begun, found


def _loop(cell, labels):
    folds = Rows(cell, labels).folds().numpy()
    standard = StandardScaler().fit_transform(cell.numpy())
    areas = []
    for ridge in RIDGES:
        outputs = np.empty(len(labels))
        for fold in range(5):
            peer = LogisticRegression(C=1 / (len(labels) * ridge), max_iter=1000)
            peer.fit(standard[folds != fold], labels[folds != fold])
            outputs[folds == fold] = peer.decision_function(standard[folds == fold])
        areas.append(float(auroc(outputs, labels)))
    return areas


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
