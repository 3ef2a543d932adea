"""Two models that are a pair read the same tokens; others are told apart in one line."""

import copy

import pytest
import torch

from covec import ModelPair
from covec.errors import ModelError
from covec.models.text import TextModel
from tiny import tiny_model

TEXTS = ["The hotel was clean.", "Water boils.", "The hotel was clean."]


def model(family="llama", seed=0, name="base", **changes):
    module, tokenizer = tiny_model(family, seed)
    return TextModel(module, tokenizer, name=name)


@pytest.fixture(scope="module")
def base():
    return model()


@pytest.fixture
def tuned(base):
    module = copy.deepcopy(base.module)
    with torch.no_grad():
        module.model.layers[-1].mlp.down_proj.weight += 0.1
    return TextModel(module, copy.deepcopy(base.tokenizer), name="tuned")


def test_both_read_the_same_tokens(base, tuned):
    tuned.tokenizer.add_tokens(["<new>"])
    before, after = ModelPair(base, tuned).capture(TEXTS, ["resid.0", f"resid.{base.blocks - 1}"], "mean")
    first, last = before.sites
    assert torch.equal(before[first], after[first])
    assert not torch.allclose(before[last], after[last])
    alone = tuned.capture(TEXTS, last, "mean")
    torch.testing.assert_close(after[last], alone[last])


def test_spans_and_chats_are_read_by_the_base(base, tuned):
    tuned.tokenizer.chat_template = "{{ 'nothing of it' }}"
    chat = [[{"role": "user", "content": "Hello there"}]]
    before, after = ModelPair(base, tuned).capture(chat, "resid.0")
    assert torch.equal(before["resid.0"], after["resid.0"])
    before, after = ModelPair(base, tuned).capture(TEXTS[:1], "resid.0", "span/mean", spans=[(4, 9)])
    assert torch.equal(before["resid.0"], after["resid.0"])


def test_weights_may_be_shared_but_blocks_may_not(base):
    memo = {id(weight): weight for weight in base.module.parameters()}
    ModelPair(base, TextModel(copy.deepcopy(base.module, memo), base.tokenizer, name="shared"))
    with pytest.raises(ModelError, match="base and again are one network: load the base a second time"):
        ModelPair(base, TextModel(base.module, base.tokenizer, name="again"))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"hidden_size": 64}, "base and other differ in width, 32 and 64: give a model and what fine-tuning made"),
        ({"num_hidden_layers": 1}, "base and other differ in blocks, [0-9]+ and 1: give a model"),
        ({"num_key_value_heads": 1}, "base and other differ in their sites, such as key"),
    ],
)
def test_two_shapes_are_refused_in_a_line(base, change, line):
    config = copy.deepcopy(base.module.config)
    for name, value in change.items():
        setattr(config, name, value)
    other = TextModel(type(base.module)(config).eval(), base.tokenizer, name="other")
    with pytest.raises(ModelError, match=line) as caught:
        ModelPair(base, other)
    assert "\n" not in str(caught.value)


def test_two_dtypes_are_refused_in_a_line(base):
    other = TextModel(copy.deepcopy(base.module).bfloat16(), base.tokenizer, name="other")
    with pytest.raises(ModelError, match=r"differ in dtype, torch.float32 and torch.bfloat16: load both in float32"):
        ModelPair(base, other)


def test_two_tokenizers_are_refused_in_a_line(base, tuned):
    _, other = tiny_model("llama", bos="none")
    with pytest.raises(ModelError, match="differ in their tokenizers, as '.+' shows: .* tuned with the base's"):
        ModelPair(base, TextModel(tuned.module, other, name="other"))
