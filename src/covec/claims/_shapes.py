"""The small vision transformer fine-tuned on tasks of the world of shapes: its encoder alone, mildly, heads frozen."""

from __future__ import annotations

import copy

import torch
from torch.nn.functional import cross_entropy

from covec.concepts.vector import ConceptVector
from covec.concepts.weights import weight_vector
from covec.worlds.shapes import Network, scenes

_ROWS, _RATE = 32, 1e-3


def tuned(base: Network, task: str, steps: int, seed: int = 0, **fixed: str) -> Network:
    """A copy of `base` whose encoder was trained to name what `task` asks of pictures with the values `fixed`."""
    module = copy.deepcopy(base)
    weights = list(module.encoder.requires_grad_().parameters())
    optimiser = torch.optim.AdamW(weights, lr=_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=max(2, steps), pct_start=0.1)
    for step in range(steps):
        shown = scenes(_ROWS, seed=1_000_000 * (seed + 1) + step, **fixed)
        loss = cross_entropy(module(shown.images, task), shown.labels(task))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    module.zero_grad()
    return module.requires_grad_(False)


def task_vector(base: Network, tuned: Network, name: str) -> ConceptVector:
    """What the tuning changed."""
    return weight_vector(base, tuned, name)
