"""Several concepts at once: what others find is judged on texts that they were not fitted on."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from covec.activations.rows import Activations
from covec.concepts.examples import Examples
from covec.models.positions import Position
from covec.models.sites import Site
from covec.statistics.splits import deal
from covec.studies._several import wrong_concepts
from covec.studies._sweep import Data

SITE, POSITION = Site("resid", 0), Position.parse("last")


def classes_of_noise(seed, rows=90, width=40):
    """Three classes of the same texts, each against the rest, and activations that know nothing of them."""
    rng = np.random.default_rng(seed)
    texts, activations = tuple(f"text {seed} {row}" for row in range(rows)), torch.randn(rows, width)
    classes = rng.permutation(np.arange(rows) % 3)
    cell = {POSITION: Activations({SITE: activations}, POSITION)}
    return {str(one): Data(Examples(texts, classes == one, name=str(one)), cell) for one in range(3)}


def judged(data, regime):
    fold = deal(data.examples.units, data.labels)
    rows = np.argsort(fold, kind="stable") if regime == "nested" else np.flatnonzero(fold == 0)
    folds = fold[rows].tolist() if regime == "nested" else None
    test = SimpleNamespace(labels=data.labels[rows], groups=None, folds=folds)
    return SimpleNamespace(winner=SimpleNamespace(site=SITE, position=POSITION), test_rows=rows, test=test)


@pytest.mark.parametrize("regime", ["holdout", "nested"])
def test_the_other_classes_of_noise_are_at_chance(regime):
    """Whoever is of one class is not of the others: fitted on the test rows, these would be far below chance."""
    torch.manual_seed(0)
    values = []
    for seed in range(20):
        concepts = classes_of_noise(seed)
        found = wrong_concepts(concepts["0"], judged(concepts["0"], regime), concepts, seed=0)
        assert list(found) == ["1", "2"]
        values += [figure.value for figure in found.values()]
    assert np.mean(values) == pytest.approx(0.5, abs=0.06)


def test_a_concept_of_test_texts_alone_is_left_out():
    concepts = classes_of_noise(0)
    data = concepts["0"]
    found = judged(data, "holdout")
    keys = [data.examples.inputs[row] for row in found.test_rows]
    labels = np.arange(len(keys)) % 2 == 0
    same = Data(Examples(tuple(keys), labels, name="same"), {POSITION: data.activations[POSITION]})
    assert wrong_concepts(data, found, {"0": data, "same": same}, seed=0) == {}
