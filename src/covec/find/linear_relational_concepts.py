"""Linear relational concepts: what a subject holds where the model will say an object of it, from the model's own map.

"Identifying Linear Relational Concepts in Large Language Models", arXiv:2311.08968; the map from subject to object is
that of "Linearity of Relation Decoding in Transformer Language Models", arXiv:2308.09124.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from covec.activations.jacobian import Linearised
from covec.concepts.examples import Examples
from covec.errors import ExamplesError, ModelError
from covec.find._facts import Facts
from covec.find._finder import Finder
from covec.find._rows import Labels
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.registry import method

RANK = 0.05  # of the width; the paper finds accuracy and causality best about rank 200 of 4096
_ROUNDING = 1e-6  # of the largest singular value


@method(
    "linear-relational-concepts",
    verb="find",
    needs="model",
    card="linear-relational-concepts",
    requires=("inputs", "spans", "object"),
    cannot={
        "what later layers read is found": "as published it is where such subjects stand, not how they differ from "
        "others: what all subjects share is in it, and in a random network that is most of it",
    },
)
class LinearRelationalConcepts(Finder):
    """What a subject holds where the model will say the positives' objects: its map to the object, taken back.

    Each row is a text that calls for the `object` of the subject in its span, in one token or several. About some
    texts, of as many objects as there are, what tells the object at `object_site` is linear in the activation of the
    subject's last token. The mean of these maps, inverted at low rank, takes what tells the positives' objects back to
    the subject. Sites behind `object_site` have no such map, and get the first axis.

    Parameters
    ----------
    texts
        Texts about which the map is taken; each costs a backward pass for some dimensions of the stream.
    rank
        Singular values to invert, for the small ones blow up noise; 5% of the width where None.
    object_site
        Where the object is told; the last block serves the next token alone.
    answered
        Leave out texts that the model does not go on with their object: their map is another relation's.
    """

    def __init__(
        self, texts: int = 5, rank: int | None = None, object_site: str | Site = "resid.70%", answered: bool = True
    ) -> None:
        self.texts, self.rank, self.object_site, self.answered = texts, rank, object_site, answered

    @classmethod
    def check(cls, model: TextModel, examples: Examples) -> None:
        Facts.of(model, examples.inputs, examples.spans, examples.column("object"))

    def fit_model(
        self, model: TextModel, examples: Examples, site: str | Site, position: str | Position = "span/mean"
    ) -> Self:
        """Fit on `examples` as `model` shows them at one site, at the last token of each subject."""
        ends = [None if span is None else (span[1] - 1, span[1]) for span in examples.spans or [None] * len(examples)]
        return super().fit_model(model, replace(examples, spans=tuple(ends)), site, position)

    def read_model(self, model: TextModel, sites: tuple[Site, ...], labels: Labels, width: int) -> Float[Tensor, "s d"]:
        if self.texts < 1 or (self.rank is not None and self.rank < 1):
            raise ExamplesError(
                f"{self.entry.name} takes a text and a rank of 1 at least, not {self.texts}, {self.rank}"
            )
        facts = Facts.of(model, *(labels.columns[name] for name in ("inputs", "spans", "object")))
        rows = facts.answered() if self.answered else list(range(len(facts)))
        having = [row for row in rows if labels.positive[row]]
        if not having or len({facts.objects[row] for row in rows}) < 2:
            raise ExamplesError(
                f"{model.name} goes on with the object in {len(rows)} of {len(facts)} texts, {len(having)} of them "
                "positive: put solved examples before each text, or set answered=False"
            )
        (site,) = model.select(self.object_site)
        chosen = facts.balanced(rows, self.texts)
        embedding = RelationalEmbedding.of(facts.linearised(row, sites, site) for row in chosen)
        if not embedding.weights.any():
            raise ModelError(f"nothing at {sites[-1]} leads to {site}, where the object is told: name an earlier site")
        return embedding.subjects(facts.subset(having).told(site), self.rank)


@dataclass(frozen=True)
class RelationalEmbedding:
    """What tells the object, as a linear function of the subject: weights [s, d, d] and biases [s, d]."""

    weights: Float[Tensor, "s out in"]
    biases: Float[Tensor, "s out"]

    @classmethod
    def of(cls, texts: Iterable[Linearised]) -> RelationalEmbedding:
        """The mean over texts."""
        weights, biases, count = torch.zeros(()), torch.zeros(()), 0
        for one in texts:
            weights, biases, count = weights + one.jacobians, biases + one.offsets, count + 1
        return cls(weights / count, biases / count)

    def subjects(self, told: Float[Tensor, "k out"], rank: int | None = None) -> Float[Tensor, "s in"]:
        """What stands at the subjects of which `told` is told, the mean of unit vectors and itself one."""
        left, sizes, right = self._factors
        rank = max(1, round(RANK * sizes.shape[1])) if rank is None else rank
        kept = (sizes / sizes[:, :1] > _ROUNDING) & (torch.arange(sizes.shape[1]) < rank)
        inverse = torch.where(kept, 1 / sizes, 0.0)
        back = torch.einsum("sko,sor,sr,sri->ski", told - self.biases[:, None], left, inverse, right)
        return normalize(normalize(back, dim=2).mean(1), dim=1)

    @cached_property
    def _factors(self) -> tuple[Tensor, Tensor, Tensor]:
        left, sizes, right = torch.linalg.svd(self.weights, full_matrices=False)
        return left, sizes, right
