"""PaX: exact where the target is a sum over tokens and places, and refusals in a line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.activations.split import Split
from covec.errors import CovecError
from covec.explain import Target, explain
from covec.explain.pax import PaX
from covec.models.text import TextModel
from covec.worlds.toys import BAD, GOOD, toy
from tiny import tiny_model

TOY = toy(0, read=True, texts=4)
WORDS = "word3 word1 good0 word2 bad4 word5"


@dataclass(frozen=True)
class Sum:
    """A target that is known: the sum over places of a weight of the token times a gain of the place."""

    weights: dict[int, float]
    gains: tuple[float, ...]

    def values(self, split: Split, tokens: list) -> np.ndarray:
        rows = np.array([[self.weights.get(one, 0.0) for one in item.ids[1:]] for item in tokens])
        return rows @ np.array(self.gains)


def known(weights: list[float], gains: list[float]) -> tuple:
    (item,) = TOY.model.tokenize([WORDS])
    target = Sum(dict(zip(item.ids[1:], weights, strict=True)), tuple(gains))
    split = Split(TOY.model, "embed")
    (found,) = PaX(rounds=2, baseline="word9").explain(split, (), [WORDS], target)
    return found


numbers = st.lists(st.floats(-3, 3).map(lambda one: round(one, 2)), min_size=5, max_size=5)


@given(numbers, numbers)
@settings(max_examples=20, deadline=None)
def test_a_product_of_what_and_where_is_split_exactly(weights: list[float], gains: list[float]) -> None:
    found = known(weights, gains)
    w, g = np.array(weights), np.array(gains)
    np.testing.assert_allclose(found.effects, np.outer(w, g), atol=1e-9)
    np.testing.assert_allclose([one.value for one in found.features], w * g.mean(), atol=1e-9)
    np.testing.assert_allclose([one.value for one in found.positions], g * w.mean(), atol=1e-9)
    np.testing.assert_allclose([one.null for one in found.positions], g.mean() * w.mean(), atol=1e-9)
    np.testing.assert_allclose(found.sensitivity, np.abs(w) * np.ptp(g), atol=1e-9)
    change = (w[:, None] - w[None]) * (g[None] - g[:, None])
    np.testing.assert_allclose(found.exchanged, change, atol=1e-9)


def test_tokens_are_named_and_the_first_is_not_moved() -> None:
    target = {GOOD[1]: 1.0, BAD[1]: -1.0}
    found, opposite = explain(TOY.model, [WORDS, WORDS.replace("good0", "bad0")], target, explainer=PaX(rounds=4))
    assert found.tokens == ("word1", "good0", "word2", "bad4", "word5")
    assert list(found.figures)[:2] == ["token 1 'word1'", "token 2 'good0'"]
    assert "place 5" in str(found)
    fallen = [one.value - other.value for one, other in zip(found.features, opposite.features, strict=True)]
    assert np.argmax(fallen) == 1


def test_a_target_is_the_weighted_log_probability_of_words() -> None:
    model = TextModel(*tiny_model("llama"))
    tokens = model.tokenize(["The hotel", "Water boils at 100"])
    target = Target((5, 9), (2.0, -0.5))
    expected = []
    for item in tokens:
        with torch.no_grad():
            chances = model.module(torch.tensor([item.ids])).logits[0, -1].log_softmax(-1)
        expected.append(2.0 * float(chances[5]) - 0.5 * float(chances[9]))
    np.testing.assert_allclose(target.values(Split(model, "embed"), tokens), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "options", "others", "message"),
    [
        ("word1", {}, {}, "selects 1 tokens of input 1"),
        (" ".join(["word1"] * 40), {}, {}, "selects 39 tokens of input 1"),
        (WORDS, {"position": "answer"}, {}, "answer"),
        (WORDS, {"baseline": "two words"}, {}, "the baseline 'two words' is 2 tokens"),
        (WORDS, {"rounds": 1}, {}, "no interval"),
        (WORDS, {}, {"site": "resid.0"}, "split the model there, not at resid.0"),
    ],
)
def test_what_cannot_be_explained_is_told_in_a_line(text: str, options: dict, others: dict, message: str) -> None:
    with pytest.raises(CovecError, match=message) as caught:
        explain(TOY.model, text, GOOD[0], explainer=PaX(**options), **others)
    assert "\n" not in str(caught.value)
