"""A call within another one, of the same model or of another: each runs under its own plan, and ends with itself.

So do scopes, in whatever order they are left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, LogitsProcessorList, StoppingCriteriaList

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


def one_after_the_other(model: TextModel, *seeds: int) -> Iterator[Tensor]:
    """Logits under an edit, in a generator that holds its scope open."""
    with model.edit(*(add(model, "resid.1", seed) for seed in seeds)):
        while True:
            yield logits(model)


def test_scopes_that_generators_hold_end_in_any_order() -> None:
    model = TextModel(*tiny_model("llama"))
    plain, expected = logits(model), next(one_after_the_other(model, 2))
    first, second = one_after_the_other(model, 1), one_after_the_other(model, 2)
    both = next(one_after_the_other(model, 1, 2))
    next(first)
    assert torch.equal(next(second), both)
    first.close()
    assert torch.equal(logits(model), expected)
    assert torch.equal(next(second), expected)
    second.close()
    assert torch.equal(logits(model), plain)
    assert torch.equal(next(one_after_the_other(model, 2)), expected)


@pytest.mark.parametrize("within", ["whole", "body"])
def test_edits_belong_to_the_network_however_it_was_loaded(within: str, tmp_path: Path) -> None:
    """A language model and its body are one network: an edit of the one acts in every call of the other."""
    module, tokenizer = tiny_model("llama")
    pair = [TextModel(module, tokenizer), TextModel(module.model, tokenizer)]
    edited, other = pair if within == "whole" else pair[::-1]
    texts, edit = [TEXT, "x", "The hotel was clean and the people were kind."], add(edited, "resid.1")
    plain = other.capture(texts, "resid.1", "all/none")["resid.1"]
    with edited.edit(edit):
        found = other.capture(texts, "resid.1", "all/none")["resid.1"]
        torch.testing.assert_close(found, plain + edit.shift)
        assert torch.equal(found, edited.capture(texts, "resid.1", "all/none")["resid.1"])
        with pytest.raises(ModelError, match="edits are in force"):
            other.store(texts, tmp_path / "rows")
        with other.edit(edit):
            twice = pair[0].generate(TEXT, max_new_tokens=6)
    assert twice == pair[0].generate(TEXT, edits=[edit, edit], max_new_tokens=6)


class Asking:
    """A user's own function that calls the model between the passes of a generation, and keeps what it gave."""

    def __init__(self, model: TextModel) -> None:
        self.model, self.found = model, list[Tensor]()

    def ask(self) -> None:
        self.found.append(logits(self.model))

    def process(self, ids: Tensor, scores: Tensor) -> Tensor:
        self.ask()
        return scores

    def stop(self, ids: Tensor, scores: Any, **_: Any) -> Tensor:
        self.ask()
        return torch.zeros(len(ids), dtype=torch.bool)

    def allow(self, batch: int, ids: Tensor) -> list[int]:
        self.ask()
        return list(range(len(self.model.tokenizer)))

    def put(self, value: Tensor) -> None:
        self.ask()

    def end(self) -> None:
        self.ask()


@pytest.mark.parametrize("raw", [False, True], ids=["covec's", "raw"])
@pytest.mark.parametrize("cached", [False, True], ids=["read anew", "cached"])
@pytest.mark.parametrize("position", ["all", "last", "prompt", "generated", "last+generated"])
def test_what_a_generation_asks_in_between_is_a_call_of_its_own(position: str, cached: bool, raw: bool) -> None:
    model = TextModel(*tiny_model("llama"))
    asking, edit = Asking(model), replace(add(model, "resid.1"), position=Position.parse(position))
    prompt = "The hotel was clean"
    options: dict[str, Any] = {
        "max_new_tokens": 4,
        "use_cache": cached,
        "logits_processor": LogitsProcessorList([asking.process]),
        "stopping_criteria": StoppingCriteriaList([asking.stop]),
        "prefix_allowed_tokens_fn": asking.allow,
        "streamer": asking,
    }
    ids = torch.tensor([model.tokenizer(prompt).input_ids])
    with model.edit(edit):
        expected, alone = logits(model), model.generate(prompt, max_new_tokens=4)
        if raw:
            out = model.module.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **options)
            written = model.tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
        else:
            written = model.generate(prompt, **options)
    assert written == alone
    assert len(asking.found) > 12
    assert all(torch.equal(found, expected) for found in asking.found)


def test_a_scope_opened_in_between_holds_in_between() -> None:
    model = TextModel(*tiny_model("llama"))
    edit, found = add(model, "resid.1"), list[Tensor]()

    def process(ids: Tensor, scores: Tensor) -> Tensor:
        with model.edit(edit):
            found.append(logits(model))
        return scores

    written = model.generate(TEXT, max_new_tokens=4, logits_processor=[process])
    assert written == model.generate(TEXT, max_new_tokens=4)
    with model.edit(edit):
        assert all(torch.equal(one, logits(model)) for one in found)


@pytest.mark.parametrize("position", ["all", "last", "generated"])
def test_a_hook_that_calls_the_model_makes_a_call_of_its_own(position: str) -> None:
    model = TextModel(*tiny_model("llama"))
    edit, found, asking = replace(add(model, "resid.1"), position=Position.parse(position)), list[Tensor](), Lock()

    def ask(*_: Any) -> None:
        if asking.acquire(blocking=False):  # not again within itself
            found.append(logits(model))
            asking.release()

    with model.edit(edit):
        expected, text = logits(model), model.generate("The hotel was", max_new_tokens=4)
    handle = model.anatomy.blocks[0].register_forward_hook(ask)
    try:
        with model.edit(edit):
            assert model.generate("The hotel was", max_new_tokens=4) == text
    finally:
        handle.remove()
    assert len(found) == 4
    assert all(torch.equal(one, expected) for one in found)


@pytest.mark.parametrize("position", ["last", "last+generated"])
def test_a_prefix_edited_at_its_own_end_is_no_prefix_of_the_prompt(tiny: TextModel, position: str) -> None:
    ids = torch.tensor([tiny.tokenizer("The hotel was clean and the people").input_ids])
    edit = replace(add(tiny, "resid.1"), position=Position.parse(position))
    cache = DynamicCache(config=tiny.config)
    with tiny.edit(edit), torch.no_grad():
        tiny.module(ids[:, :6], past_key_values=cache)
        with pytest.raises(ModelError, match="of a text of its own, not of the whole prompt"):
            tiny.module.generate(ids, past_key_values=cache, max_new_tokens=2)


def test_what_was_written_under_an_edit_is_no_prefix_of_a_prompt_that_is_not_edited(tiny: TextModel) -> None:
    """A chat that goes on from its cache: the first reply was edited as new text, and is now a part of the prompt."""
    ids = torch.tensor([tiny.tokenizer("The hotel was").input_ids])
    options = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}
    for position in ("generated", "from-2"):
        edit, cache = replace(add(tiny, "resid.1"), position=Position.parse(position)), DynamicCache(config=tiny.config)
        with tiny.edit(edit), torch.no_grad():
            text = torch.cat([tiny.module.generate(ids, past_key_values=cache, **options), ids], 1)
            if position == "generated":
                with pytest.raises(ModelError, match="of a text of its own"):
                    tiny.module.generate(text, past_key_values=cache, **options)
            else:
                whole = tiny.module.generate(text, **options)
                assert torch.equal(tiny.module.generate(text, past_key_values=cache, **options), whole)


@pytest.mark.parametrize("position", ["from-8", "8", "generated", "content", "last", "all"])
def test_new_text_behind_rows_padded_on_the_right_stands_where_it_would_alone(position: str) -> None:
    model = TextModel(*tiny_model("llama"))
    edit = replace(add(model, "resid.0"), position=Position.parse(position))
    rows = [model.tokenizer(text).input_ids for text in ("The hotel was clean and the people were", "x y")]
    width, new = max(map(len, rows)), [57, 44, 45, 46, 47, 48, 49, 50]
    assert len(rows[1]) < 8 < width
    ids = torch.tensor([row + [model.pad_id] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    with model.edit(edit), torch.no_grad():
        cache = model.module(ids, attention_mask=mask, use_cache=True).past_key_values
        for token in new:
            mask = torch.cat([mask, torch.ones(2, 1, dtype=torch.long)], 1)
            given = {"attention_mask": mask, "position_ids": (mask.cumsum(1) - 1)[:, -1:]}
            together = model.module(torch.tensor([[token]] * 2), past_key_values=cache, **given).logits[:, -1]
        for row, found in zip(rows, together, strict=True):
            own = model.module(torch.tensor([row]), use_cache=True).past_key_values
            for token in new:
                alone = model.module(torch.tensor([[token]]), past_key_values=own).logits[0, -1]
            torch.testing.assert_close(found, alone, atol=1e-4, rtol=1e-4)


def test_rows_taken_out_of_a_cache_are_refused() -> None:
    model = TextModel(*tiny_model("llama"))
    ids = torch.tensor([[5, 40, 41, 42], [5, 50, 51, 52]])
    with model.edit(add(model, "resid.0")), torch.no_grad():
        cache = model.module(ids, use_cache=True).past_key_values
        cache.batch_select_indices(torch.tensor([1]))
        with pytest.raises(ModelError, match="a text of 2 rows goes on with 1"):
            model.module(ids[:1, -1:], past_key_values=cache)


def test_a_cache_cut_back_into_its_prompt_is_refused_and_one_behind_it_goes_on() -> None:
    model = TextModel(*tiny_model("llama"))
    ids = torch.tensor([[5, 40, 41, 42, 43, 44]])
    with model.edit(replace(add(model, "resid.0"), position=Position("last+generated"))), torch.no_grad():
        cache = model.module(ids[:, :4], use_cache=True).past_key_values
        expected = model.module(ids[:, 4:5], past_key_values=cache).logits
        cache.crop(-1)
        torch.testing.assert_close(model.module(ids[:, 4:5], past_key_values=cache).logits, expected)
        cache.crop(-2)
        with pytest.raises(ModelError, match="cut back into its prompt"):
            model.module(ids[:, 4:], past_key_values=cache)
