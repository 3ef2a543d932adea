"""Models tuned alike lie together, and the vector of a model is what it changes on average."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

from covec.errors import CovecError, ExamplesError, ModelError
from covec.measure.delta_activations import PROBES, additivity, changes, delta, delta_activations, silhouette
from covec.models.pair import ModelPair
from covec.models.text import TextModel
from tiny import tiny_model

PROMPTS = ("The hotel was clean.", "Water boils at 100 degrees.")  # tiny models read no more than 128 tokens


@pytest.fixture(scope="module")
def base():
    return TextModel(*tiny_model("llama"), name="base")


def shifted(base, shift, name="tuned"):
    """A copy of which the final norm's output is scaled by 1 + `shift`, feature by feature."""
    module = copy.deepcopy(base.module)
    with torch.no_grad():
        module.model.norm.weight *= 1 + shift
    return TextModel(module, base.tokenizer, name=name)


def test_the_vector_is_the_mean_change_of_the_last_token_behind_the_final_norm(base):
    shift = torch.linspace(-0.5, 0.5, base.width)
    pair = ModelPair(base, shifted(base, shift))
    plain = base.capture(PROMPTS, "final", "last")["final"]
    torch.testing.assert_close(changes(pair, PROMPTS), plain * shift, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(delta(pair, PROMPTS), (plain * shift).mean(0), atol=1e-5, rtol=1e-4)


def test_copies_change_nothing_and_probes_are_five_texts_that_name_no_subject(base):
    assert not delta(ModelPair(base, shifted(base, torch.zeros(base.width))), PROMPTS).any()
    assert len(set(PROBES)) == 5
    assert all("Please provide a response." in probe and "Input." in probe for probe in PROBES)


def test_models_of_a_kind_are_near_one_another(base):
    axes = torch.eye(base.width)
    tuned = {f"{kind} {size}": shifted(base, size * axes[kind]) for kind in range(2) for size in (1, 2, 3)}
    labels = [name.split()[0] for name in tuned]
    found = delta_activations(base, tuned, labels, prompts=["The hotel was clean."])
    assert found.figure.value == pytest.approx(1, abs=1e-3)
    assert found.p < 0.11  # of ten ways to part six models in three and three
    assert found.vectors.shape == (6, base.width)
    (nearest, cosine), *_, (farthest, _) = found.nearest(found.vectors[0])
    assert nearest.startswith("0")
    assert cosine == pytest.approx(1, abs=1e-5)
    assert farthest.startswith("1")


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.1, 50))
def test_silhouettes_are_those_of_scikit_learn_whatever_the_scale(seed, scale):
    generator = torch.Generator().manual_seed(seed)
    vectors, labels = torch.randn(7, 5, generator=generator), list("aabbbcc")
    distances = (1 - torch.corrcoef(torch.cat([vectors, -vectors], 1))[:7, :7]).clamp(0, 1).fill_diagonal_(0)
    figure, p = silhouette(scale * vectors, labels, permutations=9)
    assert figure.value == pytest.approx(silhouette_score(distances, labels, metric="precomputed"), abs=1e-5)
    assert 0.1 <= p <= 1


def test_a_sum_of_parts_is_told_from_a_part():
    one, other = torch.eye(4)[:2]
    found = additivity(2 * one + 2 * other, one, other)
    assert (found.value, found.null) == pytest.approx((1.0, 0.5**0.5))
    assert additivity(one, one, other).value < additivity(one, one, other).null


@pytest.mark.parametrize(
    ("labels", "line"),
    [
        (["a", "a", "b"], "3 labels for 4 models: give one each"),
        (["a"] * 4, "1 labels, the rarest of 4: two labels of two models are needed"),
        (["a", "a", "a", "b"], "2 labels, the rarest of 1: two labels of two models"),
    ],
)
def test_labels_that_allow_no_comparison_are_refused(labels, line):
    with pytest.raises(ExamplesError, match=line):
        silhouette(torch.randn(4, 3), labels)


def test_other_models_and_no_prompt_are_refused(base):
    other = TextModel(*tiny_model("gpt2"), name="other")
    with pytest.raises(ModelError, match="base and other differ in"):
        delta_activations(base, {"other": other}, ["a"])
    with pytest.raises(CovecError, match="there is no prompt: give one at least"):
        delta(ModelPair(base, shifted(base, torch.zeros(base.width))), [])


def test_no_model_is_told_in_a_line():
    with pytest.raises(ExamplesError, match="0 labels for 0 models"):
        delta_activations(TextModel(*tiny_model("llama")), {}, [])
