"""Affine concept editing (ACE): the concept is set to an amount, whatever amount was there.

Marshall, Scherlis and Belrose, "Refusal in LLMs is an Affine Function", arXiv:2411.09003.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector, Part
from covec.edits.algebra import Edit
from covec.edits.joint import set_scores
from covec.errors import CovecError
from covec.find.mean_difference import MeanDifference
from covec.find.whitened_difference import WhitenedDifference
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.registry import method
from covec.steer._steering import Steering, provenance

READ_BY = {"orthogonal": MeanDifference, "oblique": WhitenedDifference}


@method("affine-concept-editing", verb="steer", needs="model", card="affine-concept-editing")
class AffineConceptEditing(Steering):
    """Take out what a token has of the concept, and put the wanted amount in its place.

    With m- and m+ the class means of the last tokens, r their difference and P the projection onto it, an activation v
    becomes v - P v + P m- + a r. Its standardised coordinate is then a for every input: 0 as without the concept, 1 as
    with it. Adding alone (v + a r) leaves inputs as far apart as they were; ablating alone (v - P v) leads to the
    origin, where neither class stands.

    Strength 1 sets the amount 1 and strength -1 the amount 0; stronger ones go on from there, and weaker ones go that
    share of the way from where a token is. `amount` takes the paper's own number.

    Parameters
    ----------
    sites
        Where to edit; the middle block unless given. Several are edited with the same amount.
    projection
        `orthogonal` (the paper), or `oblique`: P = r w', with w the difference of means in the metric of the inverse
        covariance, as LEACE's eraser. Both class means then land where they do under the orthogonal one.
    """

    def __init__(self, sites: str | Site | Sequence[str | Site] | None = None, projection: str = "orthogonal") -> None:
        self.sites, self.projection = sites, projection

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        if self.projection not in READ_BY:
            raise CovecError(f"a projection is {' or '.join(READ_BY)}, not {self.projection!r}")
        sites = model.select(Site("resid", model.blocks // 2) if self.sites is None else self.sites)
        rows = model.capture(examples.inputs, sites, "last", progress=progress)
        parts: dict[Site, Part] = {}
        for site in sites:
            found = READ_BY[self.projection]().fit(rows[site], examples.labels)
            parts |= ConceptVector.from_direction(
                examples.name, site, found.direction_, found.mean_positive_, found.mean_negative_
            ).parts
        common = provenance(model, examples, self.entry)
        self.vectors = Bank([ConceptVector(examples.name, parts, **common)])
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        if not math.isfinite(strength):
            raise CovecError(f"a steering strength must be a finite number, not {strength}")
        beyond, share = max(1.0, abs(strength)), min(1.0, abs(strength))
        return self.amount(beyond if strength > 0 else 1 - beyond, share) if self._fitted() and strength else ()

    def amount(self, amount: float, share: float = 1.0) -> tuple[Edit, ...]:
        """Edits that leave the paper's `amount` of the concept in every token: 0 the mean without it, 1 with it."""
        (vector,) = self._fitted().values()
        return set_scores(vector, amount - 0.5, share=share)
