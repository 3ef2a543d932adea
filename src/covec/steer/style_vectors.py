"""Style vectors: what texts in a style leave in the network, added while it writes.

Konen et al., "Style Vectors for Steering Generative Large Language Models", arXiv:2402.01618, equations 2 to 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector, Part
from covec.edits.algebra import Edit
from covec.find.mean_difference import MeanDifference
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.registry import method
from covec.steer._steering import Steering, provenance

INSERTED = 3  # blocks in a row that the paper edits: 18, 19 and 20 of 32


@method("style-vectors", verb="steer", needs="model", card="style-vectors")
class StyleVectors(Steering):
    """Differences of mean activations at several blocks, added there at every token.

    With `a_l(x)` the activation of the last token of `x` after block l, the style vector is the mean of `a_l` over the
    style's texts minus the mean over all others. Strength is the paper's lambda, for the raw vector at each block;
    three blocks together move a text about three times as far as one. A vector added to what a block's MLP writes is
    added to the residual stream after it, so the sites are `resid.k`, where the vectors are read.

    Parameters
    ----------
    sites
        Where to read and add; three blocks from 9/16 of the depth unless given, as in the paper.
    """

    def __init__(self, sites: str | Site | Sequence[str | Site] | None = None) -> None:
        self.sites = sites

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        sites = model.select(_inserted(model.blocks) if self.sites is None else self.sites)
        rows = model.capture(examples.inputs, sites, "last", progress=progress)
        common = provenance(model, examples, self.entry)
        parts: dict[Site, Part] = {}
        for site in sites:
            found = MeanDifference().fit(rows[site], examples.labels)
            vector = ConceptVector.from_direction(
                examples.name, site, found.direction_, found.mean_positive_, found.mean_negative_
            )
            parts |= vector.parts
        self.vectors = Bank([ConceptVector(examples.name, parts, **common)])
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        (vector,) = self._fitted().values()
        added: tuple[Edit, ...] = vector.add(strength)
        return added if strength else ()


def _inserted(blocks: int) -> list[Site]:
    """Three blocks from 9/16 of the depth, fewer where there are no more."""
    first = 9 * blocks // 16
    return [Site("resid", block) for block in range(first, min(first + INSERTED, blocks))]
