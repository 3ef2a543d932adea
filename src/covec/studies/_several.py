"""Several concepts at once: how near they are to one another, and what it costs to have asked for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

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
    """AUROC of the other concepts' differences of means, at the winner's cell, on this concept's test rows."""
    cell = (found.winner.site, found.winner.position)
    rows = data.at(*cell, found.test_rows)
    return {
        name: auroc_figure((rows @ other.difference_of_means(*cell)).numpy(), found.test.labels, null=0.5, seed=seed)
        for name, other in others.items()
        if other is not data
    }


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
