"""A small bench: two packaged concepts, cut down, in a tiny model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from covec import bench
from covec.concepts.examples import Examples
from covec.models.text import TextModel
from tiny import tiny_model


def encode(texts: Any) -> torch.Tensor:
    """Sentences as two numbers."""
    return torch.tensor([[len(text), text.count("e")] for text in texts], dtype=torch.float32)


@pytest.fixture(scope="session")
def small_model() -> TextModel:
    module, tokenizer = tiny_model("llama")
    return TextModel(module, tokenizer, name="tiny")


@pytest.fixture(scope="session")
def concepts() -> dict[str, Examples]:
    """Every eighth pair."""
    found = {}
    for name, whole in list(bench.packaged().items())[:2]:
        found[name] = whole.subset([row for row in range(len(whole)) if row // 2 % 8 == 0])
    return found


@pytest.fixture
def run(small_model: TextModel, concepts: dict[str, Examples]) -> Callable[..., bench.DetectionBench]:
    def detect(**options: Any) -> bench.DetectionBench:
        given = {"sites": "resid.1,resid.2", "finders": "mean-difference,ridge", "encode": encode, **options}
        return bench.detect(small_model, given.pop("concepts", concepts), **given)

    return detect


@pytest.fixture(scope="session")
def done(small_model: TextModel, concepts: dict[str, Examples]) -> bench.DetectionBench:
    return bench.detect(small_model, concepts, sites="resid.1,resid.2", finders="mean-difference,ridge", encode=encode)
