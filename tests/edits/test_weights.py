"""Weight vectors: put in for a block and taken out to the bit, in whatever order scopes end."""

import copy
import math

import pytest
import torch

from covec.concepts.bank import load_vector
from covec.concepts.vector import ConceptVector
from covec.concepts.weights import combined, cosine, length
from covec.errors import CovecError, ModelError
from covec.models.text import TextModel
from tiny import tiny_model


def state(model):
    return {name: tensor.clone() for name, tensor in model.module.state_dict().items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(params=("llama", "gpt2"))
def pair(request):
    """A model, and a copy of which two matrices and a norm are changed; the head of the second is tied."""
    module, tokenizer = tiny_model(request.param)
    base = TextModel(module, tokenizer, name="base")
    tuned = TextModel(copy.deepcopy(module), tokenizer, name="tuned")
    with torch.no_grad():
        for index, weight in enumerate(tuned.module.parameters()):
            if index % 3 == 0:
                weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(index))
    return base, tuned


def test_the_whole_vector_makes_the_tuned_model_and_the_base_comes_back_to_the_bit(pair, tmp_path):
    base, tuned = pair
    vector = ConceptVector.from_models(base, tuned, "joy")
    assert (vector.kind, vector.name) == ("weights", "joy")
    before, known = state(base), base.fingerprint
    with base.patch_weights(vector, 1.0) as model:
        assert model is base
        assert base.fingerprint != known
        for name, weight in tuned.module.named_parameters():
            torch.testing.assert_close(base.module.get_parameter(name), weight, rtol=0, atol=1e-6)
    assert same(state(base), before)
    assert base.fingerprint == known
    vector.save(tmp_path / "v.safetensors")
    assert load_vector(tmp_path / "v.safetensors").identical(vector)


def test_after_an_error_nested_and_out_of_order_every_bit_comes_back(pair):
    base, tuned = pair
    vector = ConceptVector.from_models(base, tuned)
    before = state(base)
    with pytest.raises(ZeroDivisionError), base.patch_weights(vector, -0.7):
        raise ZeroDivisionError
    assert same(state(base), before)
    one, other = base.patch_weights(vector, 1e4), base.patch_weights(vector, 0.3)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    found = state(base)
    other.__exit__(None, None, None)
    assert same(state(base), before)
    with base.patch_weights(vector, 0.3):
        assert same(state(base), found)


def test_a_strength_of_nothing_changes_no_bit_and_bfloat16_comes_back_too(pair):
    base, tuned = pair
    vector = ConceptVector.from_models(base, tuned)
    before = state(base)
    with base.patch_weights(vector, 0.0):
        assert same(state(base), before)
    base.module.to(torch.bfloat16)
    before = state(base)
    with base.patch_weights(vector, 3.0, force=True):
        assert not same(state(base), before)
    assert same(state(base), before)


def test_arithmetic(pair):
    base, tuned = pair
    vector = ConceptVector.from_models(base, tuned)
    doubled, gone = combined("twice", (1, vector), (1, vector)), combined("gone", (-1, vector))
    assert cosine(vector, doubled) == pytest.approx(1)
    assert cosine(vector, gone) == pytest.approx(-1)
    assert length(doubled) == pytest.approx(2 * length(vector))
    with base.patch_weights(doubled, 0.5):
        found = state(base)
    with base.patch_weights(vector):
        assert all(torch.allclose(found[name], tensor, atol=1e-6) for name, tensor in state(base).items())
    for wrong in (
        (),
        ((1, vector), (-1, vector)),
        ((1, ConceptVector.from_direction("d", "resid.1", torch.ones(4), scale=1.0, scale_from="native")),),
    ):
        with pytest.raises(CovecError) as caught:
            combined("x", *wrong)
        assert "\n" not in str(caught.value)


def test_what_cannot_be_patched_is_refused_before_anything_changes(pair):
    base, tuned = pair
    vector = ConceptVector.from_models(base, tuned)
    before = state(base)
    other = TextModel(*tiny_model("qwen3"), name="other")
    direction = ConceptVector.from_direction("d", "resid.1", torch.ones(32), scale=1.0, scale_from="native")
    for model, wrong, strength, reason in (
        (base, direction, 1.0, "is a direction"),
        (base, vector, math.nan, "finite number"),
        (tuned, vector, 1.0, "begins at another model"),
        (other, ConceptVector(vector.name, vector.parts, "weights", scale_from="native"), 1.0, "this model has"),
    ):
        with pytest.raises(ModelError, match=reason):
            model.patch_weights(wrong, strength)
    assert same(state(base), before)
    with pytest.raises(ModelError, match="do not differ"):
        ConceptVector.from_models(base, TextModel(copy.deepcopy(base.module), base.tokenizer))
    with pytest.raises(ModelError, match="another shape"):
        ConceptVector.from_models(base, other)


def test_a_plain_module_takes_weight_vectors_too():
    one, other = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 2), torch.nn.Linear(4, 2)), None
    other = copy.deepcopy(one)
    with torch.no_grad():
        other[0].weight += 1
    from covec.edits.weights import patch_weights

    vector = ConceptVector.from_models(one, other, "shift")
    assert [str(site) for site in vector.sites] == ["0.weight"]
    kept = one[0].weight.detach().clone()
    with patch_weights(one, vector, 2.0):
        torch.testing.assert_close(one[0].weight, kept + 2)
    assert torch.equal(one[0].weight, kept)
