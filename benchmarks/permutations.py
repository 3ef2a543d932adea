"""The race of nulls: permuted labels of a difference of means at all sites, and bootstrap intervals, against loops."""

from __future__ import annotations

from importlib.metadata import version
from math import sqrt

import numpy as np
from fits import ROWS, SITES, UNSEEN, drawn
from race import Heat, Local, Wanted, race
from scipy.special import expit, logit
from scipy.stats import t
from sklearn.metrics import roc_auc_score

from covec.statistics.auroc import auroc
from covec.statistics.bootstrap import cluster_bootstrap, weighted_auroc
from covec.statistics.permutation import Exchange
from covec.statistics.sweep import FINDERS, SweepNull

MANY, FEW = 1000, 30  # permutations, and those that a loop can do
DRAWS, GROUP, EVERY = 200, 2, 5  # resamples, rows that stay together, of so many sites one has its interval
ABOUT = f"""What the best of {SITES} sites is worth: the difference of means is found again on {ROWS} rows and judged on
{UNSEEN} others under every permutation of the labels. The loop fits one permutation at one site after the other and
takes its AUROC from scikit-learn; it is given the permuted labels, and a share of them, for {MANY:,} would take it
minutes. For the intervals groups of {GROUP} rows are drawn again {DRAWS} times."""


def main() -> None:
    """All permutations, as many as a loop can do, and intervals."""
    X, unseen, y, truth = drawn()
    X, unseen = X.double().numpy(), unseen.double().numpy()
    heats = [
        Heat(
            f"{MANY:,} permutations of a difference of means at all sites",
            [Local("covec", lambda: together(X, unseen, y, truth, MANY, FINDERS[:1]))],
            0,
            "Beside it, the same for that finder, the whitened difference and the best of seven ridges.",
            beside=[Local("covec, three finders", lambda: together(X, unseen, y, truth, MANY, FINDERS))],
            wanted=[Wanted("covec", at_most=2)],
            rounds=6,
        ),
        Heat(
            f"{FEW} permutations of a difference of means at all sites",
            [
                Local("covec", lambda: together(X, unseen, y, truth, FEW, FINDERS[:1])),
                Local("loop", lambda: one_by_one(X, unseen, y, truth, FEW)),
            ],
            1e-9,
            rounds=6,
        ),
        intervals(X, unseen, y, truth),
    ]
    race("permutations", "Permutations and intervals", ABOUT, heats, {"scikit-learn": version("scikit-learn")})


def together(X, unseen, y, truth, count, finders):
    """What covec's sweep says of the best site."""
    null = SweepNull(y, truth, permutations=count, finders=finders)
    for site, cell in enumerate(X):
        null.add(site, cell, unseen[site])
    found = null.finish()
    return np.array([found.p_sweep, found.observed, found.null_median, found.null_95])


def one_by_one(X, unseen, y, truth, count):
    """The same by fits."""
    every = Exchange.of(np.concatenate([y, truth]))
    highest = []
    for labels in (every.labels, *every.permuted(count, np.random.default_rng(0))):
        known, others = labels[: len(y)], labels[len(y) :]
        areas = [
            roc_auc_score(others, rows @ (cell[known].mean(0) - cell[~known].mean(0)))
            for cell, rows in zip(X, unseen, strict=True)
        ]
        highest.append(max(areas))
    observed, *null = highest
    p = (1 + sum(value >= observed - 1e-12 for value in null)) / (1 + count)
    return np.array([p, observed, np.median(null), np.quantile(null, 0.95)])


def intervals(X, unseen, y, truth):
    """The heat of bootstrap intervals of the AUROC at every site."""
    X, unseen = X[::EVERY], unseen[::EVERY]
    scores = np.einsum("snd,sd->sn", unseen, X[:, y].mean(1) - X[:, ~y].mean(1))
    groups, areas = np.arange(len(truth)) // GROUP, auroc(scores, truth)

    def blocks():
        return np.array(
            [
                cluster_bootstrap(
                    area, lambda weights, row=row: weighted_auroc(row, truth, weights), groups, share=True, draws=DRAWS
                )
                for row, area in zip(scores, areas, strict=True)
            ]
        )

    def loop():
        count = groups.max() + 1
        found = []
        for row, area in zip(scores, areas, strict=True):
            drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=DRAWS)
            values = [roc_auc_score(truth, row, sample_weight=weights[groups]) for weights in drawn]
            reach = t.ppf(0.975, count - 1) * np.std(values) * sqrt(count / (count - 1)) / (area * (1 - area))
            found.append(expit(logit(area) + np.array([-reach, reach])))
        return np.array(found)

    return Heat(
        f"intervals of {len(X)} AUROCs, {DRAWS} draws each",
        [Local("covec", blocks), Local("loop", loop)],
        1e-6,
        "covec's draws are a multinomial a group, and all of them share one sort of the scores.",
        rounds=6,
    )


if __name__ == "__main__":
    main()
