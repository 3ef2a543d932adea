"""Principal component of paired differences: what the two members of a pair differ in most.

Zou et al., "Representation Engineering", arXiv:2310.01405, section 3.1, in the form of steering-vectors and repeng.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from covec.errors import ExamplesError
from covec.find._finder import Finder
from covec.find._rows import Rows
from covec.registry import method


@method(
    "pca-pairs",
    verb="find",
    requires=("pairs",),
    cannot={
        "hard direction found": "the largest spread within pairs is the concept only where they share all else",
        "loud dimension survived": "the largest spread decides, and features are not standardised, as published",
        "shuffled labels find nothing": "a spread has no sign: labels swapped within pairs only say which end is more",
    },
)
class PcaPairs(Finder):
    """First principal component, about zero, of the differences positive minus negative within pairs.

    It maximises the spread of the differences, not what separates the classes: it needs pairs that differ in little
    but the concept. Rows without a partner count in the class means alone.
    """

    closed_form = True

    def fit_rows(self, rows: Rows) -> Self:
        differences = paired_differences(rows)
        _, vectors = torch.linalg.eigh(differences @ differences.T)
        self.direction_ = vectors[:, -1] @ differences
        return self


def paired_differences(rows: Rows, asked_by: str = "pca-pairs") -> Float[Tensor, "pairs d"]:
    """Mean of the positives minus mean of the negatives of every pair that has both (float64).

    Raises
    ------
    ExamplesError
        There are no pairs, or fewer than two have a row of each class.
    """
    if rows.pairs is None:
        raise ExamplesError(f"{asked_by} needs pairs: give the pair id of each row, or choose another finder")
    members: dict[object, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for row, (pair, positive) in enumerate(zip(rows.pairs, rows.positive.tolist(), strict=True)):
        if pair is not None:
            members[pair][positive].append(row)
    complete = [both for both in members.values() if all(both)]
    if len(complete) < 2:
        raise ExamplesError(f"{asked_by} needs two pairs with a row of each class, these rows have {len(complete)}")
    X = rows.X.double()
    return torch.stack([X[positive].mean(0) - X[negative].mean(0) for negative, positive in complete])
