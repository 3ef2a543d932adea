"""Soft concepts: the mean embedding of what a model is about to say, mixed into the stream that its head reads.

"Improving Latent Reasoning in LLMs via Soft Concept Mixing" (SCM), arXiv:2511.16885, of which no more than the two
equations could be had.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.edits.algebra import Edit, _wide
from covec.errors import ModelError
from covec.models.plan import Pass
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MixSoftConcept(Edit):
    """h + share x sum_i p_i e_i, with p = softmax(W h): e is the table of embeddings, W the head.

    `top` leaves only the likeliest tokens, of which p is then the share among them.
    """

    embeddings: Float[Tensor, "v d"]
    head: Float[Tensor, "v d"]
    share: float = 1.0
    top: int | None = None

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        wide = _wide(h)
        return (wide + self.share * soft_concept(wide, self.embeddings, self.head, self.top)).to(h.dtype)


def soft_concept(
    h: Float[Tensor, "*rows d"],
    embeddings: Float[Tensor, "v d"],
    head: Float[Tensor, "v d"],
    top: int | None = None,
) -> Float[Tensor, "*rows d"]:
    """The mean embedding, weighted by how likely each token is after the last hidden state `h`."""
    logits, table = h @ head.to(h.dtype).T, embeddings.to(h.dtype)
    if top is None:
        return logits.softmax(-1) @ table
    kept = logits.topk(top, -1)
    likely = torch.full_like(logits, -torch.inf).scatter(-1, kept.indices, kept.values).softmax(-1)
    return likely @ table


def mix_soft_concept(model: TextModel, share: float = 1.0, top: int | None = None) -> MixSoftConcept:
    """The edit that mixes soft concepts into what the head of `model` reads, of every token.

    It holds the model's own tables, so that gradients reach them where the model is trained with it in force.

    Raises
    ------
    ModelError
        The head does more than multiply by a table as wide as the embeddings, or `top` is not a number of tokens.
    """
    table, head = (_weight(one) for one in (model.module.get_input_embeddings, model.module.get_output_embeddings))
    if table is None or head is None or table.shape[1] != head.shape[1] or table.shape[0] != head.shape[0]:
        raise ModelError(f"{model.name} has no head over tokens as wide as its embeddings: there is nothing to mix")
    if top is not None and not 1 <= top <= len(head):
        raise ModelError(f"top is a number of tokens from 1 to {len(head)}, not {top}")
    with torch.no_grad():
        sample = head[:4]
        if not torch.allclose(Split(model, "embed").logits(sample), sample @ head.T, rtol=1e-2, atol=1e-2):
            raise ModelError(
                f"the head of {model.name} scales, caps or shifts its logits, so that the edit would mix something else"
            )
    return MixSoftConcept(
        site=Site("final"), position=Position("all"), embeddings=table, head=head, share=share, top=top
    )


def _weight(part: object) -> Tensor | None:
    """The table of the embeddings or of the head, where there is one."""
    weight = getattr(part() if callable(part) else None, "weight", None)
    return weight if isinstance(weight, Tensor) else None
