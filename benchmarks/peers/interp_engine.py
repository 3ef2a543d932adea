"""interp-engine: points of a model by address, in one whole pass a batch."""

from __future__ import annotations

import torch
from interp_engine import Address, capture, load_model
from transformers import AutoTokenizer

PACKAGE = "interp-engine"


def load(settings):
    """Tasks over `texts`."""
    model = load_model(settings["model"], backend="eager", device="cpu", dtype=settings["dtype"])
    tokenizer = AutoTokenizer.from_pretrained(settings["model"], padding_side="right")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    texts, size = settings["texts"], settings["batch"]

    @torch.no_grad()
    def read(blocks):
        points, kept = [Address("resid_post", block) for block in blocks], {block: [] for block in blocks}
        for first in range(0, len(texts), size):
            batch = tokenizer(texts[first : first + size], return_tensors="pt", padding=True)
            mask = batch["attention_mask"]
            found, last = capture(model, batch["input_ids"], points, attention_mask=mask), mask.sum(1) - 1
            for block, point in zip(blocks, points, strict=True):
                kept[block].append(found[point][torch.arange(len(last)), last])
        return {f"resid.{block}": torch.cat(rows).float().numpy() for block, rows in kept.items()}

    return {"one": lambda: read([settings["block"]]), "all": lambda: read(range(settings["blocks"]))}
