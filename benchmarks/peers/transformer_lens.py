"""TransformerLens: its bridge to transformers models, whose pass stops after the last block that is read."""

from __future__ import annotations

import torch
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoTokenizer

PACKAGE = "transformer-lens"


def load(settings):
    """Tasks over `texts`."""
    model = TransformerBridge.boot_transformers(
        settings["model"], device="cpu", dtype=getattr(torch, settings["dtype"])
    )
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])  # the bridge's own adds a token to each text
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    texts, size = settings["texts"], settings["batch"]

    @torch.no_grad()
    def capture(blocks):
        names, kept = {f"blocks.{block}.hook_out": block for block in blocks}, {block: [] for block in blocks}
        for first in range(0, len(texts), size):
            batch = tokenizer(texts[first : first + size], return_tensors="pt", padding=True, padding_side="right")
            last = batch["attention_mask"].sum(1) - 1
            _, found = model.run_with_cache(
                batch["input_ids"], names_filter=lambda name: name in names, stop_at_layer=max(blocks) + 1
            )
            for name, block in names.items():
                kept[block].append(found[name][torch.arange(len(last)), last])
        return {f"resid.{block}": torch.cat(rows).float().numpy() for block, rows in kept.items()}

    return {"one": lambda: capture([settings["block"]]), "all": lambda: capture(range(settings["blocks"]))}
