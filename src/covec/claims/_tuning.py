"""A few steps of fine-tuning the uppermost blocks of a model, quick enough for a claim: the blocks below run once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from covec.activations.split import Split
from covec.models.batching import Batch, pad
from covec.models.sites import Site
from covec.models.text import TextModel


def tuned(
    model: TextModel,
    texts: Sequence[str],
    *,
    steps: int,
    blocks: int,
    rows: int = 4,
    rate: float = 3e-4,
    name: str = "",
) -> TextModel:
    """A copy of `model` whose last `blocks` blocks were trained to write `texts`, `rows` of them a step.

    All other weights are shared with `model`, which stays as it is.
    """
    lower = {id(part) for block in model.anatomy.blocks[-blocks:] for part in block.parameters()}
    kept = {id(weight): weight for weight in model.module.parameters() if id(weight) not in lower}
    module: Any = copy.deepcopy(model.module, kept)
    made = TextModel(module, model.tokenizer, name=name or f"{model.name}, tuned")
    weights = [weight for block in made.anatomy.blocks[-blocks:] for weight in block.parameters()]
    split, optimiser = Split(made, Site("resid", made.blocks - blocks - 1)), torch.optim.AdamW(weights, lr=rate)
    tokens = made.tokenize(texts)
    batches = [
        pad(tokens, range(start, min(start + rows, len(tokens))), pad_id=made.pad_id, masked=False, device=made.device)
        for start in range(0, len(tokens), rows)
    ]
    encoded = [(batch, split.encode(batch)) for batch in batches]
    for batch, hidden in islice(cycle(encoded), steps):
        gradients = torch.autograd.grad(_loss(split, batch, hidden), weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        optimiser.step()
    for weight in weights:
        weight.grad = None
    return made


def _loss(split: Split, batch: Batch, hidden: torch.Tensor | None) -> torch.Tensor:
    """Mean nats a token of the texts of a batch, the first token of each left out."""
    last = split.decode(batch, hidden)
    read = torch.zeros(batch.ids.shape, dtype=torch.bool)
    for row, layout in enumerate(batch.layouts):
        read[row, : layout.length - 1] = True
    return cross_entropy(split.logits(last[read]).float(), batch.ids.roll(-1, 1)[read])
