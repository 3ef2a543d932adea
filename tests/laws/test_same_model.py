"""K-9, K-10: covec computes the network's own numbers, and a site is what a plain hook at it sees."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from covec.activations.split import Split
from covec.models.batching import pad
from covec.models.fingerprint import fingerprint
from covec.models.text import TextModel
from laws.given import PROMPTS, add, hooks, vector
from tiny import tiny_model


def raw(module: Any, ids: Tensor, **options: Any) -> Any:
    with torch.no_grad():
        return module(input_ids=ids, **options)


def session(model: TextModel, site: str) -> None:
    """A little of everything, an error included."""
    some, concept = list(PROMPTS[:2]), vector(model, site)
    with model.edit(concept.add(1.0)), model.watch(concept):
        model.generate(some, max_new_tokens=2)
    model.detect(concept, some)
    with contextlib.suppress(ZeroDivisionError), model.edit(add(model, site=site)):
        raise ZeroDivisionError
    batch = pad(model.tokenize(some), [0, 1], pad_id=model.pad_id, masked=False, device=model.device)
    split = Split(model, site)
    with torch.no_grad():
        split.logits(split.decode(batch, split.encode(batch))[0])


def state(model: TextModel) -> dict[str, Any]:
    """Whatever a session might leave changed."""
    return {
        "weights": fingerprint(model.module, model.tokenizer),
        "settings": (model.config.to_dict(), model.module.generation_config.to_dict()),
        "training": [part.training for part in model.module.modules()],
        "gradients": [(weight.requires_grad, weight.grad) for weight in model.module.parameters()],
        "attributes": [set(vars(part)) for part in model.module.modules()],
        "hooks": hooks(model),
        "random numbers": torch.get_rng_state().tolist(),
    }


def check_untouched(model: TextModel, site: str, own: Any) -> None:
    """Logits equal, bit for bit, those of `own`: before, between and after; nothing of the network is changed."""
    ids = model.tokenizer(PROMPTS[2], return_tensors="pt").input_ids
    expected = raw(own, ids).logits
    before = state(model)
    assert torch.equal(raw(model.module, ids).logits, expected)
    session(model, site)
    with model.edit():
        assert torch.equal(raw(model.module, ids).logits, expected)
    assert torch.equal(raw(model.module, ids).logits, expected)
    last = model.capture([PROMPTS[2]], "final", "all")["final"]
    head = model.module.get_output_embeddings()
    with torch.no_grad():
        assert torch.equal(head(last), expected[0])
    assert state(model) == before


def test_tiny_models_stay_what_they_are(tiny: TextModel) -> None:
    check_untouched(tiny, "resid.1", tiny_model(tiny.name.removeprefix("tiny-"))[0])


def test_the_embedded_model_is_what_transformers_reads_from_its_folder(smol: TextModel) -> None:
    check_untouched(smol, "resid.5", AutoModelForCausalLM.from_pretrained(smol.source, dtype=torch.float32))


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_resid_is_what_a_plain_hook_on_the_block_sees(smol: TextModel, which: str) -> None:
    """Of the last block, too, where `hidden_states[-1]` is another thing: the stream after the last norm."""
    block = {"first": 0, "middle": smol.blocks // 2, "last": smol.blocks - 1}[which]
    ids = smol.tokenizer(PROMPTS[2], return_tensors="pt").input_ids
    kept: list[Tensor] = []
    handle = smol.module.model.layers[block].register_forward_hook(
        lambda _, args, output: kept.append(output if isinstance(output, Tensor) else output[0])
    )
    raw(smol.module, ids)
    handle.remove()
    found = smol.capture([PROMPTS[2]], [f"resid.{block}", "final"], "all")
    assert torch.equal(found[f"resid.{block}"], kept[0].reshape(ids.shape[1], -1))
    states = raw(smol.module, ids, output_hidden_states=True).hidden_states
    assert len(states) == smol.blocks + 1
    if which == "last":
        assert not torch.allclose(found[f"resid.{block}"], states[-1][0], rtol=0.1)
        assert torch.equal(found["final"], states[-1][0])
    else:
        assert torch.equal(found[f"resid.{block}"], states[block + 1][0])


def test_a_site_is_edited_where_it_is_read(smol: TextModel) -> None:
    """An edit at `resid.k` changes that site by its shift and nothing below it."""
    edit = add(smol, "all", "resid.4")
    sites = ["resid.3", "attn.4", "mlp.4", "resid.4", "resid.5"]
    plain = smol.capture(PROMPTS[:2], sites, "all")
    with smol.edit(edit):
        edited = smol.capture(PROMPTS[:2], sites, "all")
    for site in sites[:3]:
        assert torch.equal(edited[site], plain[site])
    assert torch.allclose(edited["resid.4"] - plain["resid.4"], edit.shift, atol=2e-2)
    assert not torch.allclose(edited["resid.5"], plain["resid.5"], atol=1e-2)
