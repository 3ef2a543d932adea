"""A call within another one, of the same model or of another: each runs under its own plan, and ends with itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from covec.edits.algebra import Add, Gate
from covec.errors import ModelError
from covec.models.plan import current_pass, current_plan
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import tiny_model

TEXT = "A dull film: two hours"


def add(model: TextModel, site: str, seed: int = 0, **others: Any) -> Add:
    shift = 3 * torch.randn(model.width, generator=torch.Generator().manual_seed(seed))
    return Add(site=Site.parse(site), shift=shift, position=Position("all"), **others)


def logits(model: TextModel) -> Tensor:
    with torch.no_grad():
        return model.module(torch.tensor([model.tokenizer(TEXT).input_ids])).logits


@pytest.mark.parametrize("other", [False, True], ids=["the same model", "another model"])
def test_a_capture_within_a_pass_does_not_end_its_edits(tiny: TextModel, other: bool) -> None:
    within = TextModel(*tiny_model("llama", seed=1)) if other else tiny
    edit, asked = add(tiny, "resid.1"), []

    def ask(*_: Any) -> None:
        if not asked:
            asked.append("once")
            within.capture(["ice melts"], "resid.1")

    with tiny.edit(edit):
        expected = logits(tiny)
    handle = tiny.anatomy.blocks[0].register_forward_hook(ask)
    try:
        with tiny.edit(edit), within.edit(add(within, "resid.0", 1)):
            found = logits(tiny) if other else None
        asked.clear()
        with tiny.edit(edit):
            again = logits(tiny)
    finally:
        handle.remove()
    assert torch.equal(again, expected)
    assert found is None or torch.equal(found, expected)
    assert (current_plan(), current_pass()) == (None, None)


def test_an_assistant_model_keeps_its_own_edits() -> None:
    """What the helper guesses follows its own scope, not that of the model it helps."""
    model, helper = TextModel(*tiny_model("llama")), TextModel(*tiny_model("llama", seed=4))
    seen: list[Tensor] = []

    def see(_: Any, __: Any, output: Any) -> None:
        seen.append((output if isinstance(output, Tensor) else output[0]).detach()[0, :3].clone())

    handle = helper.anatomy.blocks[2].register_forward_hook(see)
    try:
        with model.edit(add(model, "resid.2")), helper.edit(add(helper, "resid.1", 2)):
            assisted = model.generate(TEXT, max_new_tokens=6, assistant_model=helper.module)
            guessing = seen[0]
            seen.clear()
            logits(helper)
    finally:
        handle.remove()
    torch.testing.assert_close(guessing, seen[0], rtol=1e-4, atol=1e-4)
    with model.edit(add(model, "resid.2")):
        assert model.generate(TEXT, max_new_tokens=6) == assisted


def test_a_gate_at_a_module_that_runs_later_is_told_in_one_line() -> None:
    model = TextModel(*tiny_model("llama"))
    gate = Gate(Site.parse("layers.3"), torch.ones(model.width), 0.0, 1.0)
    with model.edit(add(model, "resid.1", gate=gate)), pytest.raises(ModelError, match="comes after the edit"):
        model.generate(TEXT, max_new_tokens=2)


@pytest.mark.parametrize("position", ["all", "content", "prompt", "generated", "from-9", "3"])
def test_generation_from_a_prefix_in_the_cache_is_that_of_the_whole_prompt(tiny: TextModel, position: str) -> None:
    """The prompt of a `generate` is all that it is given, whatever of it an earlier call has read."""
    ids = torch.tensor([tiny.tokenizer("The hotel was clean and the people").input_ids])
    edit = replace(add(tiny, "resid.1"), position=Position.parse(position))
    options: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False, "attention_mask": torch.ones_like(ids)}
    with tiny.edit(edit), torch.no_grad():
        whole = tiny.module.generate(ids, **options)
        cache = DynamicCache(config=tiny.config)
        tiny.module(ids[:, :6], past_key_values=cache)
        assert torch.equal(tiny.module.generate(ids, past_key_values=cache, **options), whole)
    with tiny.edit(edit, edit), pytest.raises(ModelError, match="under other edits"):
        tiny.module.generate(torch.cat([whole, ids], 1), past_key_values=cache, max_new_tokens=2)
