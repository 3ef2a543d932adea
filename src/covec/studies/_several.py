"""Several concepts at once: how near they are to one another, and what it costs to have asked for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from covec.statistics.figure import Figure
from covec.statistics.intervals import auroc_figure
from covec.studies import _judge as judge
from covec.studies._holdout import Found
from covec.studies._sweep import Data
from covec.studies.result import Studies, Study


def cosines(data: Mapping[str, Data], studies: Mapping[str, Study]) -> dict[str, Any]:
    """Cosines between the concepts' differences of means, at the cell that most of them selected."""
    chosen = [(one.selected.site, one.selected.position) for one in studies.values()]
    site, position = max(chosen, key=chosen.count)
    directions = torch.nn.functional.normalize(
        torch.stack([one.difference_of_means(site, position) for one in data.values()]), dim=1
    )
    return {str(site): {"concepts": list(data), "matrix": (directions @ directions.T).tolist()}}


def wrong_concepts(data: Data, found: Found, others: Mapping[str, Data], seed: int) -> dict[str, Figure]:
    """AUROC of the other concepts' differences of means, at the winner's cell, on this concept's test rows.

    None is fitted on a text that it is judged on; a concept that has too few others for that is left out.
    """
    figures = {}
    for name, other in others.items():
        scores = None if other is data else _scores(data, found, other)
        if scores is not None:
            figures[name] = auroc_figure(scores, found.test.labels, found.test.groups, 0.5, seed=seed)
    return figures


def _scores(data: Data, found: Found, other: Data) -> Float[np.ndarray, "n"] | None:
    """Scores of the test rows by `other`'s difference of means; of each fold by that of the texts outside of it."""
    cell = (found.winner.site, found.winner.position)
    folds = np.asarray(found.test.folds or [0] * len(found.test_rows))
    scores = np.empty(len(folds))
    for fold in np.unique(folds):
        tested = found.test_rows[folds == fold]
        judged = {data.examples.keys[row] for row in tested}
        rest = np.array([row for row, key in enumerate(other.examples.keys) if key not in judged], dtype=np.intp)
        truth = other.labels[rest]
        if truth.all() or not truth.any():
            return None
        direction = other.difference_of_means(*cell, rest)
        own = other.at(*cell, rest) @ direction  # on whose scale the folds can be pooled
        scores[folds == fold] = ((data.at(*cell, tested) @ direction - own.mean()) / own.std()).numpy()
    return scores


def multiplicity_warnings(studies: Studies) -> tuple[str, ...]:
    """Which verdicts do not outlive having asked for several concepts."""
    fragile = [
        f"{name} (p {p:.2g})"
        for name, p in studies.p_holm.items()
        if studies[name].verdict not in ("not-found", "too-little-data") and p > judge.LEVEL
    ]
    if not fragile:
        return ()
    told = f"corrected for having looked for {len(studies)} concepts (Holm), p is above {judge.LEVEL:g} for"
    return (f"{told} {', '.join(fragile)}: that they were found may be luck",)
