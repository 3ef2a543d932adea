"""What a text model says of itself, and that covec leaves it as it is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from covec.errors import ModelError
from covec.models.text import TextModel
from tiny import tiny_model

TEXTS = ["The hotel was clean.", "x"]


def hooks(model: TextModel) -> list[int]:
    """Hooks of every part (transformers leaves some of its own once hidden states were asked for)."""
    return [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.module.modules()]


def logits(model: TextModel) -> Tensor:
    with torch.no_grad():
        return model.module(model.tokenizer(TEXTS[0], return_tensors="pt").input_ids).logits.clone()


def test_it_describes_the_network_it_holds(tiny: TextModel) -> None:
    found = tiny.describe()
    assert (found["blocks"], found["width"]) == (tiny.blocks, tiny.width) == (len(tiny.anatomy.blocks), 32)
    assert (found["dtype"], found["device"]) == ("float32", "cpu")
    assert found["architecture"] == type(tiny.module).__name__
    assert found["fingerprint"] == tiny.fingerprint
    assert tiny.context == 128
    assert tiny.name in repr(tiny)


def test_the_network_computes_what_it_did_before_during_and_after_a_session(tiny: TextModel) -> None:
    """Bit for bit (K-9), with no hook left behind."""
    before = logits(tiny)
    weights = {name: tensor.clone() for name, tensor in tiny.module.state_dict().items()}
    config = tiny.config.to_dict()
    attributes, installed = set(vars(tiny.module)), hooks(tiny)
    tiny.capture(TEXTS, "resid.*", "mean")
    tiny.generate(TEXTS, max_new_tokens=2)
    with tiny.edit():
        assert torch.equal(logits(tiny), before)
    assert torch.equal(logits(tiny), before)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in tiny.module.state_dict().items())
    assert config == tiny.config.to_dict()
    assert attributes == set(vars(tiny.module))
    assert hooks(tiny) == installed


def test_the_padding_id_is_never_mistaken_for_none(tiny: TextModel) -> None:
    expected = tiny.tokenizer.eos_token_id if tiny.tokenizer.pad_token_id is None else tiny.tokenizer.pad_token_id
    assert tiny.pad_id == expected
    zero = TextModel(*tiny_model("llama", bos="one"))
    assert zero.tokenizer.pad_token_id == zero.pad_id == 0


def test_a_tokenizer_without_offsets_is_refused(tiny: TextModel) -> None:
    with pytest.raises(ModelError, match="use_fast=True"):
        TextModel(tiny.module, SimpleNamespace(is_fast=False))


def test_dropout_at_work_is_refused_before_anything_runs() -> None:
    model = TextModel(*tiny_model("gpt2"))
    model.module.train()
    for work in (model.capture, model.generate):
        with pytest.raises(ModelError, match="training mode, where .*drop.* is at work"):
            work(TEXTS)
    model.module.eval()
    expected = model.capture(TEXTS, "resid.1")["resid.1"]
    quiet = TextModel(*tiny_model("llama"))
    quiet.module.train()  # nothing random in it
    assert torch.isfinite(quiet.capture(TEXTS, "resid.1")["resid.1"]).all()
    assert torch.equal(model.capture(TEXTS, "resid.1")["resid.1"], expected)


def test_sites_are_chosen_in_the_models_order_and_must_exist(tiny: TextModel) -> None:
    assert [str(site) for site in tiny.select(["resid.1", "embed", "resid.0"])] == ["embed", "resid.0", "resid.1"]
    with pytest.raises(ModelError, match="no site"):
        tiny.select("resid.77")
    with pytest.raises(ModelError, match="no module"):
        tiny.select("some.thing")
