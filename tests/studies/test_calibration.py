"""Labels without meaning, on real text and a real model: found significant no more often than the level allows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from covec.activations.capture import capture_tokens
from covec.concepts.packaged import example_concept
from covec.statistics.permutation import p_test, permuted_labels
from covec.statistics.splits import split
from covec.studies import _holdout as holdout
from covec.studies import _sweep as sweeping
from covec.studies._settings import Settings, check_settings
from covec.studies._sweep import Data

RUNS, PERMUTATIONS = 200, 999


@pytest.fixture(scope="module")
def study(smol):
    """The activations of 160 sentences in 80 pairs at two heads (narrow, so that fits are quick), and the settings."""
    examples = example_concept()
    examples = examples.subset(range(0, 2 * len(examples) // 4))
    settings = check_settings(
        smol, {"sentiment": examples}, sites="head.4.0,head.8.0", finders="mean-difference,whitened-difference",
        position="last,mean", continuations=None, split_seed=0, seed=0, quick=True, nulls=19, exact_permutations=None,
        batch_tokens=512,
    )  # fmt: skip
    tokens = smol.tokenize(examples.inputs)
    return Data(examples, capture_tokens(smol, tokens, settings.sites, settings.positions)), settings


def p_values(smol, data: Data, settings: Settings, seed: int) -> tuple[float, float]:
    """`p_test` of the cell chosen on validation and fitted again, and `p_sweep` of its selection."""
    examples = data.examples
    parts = split(examples.keys, examples.labels, groups=examples.groups, pairs=examples.pairs, seed=seed)
    cells = (settings.sites, settings.positions)
    swept = sweeping.sweep(data, parts.train, parts.validation, *cells, settings.finders)
    winner = sweeping.best(swept, lambda _: 0.0)
    known = np.concatenate([parts.train, parts.validation])
    vector = holdout.fitted(smol, data, winner, known, settings)
    scores = vector.score(data.at(winner.site, winner.position, parts.test)).numpy()
    exchange = (data.labels[parts.test], data.groups(parts.test), data.pairs(parts.test))
    on_test = p_test(scores, *exchange, permutations=PERMUTATIONS, seed=seed)
    return on_test, sweeping.null(data, parts.train, parts.validation, *cells, seed).p_sweep


@pytest.mark.parametrize("paired", [True, False])
def test_shuffled_labels_are_significant_no_more_often_than_the_level_says(smol, study, paired):
    data, settings = study
    examples = data.examples if paired else replace(data.examples, pairs=None)
    rng = np.random.default_rng(0)
    shuffled = permuted_labels(examples.labels, RUNS // 2, pairs=examples.pairs, rng=rng)
    found = np.array(
        [
            p_values(smol, replace(data, examples=replace(examples, labels=labels)), settings, seed)
            for seed, labels in enumerate(shuffled)
        ]
    )
    for level in (0.05, 0.2):
        assert ((found <= level).sum(0) <= binom.ppf(0.99, len(found), level)).all(), (level, found)
    assert (found > 0.5).mean(0).min() > 0.3  # p-values are spread, not stuck at 1
