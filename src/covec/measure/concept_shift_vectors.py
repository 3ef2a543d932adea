"""Concept shift vectors: what fine-tuning did to each concept of a model, as one vector a concept.

The rows of the original model are clustered; a cluster is a concept. Its shift is the mean difference between what the
tuned and the original model show for the inputs in it. If fine-tuning moves concepts, then an original concept plus its
shift is near a concept that the tuned model's own rows are clustered into. Shifts are made of one half of the inputs
and the tuned concepts of the other, else the two would agree by construction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr, t
from sklearn.cluster import KMeans
from torch import Tensor
from torch.nn.functional import cosine_similarity

from covec.errors import ExamplesError
from covec.registry import method
from covec.statistics.figure import Figure

STARTS = 10  # of every clustering, of which the best is kept


@dataclass(frozen=True)
class ConceptShifts:
    """Concepts of the original model, their shifts, and the concepts of the tuned model that they are matched with.

    `concepts`, `shifts` and `tuned` are [c, d]; `clusters` [n] is each input's concept. `recovered` is the share of the
    distance to the tuned concept that a concept's own shift covers, beside another concept's shift;
    `recovered_globally` that of the mean shift of all inputs; `closer` the share of concepts whose cosine with the
    tuned one rises. `consistency` [c] is the mean cosine of an input's shift with that of its concept, `agreement` its
    rank correlation with what is recovered.
    """

    concepts: Float[Tensor, "c d"]
    shifts: Float[Tensor, "c d"]
    tuned: Float[Tensor, "c d"]
    clusters: Int[np.ndarray, "n"]
    recovered: Figure
    recovered_globally: Figure
    closer: Figure
    consistency: Float[np.ndarray, "c"]
    agreement: float

    @property
    def figure(self) -> Figure:
        """What of the way to the tuned concepts their own shifts cover."""
        return self.recovered


@method("concept-shift-vectors", verb="measure", card="concept-shift-vectors")
def concept_shift_vectors(
    before: Float[Tensor, "n d"],
    after: Float[Tensor, "n d"],
    *,
    concepts: int = 20,
    strength: float = 1.0,
    seed: int = 0,
) -> ConceptShifts:
    """What did fine-tuning do to each concept? How far its own shift takes it to a tuned one, beside another's shift.

    Parameters
    ----------
    before, after
        What the original and the tuned model show for the same inputs, row by row: `ModelPair.capture` gives both.
    concepts
        Number of clusters.
    strength
        What a shift is multiplied with before it is added.

    Raises
    ------
    ExamplesError
        Shapes differ, a number is not finite, there are fewer than two concepts or than four rows a concept, too few
        of them differ, or nothing was changed by the tuning.

    References
    ----------
    Khayatan et al., "Analyzing Fine-tuning Representation Shift for Multimodal LLMs Steering Alignment",
    arXiv:2501.03012.
    """
    before, after = before.double(), after.double()
    _check(before, after, concepts)
    first = np.random.default_rng(seed).permutation(len(before)) < len(before) // 2
    for half in (before[first], after[~first]):
        if (distinct := len(half.unique(dim=0))) < concepts:
            raise ExamplesError(
                f"half of the rows has {distinct} different ones for {concepts} concepts: give more inputs, or ask for "
                "fewer concepts"
            )
    clusters = KMeans(concepts, n_init=STARTS, random_state=seed).fit(before[first].numpy())
    labels = clusters.predict(before.numpy())
    centres = torch.from_numpy(clusters.cluster_centers_)
    own = torch.stack([(after - before)[first & (labels == one)].mean(0) for one in range(concepts)])
    shifts = strength * own
    other = KMeans(concepts, n_init=STARTS, random_state=seed).fit(after[~first].numpy())
    tuned = torch.from_numpy(other.cluster_centers_)
    tuned = tuned[linear_sum_assignment(-_cosines(centres, tuned))[1]]
    recovered = _recovered(centres, shifts, tuned)
    # Every other concept's shift in turn, each of them once for each concept.
    wrong = np.stack([_recovered(centres, shifts.roll(step, 0), tuned) for step in range(1, concepts)])
    everywhere = _recovered(centres, strength * (after - before)[first].mean(0).expand_as(centres), tuned)
    risen = cosine_similarity(centres + shifts, tuned) > cosine_similarity(centres, tuned)
    moved = cosine_similarity(after - before, own[labels], dim=1).numpy()
    consistency = np.array([moved[first & (labels == one)].mean() for one in range(concepts)])
    how = "share of the distance to the tuned concept that a shift covers, mean over concepts"
    return ConceptShifts(
        concepts=centres.float(),
        shifts=own.float(),
        tuned=tuned.float(),
        clusters=labels,
        recovered=_mean(recovered, float(wrong.mean()), f"{how}; null: another concept's shift"),
        recovered_globally=_mean(everywhere, 0.0, f"{how}, the mean shift of all inputs"),
        closer=Figure(float(risen.double().mean()), null=0.5, n=concepts, how="share of concepts that come nearer"),
        consistency=consistency,
        agreement=float(spearmanr(consistency, recovered).statistic),
    )


def _check(before: Tensor, after: Tensor, concepts: int) -> None:
    if before.ndim != 2 or before.shape != after.shape:
        raise ExamplesError(
            f"rows of shapes {list(before.shape)} and {list(after.shape)}: give the same [n, d] of both"
        )
    if concepts < 2 or len(before) < 4 * concepts:
        raise ExamplesError(
            f"{len(before)} rows for {concepts} concepts: give four a concept, and two concepts at least"
        )
    if not torch.isfinite(before).all() or not torch.isfinite(after).all():
        raise ExamplesError("a row is not finite: load both models in float32")
    if torch.equal(before, after):
        raise ExamplesError("both models show the same: read a site behind the weights that were tuned")


def _recovered(concepts: Tensor, shifts: Tensor, tuned: Tensor) -> Float[np.ndarray, "c"]:
    """Share of every concept's distance to its tuned one that its shift covers: 1 is all, below 0 it leads away."""
    away = (tuned - concepts).norm(dim=1)
    return ((away - (tuned - concepts - shifts).norm(dim=1)) / away).numpy()


def _cosines(one: Tensor, other: Tensor) -> Float[np.ndarray, "c c"]:
    return cosine_similarity(one[:, None], other[None], dim=2).numpy()


def _mean(values: np.ndarray, null: float, how: str) -> Figure:
    middle, reach = float(values.mean()), float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
    return Figure(middle, middle - reach, middle + reach, null, len(values), f"{how}, Student's t")
