"""Matrices of cosines between concepts, as tables that are coloured by sign and size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from covec.report.tokens import shade
from covec.report.words import fixed


@dataclass(frozen=True)
class Matrix:
    """Cosines at one site: names, and rows of (number, class of its shade)."""

    site: str
    names: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]


def matrices(cosines: Mapping[str, Any]) -> list[Matrix]:
    """The matrices of `Studies.cosines`, one a site."""
    return [
        Matrix(
            site,
            tuple(matrix["concepts"]),
            tuple(tuple((fixed(value, signed=True), shade(value, 1.0)) for value in row) for row in matrix["matrix"]),
        )
        for site, matrix in cosines.items()
    ]
