"""The race of the whole work: capture, sweep, selection, test and null, against the same glued from peers by hand."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import torch
from capture import BATCH, NAME
from race import Heat, Local, Wanted, race
from texts import pairs
from workers import Remote, Worker, versions

import covec
from covec.find import fit_together
from covec.find.logistic import RIDGES, Logistic
from covec.find.mean_difference import MeanDifference
from covec.find.ridge import RIDGES as LEAST_SQUARES
from covec.find.ridge import Ridge
from covec.models.embedded import fetch
from covec.statistics.auroc import auroc
from covec.statistics.permutation import Exchange
from covec.statistics.splits import deal
from covec.statistics.sweep import SweepNull

TEXTS, PERMUTATIONS, WRONG = 240, 100, 8  # of so many pairs one has its labels the wrong way round
FINDERS = {"difference": MeanDifference, "logistic": Logistic, "ridge": Ridge}
ABOUT = f"""One concept in {NAME}, {TEXTS} texts (one label in {WRONG} is wrong, or all would be perfect), all sites at
the last token. Three finders are fitted on three fifths of the rows, with the ridge of the logistic and of the ridge
regression by five folds; the site and finder of the best AUROC on a fifth are fitted again on both and judged on the
last fifth; {PERMUTATIONS} permutations of the labels repeat the selection with the difference of means. The glue takes
the activations from steering-vectors, the fits and AUROCs from scikit-learn; rows, folds and permutations are given to
it. It leaves out all else that a study does: a null for the other finders, intervals, stability, what a bag of words
reads, calibration and the test of whether the model uses the direction. What is compared is the AUROC of the selection,
AUROC and accuracy on the last fifth, and p."""


def main() -> None:
    """The same steps by covec and by glue, then the whole study."""
    model = covec.load(NAME, dtype="float32", device="cpu")
    made = [pair if row % WRONG else pair[::-1] for row, pair in enumerate(pairs(TEXTS // 2))]
    positive, negative = zip(*made, strict=True)
    texts, y = [*positive, *negative], np.arange(TEXTS) < TEXTS // 2
    order = np.random.default_rng(0).permutation(TEXTS)
    train, validation, test = np.split(order, [3 * TEXTS // 5, 4 * TEXTS // 5])
    known = np.concatenate([train, validation])
    exchange = Exchange.of(y[known])
    settings = {
        "model": str(fetch(NAME)), "dtype": "float32", "batch": BATCH, "pairs": made,
        "train": train.tolist(), "validation": validation.tolist(), "test": test.tolist(),
        "folds": deal(range(len(train)), y[train]).tolist(), "folds again": deal(range(len(known)), y[known]).tolist(),
        "logistic": RIDGES, "ridge": LEAST_SQUARES,
        "permuted": exchange.permuted(PERMUTATIONS, np.random.default_rng(0)).tolist(),
    }  # fmt: skip
    examples = covec.Examples.from_lists(positive=positive, negative=negative)
    with Worker("steering-vectors", settings, "glue") as worker:
        heats = [
            Heat(
                "find, select, test, null",
                [
                    Local("covec", lambda: steps(model, texts, y, train, validation, test)),
                    Remote("steering-vectors and scikit-learn", worker, "study"),
                ],
                1.001 / len(test),
                "They may differ by one of the rows that are judged.",
                wanted=[Wanted("steering-vectors and scikit-learn", "covec", at_least=3)],
                rounds=6,
                distance=lambda found, first: max(float(abs(found[name] - first[name]).max()) for name in first),
            ),
            Heat(
                "all that `covec.study` does",
                [Local("covec.study", lambda: [covec.study(model, examples, position="last").best.scale])],
                0,
                "Every finder, the null of the whole sweep, intervals, baselines, calibration and the test of use.",
                rounds=2,
            ),
        ]
        told = {"scikit-learn": version("scikit-learn"), **versions([worker])}
        race("study", "The whole of it", ABOUT, heats, told)


def steps(model, texts, y, train, validation, test):
    """What the glue does, by covec's parts."""
    captured = model.capture(texts, "resid.*", "last").rows
    sites, rows = list(captured), torch.stack(list(captured.values()))
    finders = {name: finder() for name, finder in FINDERS.items()}
    fits = fit_together(finders, rows[:, train], y[train], groups=range(len(train)))
    areas = np.stack([auroc(fit.score(rows[:, validation]), y[validation]) for fit in fits.values()], 1)
    site, finder = np.unravel_index(areas.argmax(), areas.shape)
    known = np.concatenate([train, validation])
    vector = list(FINDERS.values())[finder]().fit(rows[site, known], y[known], groups=range(len(known)))
    scores = vector.decision_function(rows[site, test])
    null = SweepNull(y[train], y[validation], permutations=PERMUTATIONS, finders=["mean-difference"])
    for name, cell in zip(sites, rows, strict=True):
        null.add(name, cell[train], cell[validation])
    accuracy = ((scores > 0) == y[test]).mean()
    return np.array([areas.max(), auroc(scores, y[test]), accuracy, null.finish().p_sweep])


if __name__ == "__main__":
    main()
