"""K-8: compiled code sees every reading and every edit, and recomputation repeats none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from covec.activations.split import Split
from covec.models.batching import Batch, pad
from covec.models.text import TextModel
from laws.given import PROMPTS, add, vector
from tiny import tiny_model

SOME = list(PROMPTS[1:3])


def blocks_wrapped(model: TextModel) -> TextModel:
    """Regional compilation: every block of its own, each behind torch's wrapper."""
    stack = model.module.model.layers
    for index, block in enumerate(stack):
        stack[index] = torch.compile(block, backend="eager")
    return TextModel(model.module, model.tokenizer)


def in_place(*choose: Callable[[TextModel], Any]) -> Callable[[TextModel], TextModel]:
    def compiled(model: TextModel) -> TextModel:
        for part in choose:
            for module in part(model):
                module.compile(backend="eager")
        return model

    return compiled


WAYS: dict[str, Callable[[TextModel], TextModel]] = {
    "the whole, wrapped": lambda model: TextModel(torch.compile(model.module, backend="eager"), model.tokenizer),
    "the body": in_place(lambda model: [model.anatomy.body]),
    "every block, wrapped": blocks_wrapped,
    "a sublayer": in_place(lambda model: [model.anatomy.tap(model.select("mlp.1")[0]).module]),
}


def results(model: TextModel) -> list[Any]:
    """Whatever reads or writes activations, once each."""
    concept = vector(model)
    found: list[Any] = [model.capture(SOME, site, "mean")[site] for site in ("resid.1", "attn.2", "final")]
    with model.edit(concept.add(2.0)), torch.no_grad():
        found.append(model.module(model.tokenizer(SOME[1], return_tensors="pt").input_ids).logits)
        found.append(model.generate(SOME, max_new_tokens=4))
        found.append(torch.tensor([one.score for one in model.detect(concept, SOME)]))
    with model.watch(concept) as log:
        model.generate(SOME, max_new_tokens=3)
    found.append(torch.tensor([[row.score or 0.0] for row in log.rows]))
    batch = some_batch(model)
    for site in ("resid.1", "attn.2"):
        split = Split(model, site)
        with torch.no_grad():
            hidden = split.decode(batch, split.encode(batch), lambda rows: rows + 1.0)
            found += [hidden[0], split.logits(hidden[0])]
    return found


def some_batch(model: TextModel) -> Batch:
    tokens = model.tokenize(SOME)
    return pad(tokens, range(2), pad_id=model.pad_id, masked=False, device=model.device)


def trigger(model: TextModel) -> Tensor:
    """A pass of the shape that is to come, so that all is compiled before covec comes."""
    with torch.no_grad():
        return model.module(input_ids=some_batch(model).ids, use_cache=False).logits


@pytest.mark.parametrize("way", WAYS)
def test_compiled_before_is_as_never_compiled(way: str) -> None:
    expected = results(TextModel(*tiny_model("llama")))
    model = WAYS[way](TextModel(*tiny_model("llama")))
    plain = trigger(model)
    found = results(model)
    for one, other in zip(found, expected, strict=True):
        assert one == other if isinstance(one, list) else torch.allclose(one, other, atol=1e-4)
    assert torch.equal(trigger(model), plain)


def test_compiled_within_a_scope_is_free_of_its_edits_afterwards() -> None:
    model = TextModel(*tiny_model("llama"))
    ids = model.tokenizer(SOME[1], return_tensors="pt").input_ids
    with torch.no_grad():
        plain = model.module(ids).logits
        with model.edit(add(model)):
            edited = model.module(ids).logits
            compiled: Any = torch.compile(model.module, backend="eager")
            assert torch.allclose(compiled(ids).logits, edited, atol=1e-5)
        assert torch.allclose(compiled(ids).logits, plain, atol=1e-5)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt-neox"])
def test_recomputed_blocks_are_read_once(family: str, reentrant: bool) -> None:
    """Captures, logs and the gradient under an edit are those of a network that recomputes nothing."""
    found = []
    for checkpointing in (False, True):
        module, tokenizer = tiny_model(family)
        model = TextModel(module, tokenizer)
        for part in module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        module.train()
        if checkpointing:
            module.gradient_checkpointing_enable({"use_reentrant": reentrant})
        concept = vector(model)
        rows = model.capture(PROMPTS, "resid.*", "content/none")
        ids = tokenizer(PROMPTS[2], return_tensors="pt").input_ids
        with model.edit(concept.add(1.0)), model.watch(concept) as log:
            module(ids, labels=ids, use_cache=False).loss.backward()
        gradient = module.get_input_embeddings().weight.grad
        assert gradient is not None
        assert [row.index for row in log.rows] == list(range(ids.shape[1]))
        found.append((rows.stack(), torch.tensor([[row.score or 0.0] for row in log.rows]), gradient))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-4)
