"""nnsight: traces of a transformers model, stopped after the last block that is read."""

from __future__ import annotations

import torch
from nnsight import LanguageModel
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE = "nnsight"


def load(settings):
    """Tasks over `texts`, in batches that nnsight pads on the left."""
    module = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=getattr(torch, settings["dtype"])).eval()
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = LanguageModel(module, tokenizer=tokenizer)
    texts, size = settings["texts"], settings["batch"]

    @torch.no_grad()
    def capture(blocks):
        kept = {block: [] for block in blocks}
        for first in range(0, len(texts), size):
            saved = {}
            with model.trace(texts[first : first + size]) as tracer:
                for block in blocks:
                    saved[block] = model.model.layers[block].output[:, -1].save()
                tracer.stop()
            for block, rows in saved.items():
                kept[block].append(rows)
        return {f"resid.{block}": torch.cat(rows).float().numpy() for block, rows in kept.items()}

    return {
        "one": lambda: capture([settings["block"]]),
        "all": lambda: capture(range(module.config.num_hidden_layers)),
    }
