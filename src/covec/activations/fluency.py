"""How likely what was written is to the model, as it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from covec.activations.capture import forward
from covec.activations.split import Split
from covec.models.batching import Batch
from covec.models.positions import Layout
from covec.models.text import TextModel

_ROWS = 32  # texts of one forward pass, whose logits must fit into memory


def surprise(
    model: TextModel, prompts: Sequence[str], written: Sequence[str]
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Nats of each continuation after its prompt, summed over its tokens, and the number of those tokens."""
    tokenizer, head = model.tokenizer, Split(model, "embed")
    begun = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    ended = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in written]
    nats, counts = np.zeros(len(begun)), np.array([len(ids) for ids in ended], dtype=float)
    order = sorted(range(len(begun)), key=lambda row: len(begun[row]) + len(ended[row]))
    for start in range(0, len(order), _ROWS):
        rows = [row for row in order[start : start + _ROWS] if ended[row]]
        if not rows:
            continue
        texts = [begun[row] + ended[row] for row in rows]
        ids = torch.full((len(rows), max(map(len, texts))), model.pad_id)
        for place, whole in enumerate(texts):
            ids[place, : len(whole)] = torch.tensor(whole)
        layouts = tuple(Layout(np.zeros(len(whole), dtype=bool), len(whole), len(whole) - 1) for whole in texts)
        batch = Batch(tuple(rows), ids.to(model.device), None, layouts)
        sizes = [len(ended[row]) for row in rows]
        with torch.no_grad():  # padding stands on the right, where a causal model's other tokens do not see it
            hidden = forward(model, batch)[0]
            ends = [len(whole) - 1 for whole in texts]
            chosen = [states[end - size : end] for states, end, size in zip(hidden, ends, sizes, strict=True)]
            logits = head.logits(torch.cat(chosen)).float()
        wanted = torch.tensor([token for row in rows for token in ended[row]], device=logits.device)
        found = logits.logsumexp(1) - logits.gather(1, wanted[:, None])[:, 0]
        nats[rows] = [float(part.sum()) for part in found.split(sizes)]
    return nats, counts


def perplexity(model: TextModel, prompts: Sequence[str], written: Sequence[str]) -> float:
    """Perplexity a token of all continuations together."""
    nats, counts = surprise(model, prompts, written)
    return float(np.exp(nats.sum() / max(counts.sum(), 1)))
