"""The readout agrees with the plain model, its edits with scopes, and its gradient with small steps."""

import numpy as np
import pytest
import torch

from covec.edits.algebra import Ablate, Add
from covec.edits.divergence import Divergence
from covec.errors import ExamplesError
from covec.measure._readout import LONGEST, Continuation, Readout
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import tiny_model

INPUTS = ["The hotel was", "A dull film", "Water boils at 100 degrees and the people were kind"]
WORDS = [Continuation("kind", True), Continuation("clean", True), Continuation("dull", False)]


@pytest.fixture(scope="module", params=["llama", "gpt2", "gpt-neox", "qwen3"])
def model(request):
    return TextModel(*tiny_model(request.param))


def plain(model, text):
    ids = model.tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        likely = model.module(ids).logits[0, -1].log_softmax(0)

    def mean(words):
        tokens = [token for word in words for token in model.tokenizer(word, add_special_tokens=False).input_ids]
        return float(likely[tokens].mean())

    return mean(["kind", "clean"]) - mean(["dull"])


@pytest.mark.parametrize("site", ["resid.0", "resid.1", "attn.1", "mlp.0", "embed"])
def test_readouts_are_those_of_the_plain_model_with_and_without_an_edit(model, site):
    readout = Readout(model, site, Position("content"), INPUTS, WORDS)
    np.testing.assert_allclose(readout.values(), [plain(model, text) for text in INPUTS], atol=1e-4)
    shift = torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    edit = Add(site=Site.parse(site), shift=shift)
    with model.edit(edit):
        expected = [plain(model, text) for text in INPUTS]
    np.testing.assert_allclose(readout.values(edit), expected, atol=1e-4)


def test_the_gradient_is_the_slope_of_small_changes(model):
    readout = Readout(model, "resid.0", Position("content"), INPUTS, WORDS, after=" it")
    linear = readout.linear()
    np.testing.assert_allclose(linear.values, readout.values(), atol=1e-5)
    generator = torch.Generator().manual_seed(1)
    shift = torch.nn.functional.normalize(torch.randn(model.width, generator=generator), dim=0)
    step = 1e-2
    up, down = (readout.values(Add(site=Site("resid", 0), shift=sign * step * shift)) for sign in (1, -1))
    np.testing.assert_allclose(linear.add(step * shift[None])[0], (up - down) / 2, rtol=0.05, atol=1e-5)
    coordinates = linear.activations @ shift
    target = coordinates.mean()[None]
    predicted = linear.ablate(shift[None], target)[0]
    found = readout.values(Ablate(site=Site("resid", 0), directions=shift[None], targets=target)) - linear.values
    assert np.corrcoef(predicted, found)[0, 1] > 0.9


def test_no_input_is_continued_by_itself():
    model = TextModel(*tiny_model("llama"))
    own = [Continuation("dull", True, INPUTS[0]), *WORDS]
    with_own = Readout(model, "resid.0", Position("content"), INPUTS, own).values()
    without = Readout(model, "resid.0", Position("content"), INPUTS, WORDS).values()
    assert with_own[0] == pytest.approx(without[0], abs=1e-6)
    assert abs(with_own[1] - without[1]) > 1e-4


def test_both_classes_must_have_words():
    model = TextModel(*tiny_model("llama"))
    with pytest.raises(ExamplesError, match="both labels"):
        Readout(model, "resid.0", Position("content"), INPUTS, WORDS[:2])


def test_long_inputs_are_cut_and_keep_what_stands_before_the_continuation():
    model = TextModel(*tiny_model("llama"))
    assert model.context > LONGEST
    text = "hotel " * 55
    assert len(model.tokenizer(text).input_ids) > LONGEST
    readout = Readout(model, "resid.0", Position("content"), [text], WORDS, after=" was")
    assert np.isfinite(readout.values()).all()


def test_the_divergence_of_no_edit_is_nothing_and_grows_with_the_strength():
    model = TextModel(*tiny_model("llama"))
    divergence = Divergence(model, "resid.1", INPUTS)
    shift = torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    values = [divergence.value(Add(site=Site("resid", 1), shift=size * shift)) for size in (0.0, 0.3, 1.0)]
    assert values[0] == pytest.approx(0.0, abs=1e-6)
    assert values[0] < values[1] < values[2]
    special = sum(len(model.tokenizer(text).input_ids) - 1 for text in INPUTS)
    assert divergence.count == special
