"""steering-vectors: activations, vectors and steering by hooks on a transformers model."""

from __future__ import annotations

import torch
from steering_vectors import SteeringVector, train_steering_vector
from steering_vectors.train_steering_vector import extract_activations
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE = "steering-vectors"


def load(settings):
    """Tasks of the races whose settings are given."""
    model = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=getattr(torch, settings["dtype"])).eval()
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    return (steering if "shifts" in settings else capture)(model, tokenizer, settings)


def capture(model, tokenizer, settings):
    """Tasks over `pairs` of texts: all activations, or their mean difference, at one block or all."""
    pairs = [tuple(pair) for pair in settings["pairs"]]
    options = {"batch_size": settings["batch"], "read_token_index": -1}

    def rows(layers):
        sides = extract_activations(model, tokenizer, pairs, layers=layers, **options)
        return {
            f"resid.{layer}": torch.cat([_rows(side[layer]) for side in sides]).float().numpy() for layer in sides[0]
        }

    def means(layers):
        found = train_steering_vector(model, tokenizer, pairs, layers=layers, **options)
        return {f"resid.{layer}": row.float().numpy() for layer, row in found.layer_activations.items()}

    middle = [settings["block"]]
    return {
        "one": lambda: rows(middle),
        "all": lambda: rows(None),
        "mean-one": lambda: means(middle),
        "mean-all": lambda: means(None),
    }


def _rows(batches):
    return torch.cat([batch.reshape(-1, batch.shape[-1]) for batch in batches])


def steering(model, tokenizer, settings):
    """Tasks over `prompts`: tokens under one shift at one block or all, texts under a shift each."""
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    prompts, shifts = settings["prompts"], torch.tensor(settings["shifts"])

    @torch.no_grad()
    def new_tokens(prompts, shift, layers, count):
        tokens = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
        with SteeringVector(dict.fromkeys(layers, shift)).apply(model):
            ids = model.generate(**tokens, max_new_tokens=count, do_sample=False, pad_token_id=tokenizer.pad_token_id)
        return ids[:, tokens["input_ids"].shape[1] :]

    def rows():
        middle, few = [settings["block"]], settings["few"]
        ids = [new_tokens([one], shift, middle, few)[0] for one, shift in zip(prompts, shifts, strict=True)]
        return {"": tokenizer.batch_decode(ids, skip_special_tokens=True)}

    layers = {"one": [settings["block"]], "all": range(settings["blocks"])}
    return {
        f"{asked}-{size}": lambda size=size, where=where: {
            "": new_tokens(prompts[:size], shifts[0], where, settings["tokens"]).numpy()
        }
        for asked, where in layers.items()
        for size in (1, 8)
    } | {"rows": rows}
