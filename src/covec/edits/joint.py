"""Edits that set the scores of one or several concepts at once, moving along what the concepts write.

`set_coordinate` moves along the direction that reads. Here an activation moves along the shift that was learned, and
where several concepts overlap, each one's share is chosen so that all scores come out as they are wanted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from covec.concepts.vector import ConceptVector
from covec.edits.affine import Affine, affine
from covec.edits.algebra import Edit, _check_size, _common, _wide
from covec.errors import ModelError
from covec.models.plan import Pass
from covec.models.positions import Position
from covec.models.sites import Site

ALIKE = 100.0  # how many times as far as alone a token may have to move because concepts overlap


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SetScores(Edit):
    """Bring every score `readers . h + offsets` to its target by a move along `writes`, or `share` of the way there.

    Affine concept editing (arXiv:2411.09003): with one concept of reference m- and shift r this is v - proj(v) +
    proj(m-) + a r, where the projection is orthogonal if `readers` lie along r, and oblique, as LEACE's, if not.
    `readers` and `writes` are dual: `readers @ writes.T` is the identity.
    """

    readers: Float[Tensor, "k d"]
    writes: Float[Tensor, "k d"]
    offsets: Float[Tensor, "k"]
    targets: Float[Tensor, "k"]
    share: float = 1.0

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        wide = _wide(h)
        readers, writes = self.readers.to(wide.dtype), self.writes.to(wide.dtype)
        missing = (self.targets - self.offsets).to(wide.dtype) - wide @ readers.T
        return (wide + (self.share * missing) @ writes).to(h.dtype)


@affine.register
def _(edit: SetScores) -> Affine:
    readers, writes, missing = (
        one.detach().double().cpu() for one in (edit.readers, edit.writes, edit.targets - edit.offsets)
    )
    return Affine(-edit.share * writes.T, readers, edit.share * missing @ writes)


def set_scores(
    vectors: ConceptVector | Sequence[ConceptVector],
    scores: float | Sequence[float],
    *,
    share: float = 1.0,
    position: str | Position | None = None,
    gate: Any = None,
) -> tuple[SetScores, ...]:
    """Edits that give every token these scores of these vectors, -0.5 and 0.5 being the class means.

    A token moves along the vectors' `write`, at every site where they have parts; all of them must have the same sites.
    `share` is how much of the way it goes.

    Raises
    ------
    ModelError
        A score is not finite, models or sites differ, or two vectors write almost the same.
    """
    listed = [vectors] if isinstance(vectors, ConceptVector) else list(vectors)
    wanted = [float(score) for score in (scores if isinstance(scores, Sequence) else [scores])]
    if not all(map(math.isfinite, wanted)):
        raise ModelError(f"a score must be a finite number, not {next(s for s in wanted if not math.isfinite(s))}")
    if len(wanted) != len(listed) or not listed:
        raise ModelError(f"{len(listed)} vectors and {len(wanted)} scores: give one score a vector")
    if len({one.model.get("fingerprint") for one in listed} - {None}) > 1:
        raise ModelError("these vectors were found in different models: give vectors of one")
    if strange := next((one for one in listed if set(one.sites) != set(listed[0].sites)), None):
        raise ModelError(
            f"{strange.name} and {listed[0].name} have parts at different sites: choose one with .at(site)"
        )
    common = _common(listed[0], position, gate)
    return tuple(SetScores(site=site, share=share, **_dual(listed, wanted, site), **common) for site in listed[0].sites)


def _dual(vectors: Sequence[ConceptVector], scores: Sequence[float], site: Site) -> dict[str, Any]:
    """Readers of the scores, the moves that raise one score by 1 and no other one, offsets and targets."""
    parts = [vector.parts[site] for vector in vectors]
    for part, score in zip(parts, scores, strict=True):
        _check_size(abs(score) * float(part.write.double().norm()), part, f"a score of {score}")
    readers = torch.cat([part.direction.double() / part.scale[:, None] for part in parts])
    writes = torch.cat([part.write.double() for part in parts])
    raised = readers @ writes.T  # by how much each shift raises every score; 1 on the diagonal
    overlap = normalize(readers, dim=1) @ normalize(writes, dim=1).T
    if float(torch.linalg.svdvals(overlap)[-1]) * ALIKE < float(overlap.diagonal().min()):
        names = " and ".join(vector.name for vector in vectors)
        raise ModelError(
            f"{names} write almost the same at {site}, and their scores cannot be set apart: leave one out"
        )
    targets = torch.cat(
        [part.intercept.new_full((part.rank,), score) for part, score in zip(parts, scores, strict=True)]
    )
    return {
        "readers": readers.float(),
        "writes": torch.linalg.solve(raised.T, writes).float(),
        "offsets": torch.cat([part.intercept / part.scale for part in parts]),
        "targets": targets,
    }
