"""Low-rank adapters (LoRA): what trained vectors are judged against, trained by the same trainer."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from covec.edits.trainable import TrainableEdit
from covec.models.plan import Pass
from covec.models.sites import Site
from covec.models.text import TextModel

SCALE = 2.0  # what the product of the two maps is multiplied by: alpha over the rank


class _Adapted(nn.Module):
    """A linear map, and what the adapter adds to it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.maps: tuple[Tensor, Tensor] | None = None

    def forward(self, given: Tensor) -> Tensor:
        found: Tensor = self.linear(given)
        if self.maps is None:
            return found
        down, up = self.maps
        return found + SCALE * (given @ down.to(given.dtype).T) @ up.to(given.dtype).T


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LowRank(TrainableEdit):
    """Adapters of all linear maps of some blocks, in a copy of a model.

    It stands where edits do so that it can be trained as they are, at the stream behind the lowest block that it
    changes; there it only looks on. The copy computes with the tensors that were put in last.
    """

    observes: ClassVar[bool] = True

    model: TextModel
    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, model: TextModel, blocks: Sequence[int], rank: int, seed: int = 0) -> LowRank:
        """Adapters that change nothing yet, in a copy that shares all weights with `model`."""
        shared = {id(weight): weight for weight in model.module.parameters()}
        made = TextModel(copy.deepcopy(model.module, shared), model.tokenizer, name=f"{model.name}, adapted")
        generator, tensors = torch.Generator().manual_seed(seed), dict[str, Tensor]()
        for block in blocks:
            for parent in list(made.anatomy.blocks[block].modules()):
                for name, child in list(parent.named_children()):
                    if isinstance(child, nn.Linear):
                        setattr(parent, name, _Adapted(child))
                        reach = 1 / math.sqrt(child.in_features)
                        key = str(len(tensors) // 2)
                        down = torch.empty(rank, child.in_features).uniform_(-reach, reach, generator=generator)
                        tensors |= {f"{key} down": down, f"{key} up": torch.zeros(child.out_features, rank)}
        adapted = TextModel(made.module, model.tokenizer, name=made.name)
        return cls(site=Site("resid", min(blocks)), model=adapted, tensors=tensors).with_parameters(tensors)

    def parameters(self) -> dict[str, Tensor]:
        return dict(self.tensors)

    def with_parameters(self, values: Mapping[str, Tensor]) -> Self:
        maps = [part for part in self.model.module.modules() if isinstance(part, _Adapted)]
        for place, part in enumerate(maps):
            part.maps = values[f"{place} down"], values[f"{place} up"]
        return replace(self, tensors=values)

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        return h

    def __repr__(self) -> str:
        return f"LowRank({len(self.tensors) // 2} maps)"


def trainable_count(edits: Sequence[Any]) -> int:
    """How many numbers training changes."""
    return sum(value.numel() for edit in edits for value in edit.parameters().values())
