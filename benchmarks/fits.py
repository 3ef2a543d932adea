"""The race of fits: probes at all sites, their ridge chosen by cross-validation, against loops over scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.metadata import version

import numpy as np
import torch
from capture import NAME
from race import Heat, Local, Wanted, race
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dposv
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import StandardScaler
from texts import pairs

import covec
from covec.find.logistic import RIDGES, Logistic
from covec.find.mean_difference import MeanDifference
from covec.find.ridge import RIDGES as LEAST_SQUARES
from covec.find.ridge import Ridge
from covec.statistics.splits import deal

SITES, ROWS, UNSEEN, WIDTH = 30, 480, 240, 576
FEW = [9, 19]  # sites where the slowest loop runs
SHRINKAGES = (0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9)
AS_GOOD = 0.001  # AUROC
ALONE = "products, axes and systems alone"
ABOUT = f"""Probes at {SITES} sites on {ROWS} rows of width {WIDTH} in float32, standardised once a site: each of seven
ridges fitted on five folds, and the one of the best out-of-fold AUROC on all rows. scikit-learn's loop is given the
folds. What is compared is an AUROC: by how much the ridge that covec chose falls short of the best one in
scikit-learn's own figures, and by how much both directions differ on {UNSEEN} unseen rows where both chose the same
ridge; the larger of the two, at the worst site, must stay below {AS_GOOD:g}. *Made* activations are drawn with a few
strong factors, features that correlate and three loud ones; *real* ones are those of {NAME} at the last token."""


def main() -> None:
    """Logistic regression and ridge on made and real activations; discriminant analysis and difference of means."""
    made, real = drawn(), captured()
    few = [part[FEW] for part in made[:2]] + made[2:]
    shrunken = tuple(shrinkage / (1 - shrinkage) for shrinkage in SHRINKAGES)
    heats = [
        chosen("logistic regression, made activations", made, Logistic(), RIDGES, logistic, 4),
        chosen(
            "logistic regression, real activations", real, Logistic(), RIDGES, exact, 4,
            "scikit-learn's default tolerance, 1e-4, is 0.002 off here at the weakest ridge, so that 1e-5 is compared.",
            {"scikit-learn, default tolerance": logistic},
        ),
        *(
            replace(
                chosen(f"ridge regression, {kind} activations", data, Ridge(), LEAST_SQUARES, least_squares, 6),
                beside=[Local(ALONE, partial(alone, data))],
                arithmetic=most,
            )
            for kind, data in (("made", made), ("real", real))
        ),
        chosen(
            f"discriminant analysis, seven shrinkages, {len(FEW)} of the sites",
            few, Ridge(ridges=shrunken), shrunken, discriminant, 20,
            "A shrinkage a of the covariance is the ridge a / (1 - a): for covec the path is one factorisation.",
        ),
        differences(made),
    ]  # fmt: skip
    race("fits", "Fits", ABOUT, heats, {name: version(name) for name in ("scikit-learn", "numpy", "scipy")})


def drawn():
    """Activations to learn from [s, n, d] and unseen ones, with labels: factors, correlated and loud features."""
    dice = np.random.default_rng(0)
    rows, y = ROWS + UNSEEN, np.arange(ROWS + UNSEEN) % 2 == 0
    sites = []
    for site in range(SITES):
        strength = np.arange(1, WIDTH + 1) ** -0.7
        factors = dice.standard_normal((rows, WIDTH)) * strength
        factors[:, 5:60] += (y[:, None] - 0.5) * dice.standard_normal(55) * (0.2 + site / SITES) * strength[5:60]
        mixed = factors @ dice.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5
        loud = dice.choice(WIDTH, 3, replace=False)
        mixed[:, loud] = 60 * mixed[:, loud] + 200
        sites.append(mixed.astype(np.float32))
    return _parts(torch.from_numpy(np.stack(sites)), y)


def captured():
    """The same of the embedded model, for sentences that are in a good or in a bad manner."""
    model = covec.load(NAME, dtype="float32", device="cpu")
    both = pairs(ROWS + UNSEEN)
    y = np.arange(len(both)) % 2 == 0
    texts = [pair[0] if good else pair[1] for pair, good in zip(both, y, strict=True)]
    rows = model.capture(texts, "resid.*", "last")
    return _parts(torch.stack(list(rows.rows.values())), y)


def _parts(X, y):
    return [X[:, :ROWS], X[:, ROWS:], y[:ROWS], y[ROWS:]]


def chosen(name, data, finder, ridges, peer, wanted, note="", beside=()):
    """A heat in which both choose a ridge at every site; `peer(ridge, share of the rows)` makes scikit-learn's.

    Peers `beside`, by name, are as much slower as is wanted, too, and not compared.
    """
    X, unseen, y, truth = data
    unseen = unseen.numpy()
    names = list(range(len(y)))
    folds = deal(names, y)

    def distance(found, first):
        own, best = first["ridge"], found["areas"].max(1)
        short = best - found["areas"][np.arange(len(own)), own]
        same = np.flatnonzero(own == found["ridge"])
        unseen_areas = [
            [roc_auc_score(truth, unseen[site] @ one["directions"][site]) for one in (first, found)] for site in same
        ]
        return max(short.max(), np.abs(np.diff(unseen_areas)).max())

    return Heat(
        name,
        [
            Local("covec", lambda: _named(finder.fit_many(X, y, groups=names), ridges)),
            Local("scikit-learn", partial(loop, X.numpy(), y, folds, ridges, peer)),
        ],
        AS_GOOD,
        note,
        beside=[Local(other, partial(loop, X.numpy(), y, folds, ridges, make)) for other, make in dict(beside).items()],
        wanted=[Wanted(other, "covec", at_least=wanted) for other in ("scikit-learn", *beside)],
        distance=distance,
        rounds=6,
    )


def _named(fits, ridges):
    """Directions, and which of the ridges each site has."""
    found = np.log(fits.details["ridge"].numpy())
    return {"directions": fits.directions, "ridge": np.abs(found[:, None] - np.log(ridges)).argmin(1)}


def loop(X, y, folds, ridges, peer):
    """scikit-learn at every site: out-of-fold AUROC of every ridge, then a fit on all rows with the best."""
    areas, directions, best = np.empty((len(X), len(ridges))), [], []
    for site, cell in enumerate(X):
        scaler = StandardScaler().fit(cell)
        Z, outputs = scaler.transform(cell), np.empty(len(y))
        for column, ridge in enumerate(ridges):
            for fold in range(5):
                known, held_out = folds != fold, folds == fold
                fitted = peer(ridge, known.mean()).fit(Z[known], y[known])
                outputs[held_out] = fitted.decision_function(Z[held_out])
            areas[site, column] = roc_auc_score(y, outputs)
        best.append(len(ridges) - 1 - areas[site, ::-1].argmax())
        directions.append(peer(ridges[best[-1]], 1.0).fit(Z, y).coef_.ravel() / scaler.scale_)
    return {"directions": np.stack(directions), "ridge": np.array(best), "areas": areas}


def logistic(ridge, share):
    """scikit-learn's logistic regression: its C is one over the total penalty, which folds keep."""
    return LogisticRegression(C=1 / (ROWS * ridge), max_iter=1000)


def exact(ridge, share):
    """The same, at a tolerance at which its AUROCs no longer change by a thousandth."""
    return LogisticRegression(C=1 / (ROWS * ridge), max_iter=1000, tol=1e-5)


def least_squares(ridge, share):
    """scikit-learn's ridge regression, of the total penalty."""
    return RidgeClassifier(alpha=ROWS * ridge)


def alone(data):
    """What cannot be left out of an exact path: products of the rows, their axes, and a system a fold and ridge."""
    X, y = data[0].numpy().astype(float), data[2]
    folds = deal(list(range(len(y))), y)
    for rows in X:
        _, vectors = eigh(rows @ rows.T, driver="evd", check_finite=False, overwrite_a=True)
        for fold in range(5):
            block = vectors[folds == fold]
            for _ in LEAST_SQUARES:
                left = dsyrk(-1.0, block.T, trans=1)
                left.flat[:: len(left) + 1] += 2
                dposv(left, y[folds == fold].astype(float))
    return np.zeros(1)


def most(took):
    """The largest ratio that leaves covec with nothing but that."""
    loop, least = took["scikit-learn"], took[ALONE]
    return f"The most there is, were there nothing else to do: {loop:.3g} s / {least:.3g} s = {loop / least:.2f}."


def discriminant(ridge, share):
    """scikit-learn's discriminant analysis; a share of the rows is shrunken more, which keeps the total penalty."""
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=ridge / (ridge + share))


def differences(data):
    """The heat of the difference of means."""
    X, y = data[0], data[2]

    def centroids():
        found = []
        for cell in X.numpy():
            low, high = NearestCentroid().fit(cell, y).centroids_
            found.append((high - low) / np.linalg.norm(high - low))
        return np.stack(found)

    return Heat(
        "difference of means",
        [
            Local("covec", lambda: MeanDifference().fit_many(X, y).directions),
            Local("scikit-learn", centroids),
        ],
        1e-3,
        "scikit-learn sums float32 in float32, where three loud features leave 0.0003. "
        "covec's come with means, scale and intercept, in float64, from rows sorted so that order does not matter.",
    )


if __name__ == "__main__":
    main()
