"""Names of concept vectors: every way to name, for every direction of a vector or bank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from covec import registry
from covec.concepts.vector import ConceptVector
from covec.errors import ModelError
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.name._namer import Namer, Weighted
from covec.progress import Progress, silent


@dataclass(frozen=True)
class Names:
    """What one way to name says of one direction.

    Parameters
    ----------
    concept, site, row
        The vector, where it is, and which of its directions it is there, from 0.
    by
        The way to name.
    names
        Texts with weights, largest first; those that the direction turns down have negative ones.
    """

    concept: str
    site: Site
    row: int
    by: str
    names: tuple[tuple[str, float], ...]

    @property
    def up(self) -> Weighted:
        """The texts that the direction turns up, most first."""
        return [(text, weight) for text, weight in self.names if weight > 0]

    @property
    def down(self) -> Weighted:
        """The texts that it turns down, most first."""
        return [(text, weight) for text, weight in reversed(self.names) if weight < 0]

    def __str__(self) -> str:
        up, down = (", ".join(text for text, _ in side) or "nothing" for side in (self.up, self.down))
        row = f", direction {self.row}" if self.row else ""
        return f"{self.concept} at {self.site}{row}, by {self.by}\n  up    {up}\n  down  {down}"

    def to_json(self) -> dict[str, Any]:
        """As `covec name --json` prints it."""
        sides = {
            name: [{"text": text, "weight": weight} for text, weight in side]
            for name, side in (("up", self.up), ("down", self.down))
        }
        return {"concept": self.concept, "site": str(self.site), "row": self.row, "by": self.by, **sides}


def describe(
    model: TextModel,
    vectors: ConceptVector | Mapping[str, ConceptVector] | Sequence[ConceptVector],
    by: Sequence[str | Namer] = (),
    *,
    count: int = 10,
    force: bool = False,
    progress: Progress = silent,
) -> list[Names]:
    """What `vectors` stand for in `model`, in words.

    Parameters
    ----------
    vectors
        A vector, a bank or several. What is named is what strength 1 adds, at every site of a vector.
    by
        Ways to name, by their names or made with parameters of their own; all there are unless given.
    count
        Texts on either side of a direction, for ways that are given by name.
    force
        Take vectors that were found in another model.

    Raises
    ------
    CovecError
        A vector belongs to another model, or has no directions (a prefix, a change of weights).
    """
    given = [vectors] if isinstance(vectors, ConceptVector) else _listed(vectors)
    for vector in given:
        if vector.kind not in ("direction", "subspace"):
            raise ModelError(f"{vector.name!r} is of kind {vector.kind}, which has no direction to name")
        vector.check_model(model.describe(), force=force)
    ways = [_way(one, count) for one in by or registry.names("name")]
    parts = [(vector.name, site, part.write) for vector in given for site, part in vector.parts.items()]
    found = []
    with progress(f"naming {len(given)} vectors", len(parts) * len(ways)) as bar:
        for concept, site, rows in parts:
            for way in ways:
                for row, names in enumerate(way.name(model, rows, site)):
                    found.append(Names(concept, site, row, way.entry.name, tuple(names)))
                bar.advance()
    return found


def _listed(vectors: Mapping[str, ConceptVector] | Sequence[ConceptVector]) -> list[ConceptVector]:
    return list(vectors.values() if isinstance(vectors, Mapping) else vectors)


def _way(given: str | Namer, count: int) -> Namer:
    made: Namer = registry.get("name", given)(count=count) if isinstance(given, str) else given
    return made
