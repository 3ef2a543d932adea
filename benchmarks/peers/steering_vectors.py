"""steering-vectors: activations, vectors and steering by hooks on a transformers model."""

from __future__ import annotations

import torch
from steering_vectors import train_steering_vector
from steering_vectors.train_steering_vector import extract_activations
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE = "steering-vectors"


def load(settings):
    """Tasks over `pairs` of texts: all activations, or their mean difference, at one block or all."""
    model = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=getattr(torch, settings["dtype"])).eval()
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    pairs = [tuple(pair) for pair in settings["pairs"]]
    options = {"batch_size": settings["batch"], "read_token_index": -1}

    def capture(layers):
        sides = extract_activations(model, tokenizer, pairs, layers=layers, **options)
        return {
            f"resid.{layer}": torch.cat([_rows(side[layer]) for side in sides]).float().numpy() for layer in sides[0]
        }

    def means(layers):
        found = train_steering_vector(model, tokenizer, pairs, layers=layers, **options)
        return {f"resid.{layer}": row.float().numpy() for layer, row in found.layer_activations.items()}

    middle = [settings["block"]]
    return {
        "one": lambda: capture(middle),
        "all": lambda: capture(None),
        "mean-one": lambda: means(middle),
        "mean-all": lambda: means(None),
    }


def _rows(batches):
    return torch.cat([batch.reshape(-1, batch.shape[-1]) for batch in batches])
