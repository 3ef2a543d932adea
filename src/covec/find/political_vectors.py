"""Vectors of several axes at once, each from statements in pairs on one topic, and what each axis reads of the others.

"Fine-Grained Interpretation of Political Opinions in Large Language Models", arXiv:2506.04774, of which the techniques
are told in outline: here they are those of representation engineering.
"""

from __future__ import annotations

from typing import Self

import torch

from covec.errors import ExamplesError
from covec.find._axes import Axes as Axes
from covec.find._axes import Confounds as Confounds
from covec.find._axes import fit_axes as fit_axes
from covec.find._finder import Finder
from covec.find._rows import Rows
from covec.find._solvers import LOGISTIC, fit_convex
from covec.find.logistic import RIDGES
from covec.find.pca_pairs import paired_differences
from covec.registry import method

TECHNIQUES = ("difference", "pca", "probe")


@method(
    "political-vectors",
    verb="find",
    card="political-vectors",
    requires=("pairs",),
    cannot={
        "hard direction found": "the loudest noise drowns the mean of the differences; a probe is the mend",
        "loud dimension survived": "differences are not standardised, as published: a loud dimension wins",
    },
)
class PoliticalVectors(Finder):
    """An axis from one pole to the other, learned from pairs on one topic, so that topics cancel.

    Each pair counts once, however many rows it has; the probe alone reads the rows. `fit_axes` fits several axes and
    says how far they are confounded.

    Parameters
    ----------
    technique
        `difference` (mean of the differences within pairs), `pca` (their first principal component about zero) or
        `probe` (logistic regression on the rows, whose folds keep pairs together).
    """

    closed_form = True

    def __init__(self, technique: str = "difference") -> None:
        self.technique = technique

    def fit_rows(self, rows: Rows) -> Self:
        if self.technique not in TECHNIQUES:
            raise ExamplesError(f"no technique {self.technique!r}; known: {', '.join(TECHNIQUES)}")
        differences = paired_differences(rows, "political-vectors")
        if self.technique == "difference":
            self.direction_ = differences.mean(0)
        elif self.technique == "pca":
            _, vectors = torch.linalg.eigh(differences @ differences.T)
            self.direction_ = vectors[:, -1] @ differences
        else:
            self.direction_, _ = fit_convex(rows, LOGISTIC, RIDGES)
        return self
