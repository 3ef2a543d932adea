"""Scores of concept vectors at every token, whatever their number and sites, from one forward pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.capture import run_batches
from covec.concepts.vector import ConceptVector
from covec.errors import ModelError
from covec.models.batching import TOKEN_BUDGET, Batch, unique
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Tokenized
from covec.progress import Progress, silent

Vectors = ConceptVector | Mapping[str, ConceptVector] | Sequence[ConceptVector]


def listed(vectors: Vectors) -> list[ConceptVector]:
    """One vector, a bank or several vectors as a list."""
    if isinstance(vectors, ConceptVector):
        return [vectors]
    given = vectors.values() if isinstance(vectors, Mapping) else vectors
    found = list(given) if isinstance(given, Iterable) else [given]
    for vector in found:
        if not isinstance(vector, ConceptVector):
            raise ModelError(f"{type(vector).__name__} is no concept vector: give one, several, or a bank")
    if not found:
        raise ModelError("no concept vector was given")
    return found


@dataclass(frozen=True, eq=False)
class Readers:
    """All directions of several vectors by site, each row in units of its own class means.

    The score of a vector with several directions, at one site or at several, is the mean of theirs: class means stay at
    -0.5 and 0.5.

    Parameters
    ----------
    directions, offsets
        A site's directions over their scales [m, d], and intercepts over scales [m].
    shares
        The part of each row in each vector's score [m, k].
    """

    directions: dict[Site, Float[Tensor, "m d"]]
    offsets: dict[Site, Float[Tensor, "m"]]
    shares: dict[Site, Float[Tensor, "m k"]]

    @classmethod
    def of(cls, model: TextModel, vectors: Sequence[ConceptVector], *, force: bool = False) -> Readers:
        """Readers for `model`; raises where a vector was made for another or cannot be read."""
        rows: dict[Site, list[tuple[Tensor, Tensor, Tensor]]] = {}
        for place, vector in enumerate(vectors):
            _check(model, vector, force)
            share = torch.zeros(len(vectors), dtype=torch.float32, device="cpu")
            share[place] = 1 / sum(part.rank for part in vector.parts.values())
            for site, part in vector.parts.items():
                for row in range(part.rank):
                    scale = part.scale[row]
                    rows.setdefault(site, []).append((part.direction[row] / scale, part.intercept[row] / scale, share))
        stacked = {site: [torch.stack(column) for column in zip(*found, strict=True)] for site, found in rows.items()}
        return cls(*({site: columns[index] for site, columns in stacked.items()} for index in range(3)))

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites that are read."""
        return tuple(self.directions)

    def to(self, device: torch.device) -> Readers:
        """Themselves with what reads the activations on `device`."""
        moved = [{site: value.to(device) for site, value in group.items()} for group in (self.directions, self.offsets)]
        return replace(self, directions=moved[0], offsets=moved[1])

    def read(self, site: Site, hidden: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows m"]:
        """Scores along every direction at `site`, in float32."""
        directions = self.directions[site].to(hidden.device)
        if hidden.shape[-1] != directions.shape[-1]:
            raise ModelError(
                f"a vector is {directions.shape[-1]} wide at {site}, where the model has {hidden.shape[-1]}"
            )
        return hidden.float() @ directions.T + self.offsets[site].to(hidden.device)

    def combine(self, found: Mapping[Site, Float[Tensor, "*rows m"]]) -> Float[Tensor, "*rows k"]:
        """The score of every vector from what was read at all sites (on the CPU)."""
        with torch.autocast("cpu", enabled=False):
            return torch.stack([found[site] @ self.shares[site] for site in self.sites]).sum(0)


def token_scores(
    model: TextModel,
    readers: Readers,
    tokens: Sequence[Tokenized],
    *,
    batch_tokens: int = TOKEN_BUDGET,
    progress: Progress = silent,
) -> list[Float[np.ndarray, "tokens k"]]:
    """Scores of all vectors at every token of every input."""
    first, places = unique(tokens)
    found: dict[int, dict[Site, Tensor]] = {row: {} for row in first}
    ready = readers.to(model.device)

    def keep(site: Site, hidden: Tensor, batch: Batch) -> None:
        scores = ready.read(site, hidden).cpu()
        for place, row in enumerate(batch.rows):
            found[row][site] = scores[place, : len(tokens[row].ids)].clone()

    run_batches(model, tokens, first, model.select(readers.sites), keep, batch_tokens=batch_tokens, progress=progress)
    combined = [ready.combine(found[row]).numpy() for row in first]
    return [combined[place] for place in places]


def _check(model: TextModel, vector: ConceptVector, force: bool) -> None:
    if vector.kind not in ("direction", "subspace"):
        raise ModelError(f"{vector.name!r} is a vector of kind {vector.kind}, which writes and cannot be read")
    made_for_one = bool(vector.model.get("fingerprint")) and not force
    vector.check_model(model.describe() if made_for_one else {"name": model.name, "width": model.width}, force=force)
    for site in vector.sites:
        model.anatomy.tap(site)
