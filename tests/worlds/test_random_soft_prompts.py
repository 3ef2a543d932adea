"""Random soft prompts: noise as large as embeddings, and continuations that are the model's own where none is added."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from covec.errors import ExamplesError
from covec.models.text import TextModel
from covec.worlds.random_soft_prompts import (
    Continued,
    at_entropy,
    continued,
    distinct,
    entropy,
    likelihood,
    noise,
    pass_at,
)
from tiny import tiny_model


@pytest.fixture(scope="module")
def model() -> TextModel:
    return TextModel(*tiny_model("llama"))


def test_noise_has_the_moments_of_the_table(model: TextModel) -> None:
    table = model.module.get_input_embeddings().weight.detach()
    found = noise(model, 200, 8)
    assert found.shape == (200, 8, model.width)
    assert float(found.mean()) == pytest.approx(float(table.mean()), abs=0.01)
    assert float(found.std()) == pytest.approx(float(table.std()), rel=0.02)
    assert torch.equal(noise(model, 2), noise(model, 2))
    with pytest.raises(ExamplesError, match="0 draws"):
        noise(model, 0)


def test_nothing_added_is_the_greedy_continuation(model: TextModel) -> None:
    (prompt,) = model.tokenize(["The hotel was clean"])
    found = continued(model, prompt, None, 5)
    ids = model.module.generate(
        torch.tensor([prompt.ids]), max_new_tokens=5, do_sample=False, pad_token_id=0, eos_token_id=None
    )[0, len(prompt.ids) :]
    assert found.tokens[0].tolist() == ids.tolist()
    chances = found.chances[0].gather(-1, found.tokens[0][:, None]).mean()
    assert likelihood(model, prompt, found.tokens)[0] == pytest.approx(float(chances), abs=1e-4)


def test_vectors_of_tokens_are_those_tokens_with_places_of_their_own(model: TextModel) -> None:
    prompt, longer = model.tokenize(["The hotel", "The hotel was clean"])
    behind = torch.tensor(longer.ids[len(prompt.ids) :])
    vectors = model.module.get_input_embeddings().weight[behind].detach()[None].repeat(2, 1, 1)
    found, wanted = continued(model, prompt, vectors, 4), continued(model, longer, None, 4)
    assert found.tokens.tolist() == [wanted.tokens[0].tolist()] * 2
    torch.testing.assert_close(found.chances[1], wanted.chances[0], atol=1e-4, rtol=0)


def test_entropies_are_those_of_the_distributions() -> None:
    half = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]).log()
    found = Continued(torch.zeros(2, 1, dtype=torch.long), half[:, None])
    assert found.entropies[:, 0].tolist() == pytest.approx([math.log(2)] * 2)
    assert float(found.mixture()[0]) == pytest.approx(math.log(4))


def test_a_temperature_gives_the_entropy_that_is_wanted() -> None:
    chances = torch.randn(50, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    for wanted in (0.5, 2.0, 3.5):
        assert float(entropy(at_entropy(chances, wanted))) == pytest.approx(wanted, abs=1e-3)
    even = torch.full((10,), -math.log(10))
    assert distinct(even, 6) == pytest.approx(10 * (1 - 0.9**6), rel=1e-5)


@given(st.integers(1, 7), st.data())
def test_pass_at_is_the_share_of_choices_with_a_right_one(samples: int, data: st.DataObject) -> None:
    right, allowed = data.draw(st.integers(0, samples)), data.draw(st.integers(1, samples))
    choices = list(combinations(range(samples), allowed))
    assert pass_at(samples, right, allowed) == pytest.approx(sum(min(one) < right for one in choices) / len(choices))


def test_counts_that_are_none_are_told() -> None:
    with pytest.raises(ExamplesError, match="4 of 3 samples are right"):
        pass_at(3, 4, 1)
