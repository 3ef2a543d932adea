"""Run in a process of its own: what saved vectors do there, and what a study finds; printed as JSON of digests."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import covec
from covec.concepts.bank import load_bank
from covec.concepts.examples import Examples
from covec.models.text import TextModel
from tiny import tiny_model

TEXTS = ["The hotel was clean.", "A dull film: two hours", "ice melts"]
WORDS = ["the", "hotel", "was", "clean", "and", "people", "were", "film", "two", "hours", "water", "boils", "ice"]


def model() -> TextModel:
    return TextModel(*tiny_model("llama"), name="tiny")


def examples(rows: int = 60, seed: int = 0, mark: tuple[str, str] = ("kind", "dull")) -> Examples:
    """Random words, among them one of two that tell the class."""
    rng = np.random.default_rng(seed)
    texts = [
        " ".join([*rng.choice(WORDS, 4), *2 * [mark[label]], *rng.choice(WORDS, 3)])
        for label in (0, 1)
        for _ in range(rows)
    ]
    return Examples(tuple(texts), np.repeat([True, False], rows), name="kind")


def digest(*values: Any) -> str:
    """Of the bits of tensors, and of all else as it prints."""
    found = hashlib.sha256()
    for value in values:
        found.update(value.numpy().tobytes() if isinstance(value, torch.Tensor) else repr(value).encode())
    return found.hexdigest()


def effects(path: str | Path) -> dict[str, str]:
    """What every vector of a bank reads, writes, predicts and steers to, in a model made here."""
    used = model()
    rows = used.capture(TEXTS, "resid.1", "mean")["resid.1"]
    ids = used.tokenizer(TEXTS[0], return_tensors="pt").input_ids
    found = {}
    for name, vector in load_bank(path).items():
        edits = [vector.add(1.5), vector.ablate(), vector.set_coordinate(0.3)]
        edits += [vector.to_probability(0.5)] if vector.calibration else []
        logits = []
        for edit in edits:
            with used.edit(edit), torch.no_grad():
                logits.append(used.module(ids).logits)
        scores = [(one.score, one.probability, one.fires) for one in used.detect(vector, TEXTS)]
        found[name] = digest(vector.score(rows), *logits, scores, used.generate(TEXTS[0], max_new_tokens=4))
    return found


def study() -> str:
    """All that a study finds but the clock and the count of looks."""
    found = covec.study(model(), examples(52), sites="resid.2", finders="logistic", position="mean", nulls=2)
    summary = {name: value for name, value in found.summary().items() if name not in ("looks", "seconds")}
    return digest(json.dumps(summary, sort_keys=True), found.best.direction, found.best.write)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({"effects": effects(sys.argv[1]), "study": study()}))
