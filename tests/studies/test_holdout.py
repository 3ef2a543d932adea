"""The threshold of a study with enough data comes from all rows that are not test rows."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from covec.activations.rows import Activations
from covec.concepts.examples import Examples
from covec.find.mean_difference import MeanDifference
from covec.models.positions import Position
from covec.models.sites import Site
from covec.statistics.auroc import best_threshold
from covec.statistics.splits import folds
from covec.studies._holdout import fitted, out_of_fold_threshold
from covec.studies._sweep import Candidate, Data

SITE, LAST = Site("resid", 0), Position("last")
WINNER = Candidate(SITE, LAST, "mean-difference", np.zeros(1), 1.0, 1.0)
SETTINGS = SimpleNamespace(finders={"mean-difference": MeanDifference}, seed=0, split_seed=0)
MODEL = SimpleNamespace(describe=lambda: {"name": "none", "width": 20})


def gaussian(seed, rows=300, gap=1.5, groups=None):
    """Two classes of equal spread, so that the best threshold is halfway, at a score of 0."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % 2 == 0
    points = rng.normal(size=(rows, 20))
    points[labels, 0] += gap
    examples = Examples(tuple(f"text {row}" for row in range(rows)), labels, groups=groups)
    return Data(examples, {LAST: Activations({SITE: torch.from_numpy(points).float()}, LAST)})


def test_it_is_the_best_on_scores_of_rows_that_were_left_out():
    data, rows = gaussian(0), np.arange(40, 280)
    scores = np.empty(len(rows))
    for known, unseen in folds(data.units(rows), data.labels[rows], k=5, seed=0):
        scores[unseen] = fitted(MODEL, data, WINNER, rows[known], SETTINGS).score(data.at(SITE, LAST, rows[unseen]))
    found = out_of_fold_threshold(MODEL, data, WINNER, rows, SETTINGS)
    assert found == pytest.approx(best_threshold(scores, data.labels[rows]))


def test_it_is_surer_than_that_of_a_quarter_of_the_rows():
    whole, part = [], []
    for seed in range(20):
        data, rows = gaussian(seed), np.arange(240)
        whole.append(out_of_fold_threshold(MODEL, data, WINNER, rows, SETTINGS))
        vector = fitted(MODEL, data, WINNER, rows[:180], SETTINGS)
        part.append(best_threshold(vector.score(data.at(SITE, LAST, rows[180:])), data.labels[rows[180:]]))
    assert np.std(whole) < np.std(part)
    assert np.mean(whole) == pytest.approx(0.0, abs=0.15)


def test_where_a_class_is_of_one_piece_it_is_the_midpoint():
    groups = tuple("one" if row % 2 == 0 else f"other {row}" for row in range(60))
    data = gaussian(0, rows=60, groups=groups)
    assert out_of_fold_threshold(MODEL, data, WINNER, np.arange(60), SETTINGS) == 0.0
