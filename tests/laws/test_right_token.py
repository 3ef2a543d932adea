"""K-3: what is read and written stands at the token that was named."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from covec.models.sites import Site
from covec.models.text import TextModel
from laws.given import CHAT, PROMPTS, Seen, add, close, vector

SITE = "resid.0"  # below others in every model


def raw_rows(model: TextModel, ids: list[int], block: int) -> Tensor:
    """What a plain hook on a block sees at every token of `ids`."""
    kept: list[Tensor] = []
    handle = model.anatomy.blocks[block].register_forward_hook(
        lambda _, args, output: kept.append(output if isinstance(output, Tensor) else output[0])
    )
    with torch.no_grad():
        model.module(torch.tensor([ids]))
    handle.remove()
    return kept[0].reshape(len(ids), -1)


def check_last_of_a_chat(model: TextModel) -> None:
    """`last` is the template's last token: as read, and as every place that shows a token says."""
    ids = model.tokenizer.apply_chat_template(CHAT, return_dict=False)
    assert close(model.capture([CHAT], SITE, "last")[SITE], raw_rows(model, ids, 0)[-1:])
    final = model.tokenizer.decode(ids[-1:])
    concept = vector(model, SITE, aggregator="last")
    found = model.detect(concept, CHAT)
    assert found.tokens[-1].token == final
    assert found.score == found.tokens[-1].score
    replied = model.tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    seen = Seen(site=Site.parse(SITE))
    with model.edit(add(model, "last", SITE), seen), model.watch(concept) as log:
        model.generate(CHAT, max_new_tokens=2)
    read = [entry for entry in log.rows if not entry.generated]
    assert "".join(entry.token for entry in read) == model.tokenizer.decode(replied)
    assert read[-1].token == model.tokenizer.decode(replied[-1:])
    changed = (seen.passes[0][2][0] - raw_rows(model, replied, 0)).norm(dim=1) > 1e-2
    assert changed.nonzero().flatten().tolist() == [len(replied) - 1]


def test_last_is_the_final_token_of_the_chat_template(tiny: TextModel) -> None:
    check_last_of_a_chat(tiny)


def test_last_is_the_final_token_of_the_embedded_models_template(smol: TextModel) -> None:
    check_last_of_a_chat(smol)


def check_first_new_token(model: TextModel, more: bool) -> None:
    """`generated` acts from the first new token on, whose logits choose the second; `last` on those that choose it."""
    ids = model.tokenizer(PROMPTS[2]).input_ids
    changes = {"generated": [False, True], "last": [True, True], "last+generated": [True, True]}
    if more:
        changes |= {f"from-{len(ids)}": [False, True], str(len(ids)): [False, True], "prompt": [True, True]}
    logits: dict[str, list[Tensor]] = {}
    for position in ("none", *changes):
        edits = [] if position == "none" else [add(model, position, SITE)]
        with model.edit(*edits), torch.no_grad():
            output = model.module(torch.tensor([ids]))
            first = output.logits[0, -1]
            name = "cache" if "cache" in output else "past_key_values"  # by the version of transformers
            logits[position] = [first, model.module(torch.tensor([[ids[1]]]), **{name: output[name]}).logits[0, -1]]
    for position, changed in changes.items():
        found = [not torch.equal(one, other) for one, other in zip(logits[position], logits["none"], strict=True)]
        assert found == changed, position
    assert not torch.allclose(logits["last"][1], logits["last+generated"][1])


def test_steering_what_is_generated_begins_with_the_first_new_token(tiny: TextModel) -> None:
    check_first_new_token(tiny, more=True)


def test_steering_what_the_embedded_model_writes_begins_with_the_first_new_token(smol: TextModel) -> None:
    check_first_new_token(smol, more=False)


@pytest.mark.parametrize("position", ["first", "2", "from-5", "prompt", "last", "content"])
def test_what_is_edited_is_what_is_read(tiny: TextModel, position: str) -> None:
    """The rows that change are those that a capture with the same selection gives."""
    everything = tiny.capture(PROMPTS[2:4], SITE, "all")
    rows = tiny.capture(PROMPTS[2:4], SITE, position)
    with tiny.edit(add(tiny, position, SITE)):
        edited = tiny.capture(PROMPTS[2:4], SITE, "all")
    for index in range(2):
        changed = (edited.of(index, SITE) != everything.of(index, SITE)).any(1)
        assert close(everything.of(index, SITE)[changed], rows.of(index, SITE))
