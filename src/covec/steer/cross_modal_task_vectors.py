"""Cross-modal task vectors: what a model has at the end of a prompt that shows a task, put where nothing shows it.

Luo, Darrell and Bar, "Vision-Language Models Create Cross-Modal Task Representations", arXiv:2410.22330.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from jaxtyping import Float
from torch import Tensor

from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Edit
from covec.edits.blend import Blend
from covec.errors import CovecError
from covec.find.mean_difference import MeanDifference
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Input
from covec.progress import Progress, silent
from covec.registry import method
from covec.steer._steering import Steering, provenance

LAST = Position("last")


@method("cross-modal-task-vectors", verb="steer", needs="model", card="cross-modal-task-vectors")
class CrossModalTaskVectors(Steering):
    """The mean activation at the last token of prompts that show a task, in the place of a query's own.

    Positives are prompts that show the task by examples and end where the answer comes; negatives show none, as their
    answers are shuffled (`covec.concepts.demonstrations` makes both). The activation is replaced, not moved: adding
    would leave what the query asks for by itself. It is one token, the prompt's last, and so one pass, in which the
    prompt is read.

    Strength 1 puts the mean of the positives there, strength -1 that of the negatives. Weaker ones go that share of the
    way, and stronger ones beyond, along the line from the one mean to the other.

    Parameters
    ----------
    site
        Where to read and write; the middle block unless given. The paper tries several on held-out queries: too late,
        and what is put there is an answer and no task.
    instructions
        Prompts that ask for the task in words and end where the answer comes. Where there are some, half of what is put
        is their mean, as in the paper's ensemble.
    """

    def __init__(self, site: str | Site | None = None, instructions: Sequence[Input] = ()) -> None:
        self.site, self.instructions = site, instructions

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        sites = model.select(Site("resid", model.blocks // 2) if self.site is None else self.site)
        if len(sites) > 1:
            raise CovecError(f"a task vector is put at one site, not at {len(sites)}: name one, such as {sites[0]}")
        (site,) = sites
        found = MeanDifference().fit(
            model.capture(examples.inputs, site, "last", progress=progress)[site], examples.labels
        )
        shown = found.mean_positive_
        if self.instructions:
            shown = (shown + task_vector(model, self.instructions, site)) / 2
        vector = ConceptVector.from_direction(
            examples.name, site, shown - found.mean_negative_, shown, found.mean_negative_, write_position=LAST
        )
        common = provenance(model, examples, self.entry)
        self.vectors = Bank([replace(vector, operation="replace", **common)])
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        (vector,) = self._fitted().values()
        if not math.isfinite(strength):
            raise CovecError(f"a steering strength must be a finite number, not {strength}")
        if not strength:
            return ()
        part, site = vector.parts[vector.site], vector.site
        start: Any = part.mean_positive if strength > 0 else part.mean_negative
        beyond = max(0.0, abs(strength) - 1) * math.copysign(1.0, strength)
        value, share = start + beyond * vector.write, min(1.0, abs(strength))
        return (Blend(site=site, value=value, share=share, position=LAST, fingerprint=vector.model.get("fingerprint")),)


def task_vector(model: TextModel, prompts: Sequence[Input], site: str | Site) -> Float[Tensor, "d"]:
    """The mean activation at the last token of `prompts`, which all show or name one task."""
    (address,) = model.select(site)
    mean: Tensor = model.capture(list(prompts), address, "last")[address].mean(0)
    return mean
