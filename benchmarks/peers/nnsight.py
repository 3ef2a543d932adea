"""nnsight: traces of a transformers model, stopped after the last block that is read."""

from __future__ import annotations

import torch
from nnsight import LanguageModel
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE = "nnsight"


def load(settings):
    """Tasks of the races whose settings are given; nnsight pads on the left."""
    module = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=getattr(torch, settings["dtype"])).eval()
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = LanguageModel(module, tokenizer=tokenizer)
    return (steering if "shifts" in settings else reading)(model, tokenizer, settings)


def reading(model, tokenizer, settings):
    """Tasks over `texts`: activations at one block or all."""
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
        "all": lambda: capture(range(settings["blocks"])),
    }


def steering(model, tokenizer, settings):
    """Tasks over `prompts`: tokens under one shift at one block or all, texts under a shift each."""
    prompts, shifts = settings["prompts"], torch.tensor(settings["shifts"])

    @torch.no_grad()
    def new_tokens(prompts, shift, blocks, count):
        with model.generate(prompts, max_new_tokens=count, do_sample=False) as tracer:
            for _ in tracer.iter[:count]:
                for block in blocks:
                    model.model.layers[block].output[:] = model.model.layers[block].output + shift
            ids = tracer.result.save()
        return ids[:, -count:]

    def rows():
        ids = new_tokens(prompts, shifts[:, None], [settings["block"]], settings["few"])
        return {"": tokenizer.batch_decode(ids, skip_special_tokens=True)}

    blocks = {"one": [settings["block"]], "all": list(range(settings["blocks"]))}
    return {
        f"{asked}-{size}": lambda size=size, where=where: {
            "": new_tokens(prompts[:size], shifts[0], where, settings["tokens"]).numpy()
        }
        for asked, where in blocks.items()
        for size in (1, 8)
    } | {"rows": rows}
