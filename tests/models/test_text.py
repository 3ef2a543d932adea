"""What a text model says of itself, and that covec leaves it as it is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import transformers
from torch import Tensor

from comparing import hooks
from covec.activations.split import Split
from covec.edits.algebra import Add
from covec.errors import ModelError
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import randomised, tiny_model, tiny_tokenizer

TEXTS = ["The hotel was clean.", "x"]


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
    with pytest.raises(ModelError, match="nor a module"):
        tiny.select("some.thing")


class Beside(torch.nn.Module):
    """A projection with something added to what it gives, as an adapter's module holds it."""

    def __init__(self, base_layer: torch.nn.Linear) -> None:
        super().__init__()
        self.base_layer = base_layer
        self.in_features, self.out_features = base_layer.in_features, base_layer.out_features

    def forward(self, rows: Tensor) -> Tensor:
        return self.base_layer(rows) + rows.mean()


@pytest.mark.parametrize("path", ["self_attn.o_proj", "self_attn.v_proj", "mlp.down_proj", "mlp", ""])
def test_parts_that_were_replaced_since_it_was_loaded_are_told(path: str) -> None:
    module, tokenizer = tiny_model("llama")
    model = TextModel(module, tokenizer)
    shift = Add(site=Site("resid", 1), shift=torch.ones(32))
    block = module.model.layers[1]
    if path:
        block.set_submodule(path, Beside(block.get_submodule(path)) if "." in path else type(block.mlp)(module.config))
    else:
        module.model.layers[1] = type(block)(module.config, 1)
    for use in (
        lambda: model.capture(TEXTS, "resid.0"),
        lambda: model.edit(shift),
        lambda: model.generate(TEXTS),
        lambda: Split(model, "resid.0"),
    ):
        with pytest.raises(ModelError, match="another module at model.layers.1"):
            use()
    again = TextModel(module, tokenizer)
    seen: list[Tensor] = []
    handle = module.model.layers[1].self_attn.o_proj.register_forward_hook(lambda _, __, out: seen.append(out[0]))
    found = again.capture(TEXTS[:1], "attn.1", "all/none")["attn.1"]
    handle.remove()
    assert torch.equal(found, seen[-1])  # the first pass found what blocks add


def test_parts_that_no_site_stands_on_may_be_replaced() -> None:
    module, tokenizer = tiny_model("llama")
    model = TextModel(module, tokenizer)
    before = model.fingerprint
    module.model.layers[1].self_attn.q_proj = Beside(module.model.layers[1].self_attn.q_proj)
    seen: list[Tensor] = []
    handle = module.model.layers[1].register_forward_hook(lambda _, __, out: seen.append(out[0]))
    found = model.capture(TEXTS[:1], "resid.1", "all/none")["resid.1"]
    handle.remove()
    assert torch.equal(found, seen[0])
    assert model.fingerprint != before


def test_a_learned_prompt_is_refused() -> None:
    module, tokenizer = tiny_model("llama")
    module.peft_config = {"default": SimpleNamespace(is_prompt_learning=False)}
    TextModel(module, tokenizer)
    module.peft_config |= {"style": SimpleNamespace(is_prompt_learning=True)}
    with pytest.raises(ModelError, match=r"learned a prompt that stands before every text \(style\)"):
        TextModel(module, tokenizer)


@pytest.mark.parametrize(("kind", "sees_ahead"), [("MegatronBert", True), ("Bloom", False), ("Mamba", False)])
def test_whether_tokens_see_those_to_come_is_measured_where_no_part_says_it(kind: str, sees_ahead: bool) -> None:
    tokenizer = tiny_tokenizer("one")
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(tokenizer), initializer_range=0.2, **shape)
    model = TextModel(randomised(lambda: getattr(transformers, f"{kind}ForCausalLM")(config)), tokenizer)
    assert model.causal is not sees_ahead
    assert model.generates is not sees_ahead
    alone = model.capture(TEXTS[1:], "resid.1", "all/none")["resid.1"]
    beside = model.capture(TEXTS, "resid.1", "all/none")["resid.1"][-len(alone) :]
    assert torch.allclose(alone, beside, atol=1e-4)


def test_norms_that_learn_from_the_batch_are_refused_in_training() -> None:
    module, tokenizer = tiny_model("llama")
    model = TextModel(module, tokenizer)
    module.model.layers[0].register_module("extra", torch.nn.BatchNorm1d(32).eval())
    assert len(model.capture(TEXTS, "resid.1")["resid.1"]) == 2
    module.train()
    with pytest.raises(ModelError, match="training mode, where model.layers.0.extra is at work"):
        model.capture(TEXTS, "resid.1")


def test_another_default_device_is_told_in_one_line() -> None:
    module, tokenizer = tiny_model("llama")
    model = TextModel(module, tokenizer)
    shift = Add(site=Site("resid", 1), shift=torch.ones(32))
    with torch.device("meta"):
        for use in (
            lambda: TextModel(module, tokenizer),
            lambda: model.capture(TEXTS, "resid.0"),
            lambda: model.generate(TEXTS),
            lambda: model.edit(shift),
        ):
            with pytest.raises(ModelError, match="default device is meta"):
                use()
    assert len(model.capture(TEXTS, "resid.0")["resid.0"]) == 2
