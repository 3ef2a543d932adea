"""What the raw text gives away without any model: a bag of words, and the cues that templates leave.

A concept vector that does no better than a bag of words has shown nothing about the network. One whose labels can be
told from the first word has perhaps learned the template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log1p
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from covec.concepts.examples import Examples
from covec.statistics.figure import Figure
from covec.statistics.intervals import accuracy_figure, auroc_figure
from covec.statistics.splits import Split

INVERSE_RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)  # of the logistic regression: C of scikit-learn

# Columns of `_cues`, by the name a warning gives them.
CUES = {
    "the length": [0, 1],
    "digits": [2],
    "capital letters": [3],
    "the final punctuation": [4],
    "the first word": [5],
    "the last word": [6],
}
_NUMBERS = 4  # the columns before this one
_EDGES = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True)
class Baseline:
    """A classifier of raw texts, judged on the test rows.

    `scores` are log-odds, [rows of the test part]; `standard` are the same in standard deviations of the fitted rows,
    so that folds can be pooled: where more positives are left out, fewer were fitted, and all log-odds are lower.
    `strongest` names the best single cue, where cues were asked for.
    """

    scores: Float[np.ndarray, "n"]
    standard: Float[np.ndarray, "n"]
    auroc: Figure
    accuracy: Figure
    strongest: str = ""


def bag_of_words(examples: Examples, split: Split, *, seed: int = 0) -> Baseline:
    """Logistic regression on counts of words and pairs of words; of chats, on all messages.

    Its ridge is chosen on validation, then it is fitted to train and validation together, as a vector is.

    Parameters
    ----------
    split
        Train, validation and test rows; each needs both classes.
    seed
        Of the bootstrap of grouped rows.
    """
    texts = np.array(examples.texts, dtype=object)

    fit = _fitted(words_model, texts, examples.labels, split)
    return Baseline(fit.scores, fit.standard, *_figures(fit.scores, examples, split, seed))


def words_model(inverse_ridge: float) -> Pipeline:
    """An unfitted logistic regression on counts of words and pairs of words."""
    # Marks of punctuation are words too, so that no text is empty.
    words = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]")
    return make_pipeline(words, LogisticRegression(C=inverse_ridge, max_iter=1000))


def cue_probe(examples: Examples, split: Split, *, seed: int = 0) -> Baseline:
    """Logistic regression on what should tell nothing: length, digits, case, final punctuation, first and last word.

    Parameters and fit as in `bag_of_words`.
    """
    table = np.array([_cues(text) for text in examples.texts], dtype=object)

    def fitted(columns: Sequence[int]) -> _Fit:
        return _fitted(lambda inverse_ridge: _cue_model(columns, inverse_ridge), table, examples.labels, split)

    fit = fitted(range(table.shape[1]))
    strongest = max(CUES, key=lambda cue: fitted(CUES[cue]).validation)
    return Baseline(fit.scores, fit.standard, *_figures(fit.scores, examples, split, seed), strongest)


def leakage_warning(cues: Baseline, vector: Figure | None = None) -> str | None:
    """A sentence where cues alone explain much of what the vector shows, else None.

    The rule: of the distance from chance (0.5) to the vector's test AUROC, the cues surely go more than half: the
    lower end of their interval is past the middle. Without a vector the mark is 0.75.
    """
    reached = 1.0 if vector is None else vector.value
    low = cues.auroc.value if cues.auroc.low is None else cues.auroc.low
    if not low - 0.5 > max(reached - 0.5, 0.0) / 2:
        return None
    return (
        f"length, digits, case, final punctuation, first and last word alone reach AUROC {cues.auroc}, most by "
        f"{cues.strongest}: the vector may have learned them and not the concept (template leakage); vary the wording"
    )


def balance_warning(words: Baseline) -> str | None:
    """A sentence where counting words is surely worse than guessing, else None."""
    if words.auroc.high is None or words.auroc.high >= 0.5:
        return None
    return (
        f"counting words does worse than guessing (AUROC {words.auroc}): the same words stand in both classes, and "
        "where one of two such rows is left out the other misleads; mark them by a column pair or group"
    )


@dataclass(frozen=True)
class _Fit:
    """Log-odds of the test rows, plain and standardised on the fitted rows, and the AUROC on validation."""

    scores: Float[np.ndarray, "n"]
    standard: Float[np.ndarray, "n"]
    validation: float


def _fitted(make: Callable[[float], Pipeline], inputs: Any, labels: np.ndarray[Any, Any], split: Split) -> _Fit:
    """What the ridge that is best on validation gives once train and validation are fitted together."""
    found = {}
    for inverse_ridge in INVERSE_RIDGES:
        model = make(inverse_ridge).fit(inputs[split.train], labels[split.train])
        found[inverse_ridge] = roc_auc_score(
            labels[split.validation], model.decision_function(inputs[split.validation])
        )
    best = max(found, key=lambda inverse_ridge: (found[inverse_ridge], -inverse_ridge))
    rows = np.concatenate([split.train, split.validation])
    model = make(best).fit(inputs[rows], labels[rows])
    known, scores = model.decision_function(inputs[rows]), model.decision_function(inputs[split.test])
    return _Fit(scores, (scores - known.mean()) / (known.std() or 1.0), found[best])


def _figures(scores: Float[np.ndarray, "n"], examples: Examples, split: Split, seed: int) -> tuple[Figure, Figure]:
    labels = examples.labels[split.test]
    groups = [examples.units[row] for row in split.test]
    chance = max(labels.mean(), 1 - labels.mean())
    return (
        auroc_figure(scores, labels, groups, 0.5, seed=seed),
        accuracy_figure(scores, labels, 0.0, groups, float(chance), seed=seed),
    )


def _cue_model(columns: Sequence[int], inverse_ridge: float) -> Pipeline:
    # Words seen once tell nothing of a template.
    words = OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist")
    parts = [
        ("numbers", StandardScaler(), [column for column in columns if column < _NUMBERS]),
        ("words", words, [column for column in columns if column >= _NUMBERS]),
    ]
    return make_pipeline(ColumnTransformer(parts), LogisticRegression(C=inverse_ridge, max_iter=1000))


def _cues(text: str) -> list[Any]:
    words = text.split()
    letters = [mark for mark in text if mark.isalpha()]
    capitals = sum(mark.isupper() for mark in letters) / max(len(letters), 1)
    digits = sum(mark.isdigit() for mark in text) / len(text)
    ending = text.rstrip()[-1:]
    bare = [_EDGES.sub("", word).casefold() for word in (words[0], words[-1])]
    return [log1p(len(text)), log1p(len(words)), digits, capitals, "" if ending.isalnum() else ending, *bare]
