"""Concept guidance: activations are turned towards a probe's direction, at the blocks where probes detect best.

von Rütte, Anagnostidis, Bachmann and Hofmann, "A Language Model's Guide Through Latent Space", arXiv:2402.14433.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.sparse.linalg import eigsh
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import normalize

from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Edit
from covec.edits.norms import AddKeepingNorm
from covec.errors import CovecError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.registry import method
from covec.statistics.figure import Figure
from covec.steer._steering import Steering, provenance

PROBES = ("mean-difference", "logistic", "pca")


@method("concept-guidance", verb="steer", needs="model", card="concept-guidance")
class ConceptGuidance(Steering):
    """At the blocks whose probes detect best, x becomes x + s w, brought back to the length of x.

    A probe sees the first tokens of every text, each a row with the text's label. `accuracy` of a vector is the mean,
    over the training texts, of the share of their tokens that the probe gets right; the blocks are chosen by it.
    Strength 1 moves by the natural difference of the classes along w, at every block.

    Rows are read where the blocks write, not behind the norms of the next blocks as in the paper. Directions point to
    more of the concept by the class means.

    Parameters
    ----------
    probe
        `mean-difference` (of rows centred and brought to unit length), `logistic` (of unit rows, no intercept), or
        `pca` (first component of differences of random pairs, which sees no label but for its sign).
    blocks
        How many blocks are guided; half of those that are read unless given, as the paper's 16 of 32.
    sites
        Where to probe.
    tokens
        Rows of a text that are used.
    seed
        Of the pairs.
    """

    def __init__(
        self,
        probe: str = "mean-difference",
        blocks: int | None = None,
        sites: str | Site | Sequence[str | Site] = "resid.*",
        tokens: int = 16,
        seed: int = 0,
    ) -> None:
        self.probe, self.blocks, self.sites, self.tokens, self.seed = probe, blocks, sites, tokens, seed

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        if self.probe not in PROBES:
            raise CovecError(f"a probe is one of {', '.join(PROBES)}, not {self.probe!r}")
        if examples.labels.all() or not examples.labels.any():
            raise CovecError("guidance needs texts of both classes: give some with the concept and some without")
        rows = model.capture(examples.inputs, self.sites, "content/none", progress=progress)
        assert rows.offsets is not None
        counts = rows.offsets.diff()
        text = torch.repeat_interleave(torch.arange(len(counts)), counts)
        early = torch.arange(len(text)) - rows.offsets[text] < self.tokens
        text, common = text[early], provenance(model, examples, self.entry)
        labels = torch.from_numpy(examples.labels)[text]
        vectors = []
        for site in rows.sites:
            X = rows[site][early]
            w, right = _probe(self.probe, X, labels.numpy(), self.seed)
            share = np.bincount(text, right) / np.bincount(text)
            how = f"share of tokens that a {self.probe} probe gets right, mean over training texts"
            figures = {"accuracy": Figure(float(share.mean()), null=0.5, n=len(share), how=how)}
            vectors.append(_vector(f"{examples.name}/{site}", site, w, X, labels, figures=figures, **common))
        self.vectors = Bank(vectors)
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        if not math.isfinite(strength):
            raise CovecError(f"a steering strength must be a finite number, not {strength}")
        guided = self.guided()
        if not strength:
            return ()
        return tuple(
            AddKeepingNorm(
                site=one.site,
                shift=strength * one.write,
                position=Position("content"),
                fingerprint=one.model["fingerprint"],
            )
            for one in guided
        )

    def guided(self) -> tuple[ConceptVector, ...]:
        """The vectors of the blocks with the best accuracy, from low to high."""
        vectors = list(self._fitted().values())
        count = max(1, len(vectors) // 2) if self.blocks is None else self.blocks
        best = sorted(range(len(vectors)), key=lambda at: -vectors[at].figures["accuracy"].value)[:count]
        return tuple(vectors[at] for at in sorted(best))


def _probe(
    kind: str, X: Float[Tensor, "n d"], labels: Bool[np.ndarray, "n"], seed: int
) -> tuple[Float[Tensor, "d"], Bool[np.ndarray, "n"]]:
    """The probe's direction, and which rows it gets right."""
    rows = X.double()
    if kind == "logistic":
        unit = normalize(rows, dim=1).numpy()
        found = LogisticRegression(fit_intercept=False, solver="liblinear").fit(unit, labels)
        return torch.from_numpy(found.coef_[0]), found.predict(unit) == labels
    if kind == "pca":
        order = np.random.default_rng(seed).permutation(len(rows) // 2 * 2).reshape(2, -1)
        differences = rows[order[0]] - rows[order[1]]
        products = (differences.T @ differences).numpy()
        w = torch.from_numpy(eigsh(products, k=1, v0=np.ones(len(products)))[1][:, 0])
    else:
        rows = normalize(rows - rows.mean(0), dim=1)
        w = rows[torch.from_numpy(labels)].mean(0) - rows[torch.from_numpy(~labels)].mean(0)
    along = (rows @ normalize(w, dim=0)).numpy()[:, None]
    along = (along - along.mean()) / max(along.std(), np.finfo(float).tiny)
    calibrator = LogisticRegression(C=np.inf).fit(along, labels)
    return w, calibrator.predict(along) == labels


def _vector(name: str, site: Site, w: Tensor, X: Tensor, labels: Bool[Tensor, "n"], **others: Any) -> ConceptVector:
    positive, negative = X[labels].mean(0), X[~labels].mean(0)
    unit = normalize(w, dim=0)
    gap = float(unit @ (positive - negative).double())
    unit, gap = (unit, gap) if gap > 0 else (-unit, -gap)
    return ConceptVector.from_direction(name, site, unit, positive, negative, write=gap * unit, **others)
