"""Six copies of a toy whose last map was changed: alike within two kinds, or each its own way."""

from __future__ import annotations

import copy
from typing import Any

import torch

from covec.checks._trial import Trial
from covec.models.text import TextModel
from covec.worlds.toys import WIDTH, toy

KINDS = ("one", "other")
COPIES, OWN = 3, 0.3  # models a kind, and how much of a model's change is its own


def trial(there: bool, seed: int) -> Trial:
    """Changes that models of a kind share, and changes that nothing shares."""
    made = toy(seed, read=True, texts=8)
    generator = torch.Generator().manual_seed(seed)
    tuned = {}
    for kind in KINDS:
        shared = _change(generator)
        for number in range(COPIES):
            own = _change(generator)
            change = shared + OWN * own if there else own
            tuned[f"{kind} {number}"] = _changed(made.model, 0.1 * change, f"{kind} {number}")
    labels = [name.split()[0] for name in tuned]
    wrong: dict[str, dict[str, Any]] = {
        "no prompt": {"prompts": []},
        "a label too few": {"labels": labels[:-1]},
        "one kind": {"labels": ["one"] * len(labels)},
        "a kind of one model": {"labels": ["one", *["other"] * (len(labels) - 1)]},
        "the base itself": {"tuned": {**tuned, "other 2": made.model}},
    }
    return Trial(
        {"base": made.model, "tuned": tuned, "labels": labels, "prompts": made.neutral, "permutations": 99}, wrong
    )


def _change(generator: torch.Generator) -> torch.Tensor:
    return torch.randn(WIDTH, WIDTH, generator=generator)


def _changed(model: TextModel, change: torch.Tensor, name: str) -> TextModel:
    module: Any = copy.deepcopy(model.module)
    with torch.no_grad():
        module.model.layers[-1].mlp.down_proj.weight += change
    return TextModel(module, model.tokenizer, name=name)
