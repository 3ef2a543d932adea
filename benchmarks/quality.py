"""Accuracy of the study's selection on concept files, beside a standardised logistic probe chosen on validation.

Usage: python benchmarks/quality.py FILE [FILE ...]   (text,label files as `covec study` takes them)

Both see the same activations, splits and sites. The probe is scikit-learn's logistic regression on standardised
features with its default strength, its site and position chosen by validation AUROC, its threshold at 0.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import covec
from covec.activations.capture import capture_tokens
from covec.concepts.examples import read_concepts
from covec.statistics.splits import split
from covec.studies import _sweep as sweeping
from covec.studies._holdout import fitted, out_of_fold_threshold
from covec.studies._settings import check_settings
from covec.studies._sweep import Data

SEEDS = range(5)


def main(files: list[str]) -> None:
    """Print a row a file: mean test accuracy over split seeds, of the study and of the probe."""
    model = covec.load("smollm2-135m")
    means = []
    for file in files:
        (name, examples), *_ = read_concepts(Path(file)).items()
        settings = check_settings(
            model, {name: examples}, sites="resid.*", finders=None, position="last,mean", continuations=None,
            split_seed=0, seed=0, quick=False, nulls=19, exact_permutations=None, batch_tokens=512,
        )  # fmt: skip
        rows = capture_tokens(model, model.tokenize(examples.inputs), settings.sites, settings.positions)
        data = Data(examples, rows)
        both = np.array([(_study(model, data, settings, seed), _probe(data, settings, seed)) for seed in SEEDS])
        means.append(both.mean(0))
        print(f"{name:<20} study {means[-1][0]:.3f}  probe {means[-1][1]:.3f}", both[:, 0].round(3), flush=True)
    print(f"{'mean':<20} study {np.mean(means, 0)[0]:.3f}  probe {np.mean(means, 0)[1]:.3f}")


def _split(data, seed):
    one = data.examples
    return split(one.keys, one.labels, groups=one.groups, pairs=one.pairs, fixed=one.splits, seed=seed)


def _study(model, data, settings, seed) -> float:
    parts = _split(data, seed)
    candidates = sweeping.sweep(
        data, parts.train, parts.validation, settings.sites, settings.positions, settings.finders
    )
    winner = sweeping.best(candidates, lambda one: 0)
    vector = fitted(model, data, winner, np.concatenate([parts.train, parts.validation]), settings)
    threshold = out_of_fold_threshold(model, data, winner, np.concatenate([parts.train, parts.validation]), settings)
    scores = vector.score(data.at(winner.site, winner.position, parts.test)).numpy()
    return float(((scores > threshold) == data.labels[parts.test]).mean())


def _probe(data, settings, seed) -> float:
    parts = _split(data, seed)
    best, chosen = -1.0, None
    for position in settings.positions:
        for site in settings.sites:
            train = data.at(site, position, parts.train).numpy()
            probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
            probe.fit(train, data.labels[parts.train])
            unseen = data.at(site, position, parts.validation).numpy()
            area = roc_auc_score(data.labels[parts.validation], probe.decision_function(unseen))
            if area > best:
                best, chosen = area, (probe, site, position)
    probe, site, position = chosen
    return float((probe.predict(data.at(site, position, parts.test).numpy()) == data.labels[parts.test]).mean())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
