"""repeng: control vectors as principal components of paired differences."""

from __future__ import annotations

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

np.float_ = np.float64  # a name that numpy 2 lacks
from repeng import ControlVector, DatasetEntry  # noqa: E402

PACKAGE = "repeng"


def load(settings):
    """One task over `pairs`."""
    model = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=getattr(torch, settings["dtype"])).eval()
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    entries = [DatasetEntry(*pair) for pair in settings["pairs"]]
    last = model.config.num_hidden_layers - 1  # read after the last norm

    def components():
        found = ControlVector.train(model, tokenizer, entries, method="pca_center", batch_size=settings["batch"])
        return {f"resid.{layer}": row for layer, row in found.directions.items() if layer < last}

    return {"components": components}
