"""Edits in calls that covec does not make: raw passes, raw generation, caches, compiled and recomputed code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from covec.edits.algebra import Add
from covec.errors import ModelError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import FAMILIES, tiny_model

PROMPTS = ["The hotel", "A dull film: two hours"]
POSITIONS = ["content", "generated", "last", "last+generated", "prompt", "from-4", "5"]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> TextModel:
    """A model whose tokenizer pads on the left, as generation needs it."""
    module, tokenizer = tiny_model(request.param)
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    module.generation_config.pad_token_id = tokenizer.pad_token_id
    return TextModel(module, tokenizer)


def add(model: TextModel, position: str = "content", site: str = "resid.1") -> Add:
    shift = 3 * torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    return Add(site=Site.parse(site), shift=shift, position=Position.parse(position))


def written(model: TextModel, ids: Tensor, batch: Any) -> list[str]:
    return list(model.tokenizer.batch_decode(ids[:, batch.input_ids.shape[1] :], skip_special_tokens=True))


@pytest.mark.parametrize("position", POSITIONS)
def test_raw_generation_is_edited_as_covecs_own(model: TextModel, position: str) -> None:
    """Whatever its cache, and with columns of padding to spare."""
    edit = add(model, position)
    expected = model.generate(PROMPTS, edits=[[edit], [edit]], max_new_tokens=6)
    batch = model.tokenizer(PROMPTS, return_tensors="pt", padding=True)
    wide = model.tokenizer(PROMPTS, return_tensors="pt", padding="max_length", max_length=30)
    with model.edit(edit):
        for given, options in (
            (batch, {}),
            (batch, {"use_cache": False}),
            (batch, {"cache_implementation": "static"}),
            (wide, {}),
        ):
            ids = model.module.generate(**given, max_new_tokens=6, do_sample=False, **options)
            assert written(model, ids, given) == expected
        alone = model.tokenizer(PROMPTS[1], return_tensors="pt")
        ids = model.module.generate(alone.input_ids, max_new_tokens=6, do_sample=False)
        assert written(model, ids, alone) == expected[1:]


def test_a_loop_of_ones_own_is_edited(model: TextModel) -> None:
    edit = add(model, "generated")
    ids = model.tokenizer(PROMPTS[1], return_tensors="pt").input_ids
    found: list[int] = []
    with model.edit(edit), torch.no_grad():
        output = model.module(ids)
        for _ in range(6):
            found.append(int(output.logits[0, -1].argmax()))
            if found[-1] == model.tokenizer.eos_token_id:
                break
            output = model.module(torch.tensor([found[-1:]]), past_key_values=cache_of(output))
    text = model.tokenizer.decode(found, skip_special_tokens=True)
    assert text == model.generate(PROMPTS[1], edits=[edit], max_new_tokens=6)


def cache_of(output: Any) -> Any:
    return next(value for key, value in output.items() if key in ("cache", "past_key_values"))


def test_a_cache_of_another_scope_is_refused(model: TextModel) -> None:
    ids = model.tokenizer(PROMPTS[1], return_tensors="pt").input_ids
    with torch.no_grad():
        plain = cache_of(model.module(ids))
        with model.edit(add(model)):
            edited = cache_of(model.module(ids))
            with pytest.raises(ModelError, match="filled outside this scope"):
                model.module(ids[:, -1:], past_key_values=plain)
        with model.edit(add(model, "all")), pytest.raises(ModelError, match="filled outside this scope"):
            model.module(ids[:, -1:], past_key_values=edited)
        assert torch.isfinite(model.module(ids[:, -1:], past_key_values=plain).logits).all()


def test_a_mask_that_tells_no_tokens_is_refused(model: TextModel) -> None:
    ids = model.tokenizer(PROMPTS[1], return_tensors="pt").input_ids
    square = torch.ones(1, 1, ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    with model.edit(add(model)), pytest.raises(ModelError, match=r"attention mask \[rows, tokens\]"):
        model.module(ids, attention_mask=square)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_of_raw_passes_is_never_edited(model: TextModel, side: str) -> None:
    model.tokenizer.padding_side = side
    batch = model.tokenizer(PROMPTS, return_tensors="pt", padding=True)
    model.tokenizer.padding_side = "left"
    seen: list[Tensor] = []
    with torch.no_grad():
        for edits in ([], [add(model, "all")]):
            with model.edit(*edits):
                handle = model.anatomy.blocks[1].register_forward_hook(
                    lambda _, args, output: seen.append(output if isinstance(output, Tensor) else output[0])
                )
                model.module(**batch)
                handle.remove()
    changed = (seen[1] != seen[0]).any(-1)
    assert torch.equal(changed, batch.attention_mask.bool())


def test_embeddings_may_be_given_instead_of_ids(model: TextModel) -> None:
    ids = model.tokenizer(PROMPTS[1], return_tensors="pt").input_ids
    embeddings = model.module.get_input_embeddings()(ids)
    with model.edit(add(model, "all")), torch.no_grad():
        assert torch.allclose(model.module(inputs_embeds=embeddings).logits, model.module(ids).logits, atol=1e-4)


@pytest.mark.parametrize("way", ["in place", "wrapped"])
def test_a_compiled_model_is_steered_and_afterwards_compiled_again(way: str) -> None:
    module, tokenizer = tiny_model("llama")
    model = TextModel(module, tokenizer)
    ids = tokenizer(PROMPTS[1], return_tensors="pt").input_ids
    with torch.no_grad():
        plain = module(ids).logits
        with model.edit(add(model, "all")):
            expected = module(ids).logits
        compiled: Any = torch.compile(module, backend="eager") if way == "wrapped" else module
        if way == "in place":
            module.compile(backend="eager")
        assert torch.allclose(compiled(ids).logits, plain, atol=1e-5)
        with model.edit(add(model, "all")):
            assert torch.allclose(compiled(ids).logits, expected, atol=1e-5)
        assert torch.allclose(compiled(ids).logits, plain, atol=1e-5)


@pytest.mark.parametrize("site", ["attn.0", "mlp.1", "resid.1"])
def test_recomputed_blocks_are_edited_as_they_first_were(site: str) -> None:
    gradients = []
    for checkpointing in (False, True):
        module, tokenizer = tiny_model("llama")
        model = TextModel(module, tokenizer)
        module.train()
        if checkpointing:
            module.gradient_checkpointing_enable()
        ids = tokenizer(PROMPTS[1], return_tensors="pt").input_ids
        edit = add(model, "all", site)
        edit.shift.requires_grad_()
        with model.edit(edit):
            module(ids, labels=ids, use_cache=False).loss.backward()
        assert edit.shift.grad is not None
        gradients.append((edit.shift.grad, module.get_input_embeddings().weight.grad))
    for plain, recomputed in zip(*gradients, strict=True):
        assert torch.allclose(plain, recomputed, atol=1e-5)


def test_nothing_is_left_on_the_model(model: TextModel) -> None:
    before, attributes = model.module.generate, set(vars(model.module))
    with model.edit(add(model)), model.edit(add(model)):
        assert model.module.generate is not before
    assert model.module.generate == before
    assert set(vars(model.module)) == attributes
    model.module.generate = before  # a user's own
    with model.edit(add(model)):
        pass
    assert vars(model.module).pop("generate") is before
