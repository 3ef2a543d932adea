"""A copy of a model that is made within a scope is another model: it runs its own weights, and no edit acts there."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from covec.edits.algebra import Add
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import FAMILIES, tiny_model


def stored(module: Any) -> Any:
    file = io.BytesIO()
    torch.save(module, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


def add(model: TextModel) -> Add:
    shift = 3 * torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    return Add(site=Site.parse("resid.1"), shift=shift, position=Position("all"))


def written(module: Any, ids: Tensor) -> Tensor:
    return module.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("way", [copy.deepcopy, stored], ids=["deepcopy", "torch.save"])
def test_a_copy_made_within_a_scope_is_clean_and_runs_its_own_weights(family: str, way: Callable[[Any], Any]) -> None:
    module, tokenizer = tiny_model(family)
    model, ids = TextModel(module, tokenizer), torch.tensor([tokenizer("A dull film: two hours").input_ids])
    with torch.no_grad():
        plain, text = module(ids).logits, written(module, ids)
        with model.edit(add(model)):
            edited = written(module, ids)
            other = way(module)
            assert torch.equal(other(ids).logits, plain)
            assert torch.equal(written(other, ids), text)
            assert torch.equal(written(way(other), ids), text)
            other.get_output_embeddings().weight.zero_()  # its own, and nobody else's
            assert not other(ids).logits.any()
            assert not written(other, ids)[0, ids.shape[1] :].any()
            assert torch.equal(written(module, ids), edited)
        assert torch.equal(module(ids).logits, plain)
        assert not other(ids).logits.any()
    assert not torch.equal(edited, text)


def test_a_copied_text_model_has_scopes_of_its_own() -> None:
    model, ids = TextModel(*tiny_model("llama")), torch.tensor([[5, 40, 41, 42]])
    with torch.no_grad(), model.edit(add(model)):
        expected, other = written(model.module, ids), copy.deepcopy(model)
        assert not torch.equal(written(other.module, ids), expected)
        with other.edit(add(other)):
            assert torch.equal(written(other.module, ids), expected)


def test_what_is_saved_within_a_scope_is_the_model(tmp_path: Path) -> None:
    module, tokenizer = tiny_model("llama")
    model, ids = TextModel(module, tokenizer), torch.tensor([[5, 40, 41, 42]])
    plain = written(module, ids)
    with model.edit(add(model)):
        module.save_pretrained(tmp_path)
        assert torch.equal(written(type(module).from_pretrained(tmp_path), ids), plain)


def test_recomputing_copies_recompute_for_themselves() -> None:
    """The function that recomputes blocks for their gradients is the copy's own, too."""
    module, tokenizer = tiny_model("llama")
    model, ids = TextModel(module.train(), tokenizer), torch.tensor([[5, 40, 41, 42]])
    module.gradient_checkpointing_enable()
    with model.edit(add(model)):
        other = copy.deepcopy(module)
    other(ids, labels=ids, use_cache=False).loss.backward()
    module(ids, labels=ids, use_cache=False).loss.backward()
    assert torch.equal(other.get_input_embeddings().weight.grad, module.get_input_embeddings().weight.grad)
