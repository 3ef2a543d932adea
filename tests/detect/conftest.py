"""A concept whose truth is known: the character 7, read in the embeddings of a tiny model."""

from __future__ import annotations

import pytest
import torch

from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.models.text import TextModel
from tiny import tiny_model


@pytest.fixture(scope="session")
def llama() -> TextModel:
    module, tokenizer = tiny_model("llama")
    return TextModel(module, tokenizer, name="tiny-llama")


@pytest.fixture(scope="session")
def seven(llama: TextModel) -> ConceptVector:
    """Scores +0.5 at a token 7 and on average -0.5 at others."""
    rows = llama.module.get_input_embeddings().weight.detach()
    token = llama.tokenizer("7", add_special_tokens=False).input_ids[-1]
    others = torch.cat([rows[:token], rows[token + 1 :]]).mean(0)
    model = llama.describe()
    return ConceptVector.from_direction("seven", "embed", rows[token] - others, rows[token], others, model=model)


@pytest.fixture(scope="session")
def other(llama: TextModel) -> ConceptVector:
    """Some direction in the residual stream."""
    direction = torch.randn(llama.width, generator=torch.Generator().manual_seed(1))
    model = llama.describe()
    return ConceptVector.from_direction("other", "resid.2", direction, scale=3.0, scale_from="spread", model=model)


@pytest.fixture(scope="session")
def sevens() -> Examples:
    """Sixty texts of unequal length; half have a 7 somewhere, never at their end."""
    words = [f"{'water ' * (row % 5)}boils at {row} degrees".replace("7", "2") for row in range(60)]
    texts = [word.replace(" at ", " at 7 ") if row % 2 else word for row, word in enumerate(words)]
    spans = [(text.index("7"), text.index("7") + 1) if "7" in text else None for text in texts]
    return Examples(tuple(texts), [row % 2 for row in range(60)], spans=tuple(spans), name="seven")
