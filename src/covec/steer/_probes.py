"""Logistic probes of a concept, one a site, as vectors with the probe's own calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.registry import Entry
from covec.statistics.figure import Figure
from covec.statistics.splits import split
from covec.steer._steering import provenance


def probed(
    model: TextModel,
    examples: Examples,
    sites: str | Site | Sequence[str | Site],
    judged: Callable[[Float[np.ndarray, "m"], Bool[np.ndarray, "m"]], dict[str, Figure]],
    *,
    entry: Entry,
    inverse_ridge: float,
    seed: int,
    progress: Progress = silent,
) -> Bank:
    """A probe of the last token at every site, fitted on 60% of the rows, by group or pair; `judged` by the others.

    Parameters
    ----------
    judged
        Figures of a probe from its logits of the rows that it was not fitted on, and their labels.
    entry
        Of the method, whose vectors they become.
    """
    parts = split(
        examples.keys,
        examples.labels,
        groups=examples.groups,
        pairs=examples.pairs,
        fixed=examples.splits,
        seed=seed,
    )
    held_out = np.concatenate([parts.validation, parts.test])
    labels, unseen = examples.labels[parts.train], examples.labels[held_out]
    rows = model.capture(examples.inputs, sites, "last", progress=progress)
    common = provenance(model, examples, entry)
    vectors = []
    with progress("fitting probes", len(rows.sites)) as bar:
        for site in rows.sites:
            X = rows[site][parts.train]
            w, b = probe(X, labels, inverse_ridge)
            figures = judged((rows[site][held_out].double() @ w + b).numpy(), unseen)
            means = (X[torch.from_numpy(labels == sign)].mean(0) for sign in (True, False))
            vectors.append(calibrated(f"{examples.name}/{site}", site, w, b, *means, figures=figures, **common))
            bar.advance()
    return Bank(vectors)


def probe(
    X: Float[Tensor, "n d"], labels: Bool[np.ndarray, "n"], inverse_ridge: float
) -> tuple[Float[Tensor, "d"], float]:
    """Weights and intercept, for raw activations, of a logistic regression on standardised ones (float64)."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=inverse_ridge, max_iter=10_000))
    scaler, regression = (step for _, step in model.fit(X.double().numpy(), labels).steps)
    w = regression.coef_[0] / scaler.scale_
    return torch.from_numpy(w), float(regression.intercept_[0] - w @ scaler.mean_)


def calibrated(
    name: str,
    site: Site,
    w: Float[Tensor, "d"],
    b: float,
    mean_positive: Float[Tensor, "d"],
    mean_negative: Float[Tensor, "d"],
    **others: Any,
) -> ConceptVector:
    """The probe sigmoid(w . h + b) as a concept vector: its calibration and threshold are the probe's own."""
    vector = ConceptVector.from_direction(name, site, w, mean_positive, mean_negative)
    length = float(w.norm())
    slope, offset = length * vector.scale, b - length * vector.intercept
    return ConceptVector(
        name, vector.parts, calibration=(slope, offset), threshold=-offset / slope, operation="to-probability", **others
    )
