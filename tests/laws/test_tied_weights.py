"""K-17: whatever is done at the head or at the embedding is done to activations; weights stay, tied or not.

Baking and erasing weights: open.
"""

from __future__ import annotations

import pytest
import torch

from covec.models.text import TextModel
from laws.given import PROMPTS, add
from tiny import tiny_model


def check(model: TextModel, site: str) -> None:
    head, embedding = model.module.get_output_embeddings(), model.module.get_input_embeddings()
    before = embedding.weight.clone()
    ids = model.tokenizer(PROMPTS[1], return_tensors="pt").input_ids
    edit = add(model, "all", site)
    with torch.no_grad():
        plain, last = model.module(ids).logits, model.capture([PROMPTS[1]], "final", "all")["final"]
        with model.edit(edit):
            edited, moved = model.module(ids).logits, model.capture([PROMPTS[1]], "final", "all")["final"]
            rows = embedding(ids)
            assert torch.equal(head(last), plain[0])  # the head maps as before, also while the edit acts
            assert torch.equal(head(moved), edited[0])
        assert torch.equal(embedding(ids), rows)
    assert not torch.allclose(edited, plain, atol=1e-3)
    assert head.weight is embedding.weight
    assert torch.equal(head.weight, before)


@pytest.mark.parametrize("site", ["embed", "final"])
def test_the_embedded_models_head_is_its_embedding_and_stays_so(smol: TextModel, site: str) -> None:
    assert smol.config.tie_word_embeddings
    check(smol, site)


@pytest.mark.parametrize("site", ["embed", "final"])
def test_a_tied_tiny_model(site: str) -> None:
    check(TextModel(*tiny_model("gpt2")), site)
