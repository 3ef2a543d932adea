"""Control vectors for reasoning: the state of a model that solved a task, added back, and what that does to answers.

"Improving Reasoning Performance in Large Language Models via Representation Engineering", ICLR 2025.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector, Part
from covec.edits.algebra import Add, Edit
from covec.edits.encoded import encoded
from covec.edits.norms import AddKeepingNorm
from covec.errors import CovecError, ExamplesError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.registry import method
from covec.statistics.figure import Figure
from covec.steer._steering import Steering, provenance

VECTORS = ("contrast", "mean", "pca")
CONTENT = Position("content")


@method("reasoning-control-vectors", verb="steer", needs="model", card="reasoning-control-vectors")
class ReasoningControlVectors(Steering):
    """One vector of the last tokens of solved tasks, added at one middle block to every token.

    With h+ of tasks with the right answer and h- of the same with another one: R is the mean of h+ (`mean`), R-C the
    mean of h+ - h- (`contrast`), PCA-C the first component of the differences, as long as their mean (`pca`). Its sign
    is the one in which the mean difference is positive. `figures` of a `pca` vector have its cosine with R-C: where the
    mean difference is taken away first, as published, it may be anything.

    Parameters
    ----------
    vector
        One of `contrast`, `mean` and `pca`; the last needs examples in pairs.
    block
        Where to read and add; the middle one unless given.
    centre
        Whether the mean difference is taken away before the components are found, as published.
    keep_norm
        Bring every token back to the length it had.
    """

    def __init__(
        self, vector: str = "contrast", block: int | None = None, centre: bool = True, keep_norm: bool = False
    ) -> None:
        self.vector, self.block, self.centre, self.keep_norm = vector, block, centre, keep_norm

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        if self.vector not in VECTORS:
            raise CovecError(f"a control vector is one of {', '.join(VECTORS)}, not {self.vector!r}")
        if examples.labels.all() or not examples.labels.any():
            raise ExamplesError("solved tasks and others are needed: give examples of both classes")
        (site,) = model.select(Site("resid", model.blocks // 2 if self.block is None else self.block))
        rows = model.capture(examples.inputs, [site], "last", progress=progress)[site]
        labels, common = torch.from_numpy(examples.labels), provenance(model, examples, self.entry)
        positive, negative = rows[labels].mean(0), rows[~labels].mean(0)
        if self.vector == "mean":  # it does not tell the classes apart: there is no more or less of it
            length = positive.norm()
            part = Part(positive[None] / length, positive[None], torch.zeros(1), length[None])
            made = ConceptVector(examples.name, {site: part}, scale_from="native", **common)
        else:
            contrast = positive - negative
            write = contrast if self.vector == "contrast" else _component(rows, examples, self.centre, contrast)
            cosine = float(torch.cosine_similarity(write, contrast, dim=0))
            figures = {"cosine": Figure(cosine, n=len(rows), how="cosine with the mean difference (R-C)")}
            made = ConceptVector.from_direction(
                examples.name, site, write, positive, negative, write=write, figures=figures, **common
            )
        self.vectors = Bank([made])
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        if not math.isfinite(strength):
            raise CovecError(f"a steering strength must be a finite number, not {strength}")
        (vector,) = self._fitted().values()
        added: tuple[Add, ...] = vector.add(strength, position=CONTENT) if strength else ()
        if not self.keep_norm:
            return added
        return tuple(
            AddKeepingNorm(site=one.site, shift=one.shift, position=one.position, fingerprint=one.fingerprint)
            for one in added
        )


def _component(
    rows: Float[Tensor, "n d"], examples: Examples, centre: bool, contrast: Float[Tensor, "d"]
) -> Float[Tensor, "d"]:
    """The first principal component of the pairs' differences, as long as their mean and on its side."""
    if examples.pairs is None:
        raise ExamplesError("a component of differences needs pairs: give paired examples, or vector='contrast'")
    mates: dict[object, dict[bool, int]] = {}
    for row, (pair, label) in enumerate(zip(examples.pairs, examples.labels, strict=True)):
        mates.setdefault(pair, {})[bool(label)] = row
    both = [pair for pair in mates.values() if len(pair) == 2]
    differences = (rows[[pair[True] for pair in both]] - rows[[pair[False] for pair in both]]).double()
    if centre:
        differences = differences - differences.mean(0)
    component = torch.linalg.svd(differences, full_matrices=False).Vh[0].float()
    along = float(component @ contrast)
    if not along:
        raise ExamplesError("the pairs do not differ along their first component: give other pairs")
    return component * contrast.norm() * (1 if along > 0 else -1)


@dataclass(frozen=True)
class Said:
    """What answers become under an edit, each a number a prompt [n].

    `divergence` is KL from the edited distribution to the plain one, KL(edited || plain), `reverse` the other way
    round, `entropy` that of the edited one, all in nats over the whole vocabulary; `probability` is that of the right
    answer among the candidates, and `right` whether it is the likeliest of them.
    """

    divergence: Float[np.ndarray, "n"]
    reverse: Float[np.ndarray, "n"]
    entropy: Float[np.ndarray, "n"]
    probability: Float[np.ndarray, "n"]
    right: Float[np.ndarray, "n"]


class Diagnosis:
    """Answers to prompts, as the next token, under edits at one site; the blocks below it run once.

    Parameters
    ----------
    candidates
        All answers that count, each known by its first token.
    correct
        The right one of every prompt.
    """

    def __init__(
        self,
        model: TextModel,
        site: str | Site,
        prompts: Sequence[str],
        candidates: Sequence[str],
        correct: Sequence[str],
    ) -> None:
        if len(prompts) != len(correct) or not set(correct) <= set(candidates):
            raise ExamplesError("every prompt needs its right answer, and that must be one of the candidates")
        ids = [model.tokenizer(f" {one.strip()}", add_special_tokens=False)["input_ids"][0] for one in candidates]
        if len(set(ids)) < len(ids):
            raise ExamplesError(f"two candidates begin with the same token: {', '.join(candidates)}")
        self._ids, self._right = ids, np.array([list(candidates).index(one) for one in correct])
        self._split = Split(model, site)
        self._batches = encoded(self._split, model.tokenize(prompts), CONTENT)
        self._plain = self._likely(None)

    def under(self, edit: Edit | None = None) -> Said:
        """What is said under an edit; without one, as it is."""
        likely = self._plain if edit is None else self._likely(edit)
        p, q = likely.exp(), self._plain.exp()
        among = likely[:, self._ids].softmax(1).numpy()
        return Said(
            (p * (likely - self._plain)).sum(1).numpy(),
            (q * (self._plain - likely)).sum(1).numpy(),
            -(p * likely).sum(1).numpy(),
            among[np.arange(len(among)), self._right],
            (among.argmax(1) == self._right).astype(float),
        )

    def _likely(self, edit: Edit | None) -> Float[Tensor, "n vocabulary"]:
        found: dict[int, Tensor] = {}
        with torch.no_grad():
            for one in self._batches:
                last = one.decode(edit)
                ends = [layout.length - 1 for layout in one.batch.layouts]
                logits = self._split.logits(last[torch.arange(len(ends)), ends]).float().log_softmax(1).cpu()
                found |= dict(zip(one.batch.rows, logits, strict=True))
        return torch.stack([found[row] for row in range(len(found))])
