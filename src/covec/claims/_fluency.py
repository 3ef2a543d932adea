"""How likely what was written is to the model that was not steered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from covec.models.text import TextModel

_ROWS = 32  # texts of one forward pass, whose logits must fit into memory


def surprise(
    model: TextModel, prompts: Sequence[str], written: Sequence[str]
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Nats of each continuation after its prompt, summed over its tokens, and the number of those tokens."""
    tokenizer = model.tokenizer
    begun = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    ended = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in written]
    nats, counts = np.zeros(len(begun)), np.array([len(ids) for ids in ended], dtype=float)
    order = sorted(range(len(begun)), key=lambda row: len(begun[row]) + len(ended[row]))
    for start in range(0, len(order), _ROWS):
        rows = order[start : start + _ROWS]
        width = max(len(begun[row]) + len(ended[row]) for row in rows)
        ids = torch.full((len(rows), width), model.pad_id)
        for place, row in enumerate(rows):
            whole = begun[row] + ended[row]
            ids[place, : len(whole)] = torch.tensor(whole)
        ids = ids.to(model.device)
        with torch.no_grad():  # padding stands on the right, where a causal model's other tokens do not see it
            logits = model.module(input_ids=ids, use_cache=False).logits[:, :-1].float()
        found = -logits.log_softmax(2).gather(2, ids[:, 1:, None])[..., 0]
        for place, row in enumerate(rows):
            first = len(begun[row]) - 1
            nats[row] = float(found[place, first : first + len(ended[row])].sum())
    return nats, counts


def perplexity(model: TextModel, prompts: Sequence[str], written: Sequence[str]) -> float:
    """Perplexity a token of all continuations together."""
    nats, counts = surprise(model, prompts, written)
    return float(np.exp(nats.sum() / max(counts.sum(), 1)))
