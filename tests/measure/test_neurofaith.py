"""NeuroFaith: which claims count as read, the kinds of explanations, and states that are put into prompts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from covec.edits.algebra import Replace
from covec.errors import CovecError
from covec.measure.neurofaith import agreement, neurofaith, patchscope, read_words, taxonomy
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import tiny_model


@pytest.fixture(scope="module")
def model() -> TextModel:
    return TextModel(*tiny_model("llama"))


def test_a_claim_counts_where_it_stands_in_one_of_the_interpretations() -> None:
    read = [("It is CLARA.", "nobody"), ("dora", "emma"), ("klara schumann",), ("anything",)]
    found = neurofaith(read, ["Clara", "anna", "Clara", None])
    assert found.faithful.tolist() == [True, False, False, False]
    assert found.figure.value == 0.25
    assert found.figure.n == 4
    assert found.figure.low < 0.25 < found.figure.high
    every = np.array([[True, False, True, False], [False] * 4, [False] * 4, [False] * 4])  # claims by what was read
    assert found.figure.null == pytest.approx(every.mean(), abs=0.05)


def test_most_of_a_name_is_enough_unless_it_has_to_be_exact() -> None:
    read = [("her mother is cornelja, I think",)]
    assert agreement("cornelia", read[0][0]) == pytest.approx(7 / 8)
    assert neurofaith(read, ["Cornelia"]).faithful.tolist() == [True]
    assert neurofaith(read, ["Cornelia"], exact=True).faithful.tolist() == [False]
    assert agreement("", "abc") == 0.0


def test_explanations_are_of_eight_kinds_and_two() -> None:
    kinds = {
        (True, True, True, True): "reliable oracle",
        (True, True, False, False): "biased",
        (True, False, True, False): "explainable parrot",
        (True, False, False, True): "deceptive",
        (True, False, False, False): "shortcut",
        (False, True, True, True): "knowledge error in hop 2",
        (False, True, False, False): "knowledge error in hop 1",
        (False, False, True, False): "parrot",
        (False, False, False, True): "deceptive, false",
    }
    for case, kind in kinds.items():
        assert taxonomy(*([one] for one in case)) == {kind: 1.0}
    assert taxonomy([True] * 4, [True, False, True, True], [True] * 4, [True] * 4) == {
        "reliable oracle": 0.75,
        "explainable parrot": 0.25,
    }


def test_words_are_those_that_come_next_after_the_last_block(model: TextModel) -> None:
    texts = ["The hotel was", "Water boils at 100"]
    with torch.no_grad():
        best = [
            model.module(torch.tensor([item.ids])).logits[0, -1].topk(2).indices.tolist()
            for item in model.tokenize(texts)
        ]
    last = f"resid.{model.blocks - 1}"
    expected = [tuple(model.tokenizer.decode([one]).strip() for one in row) for row in best]
    assert read_words(model, texts, last, 2) == expected
    assert read_words(model, texts, "final", 2) == expected
    with pytest.raises(CovecError, match=r"head.0.0 is no state of the stream"):
        read_words(model, texts, "head.0.0")
    assert [len(row) for row in read_words(model, texts, "resid.*", 2)] == [2 * model.blocks] * 2


def test_a_state_is_put_where_the_placeholders_stand(model: TextModel) -> None:
    texts, prompts = ["The hotel was clean", "A dull film"], ["Say _ _ now", "It is _"]
    found = patchscope(model, texts, prompts, sites=["resid.1", "resid.2"], into="resid.0", max_new_tokens=4)
    rows = model.capture(texts, ["resid.1", "resid.2"], "last")
    for row, prompt in enumerate(prompts):
        (item,) = model.tokenize([prompt])
        places = [index for index, (start, end) in enumerate(item.offsets) if prompt[start:end].strip() == "_"]
        assert len(places) == prompt.count("_")
        position = Position("+".join(map(str, places)))
        for place, site in enumerate(("resid.1", "resid.2")):
            edit = Replace(site=Site("resid", 0), value=rows[site][row], position=position)
            with model.edit(edit):
                assert model.generate(prompt, max_new_tokens=4) == found[row][place]


def test_a_state_in_its_own_place_changes_nothing(model: TextModel) -> None:
    text = "The hotel was _"
    value = model.capture([text], "resid.1", "last")["resid.1"][0]
    (item,) = model.tokenize([text])
    with model.edit(Replace(site=Site("resid", 1), value=value, position=Position(str(len(item.ids) - 1)))):
        edited = model.generate(text, max_new_tokens=4)
    assert edited == model.generate(text, max_new_tokens=4)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"prompts": ["Say _"]}, "1 prompts for 2 texts"),
        ({"prompts": ["Say _", "Say it"]}, "prompt 2 has no token '_'"),
        ({"into": "mlp.0"}, "mlp.0 is no state of the stream"),
    ],
)
def test_what_cannot_be_put_is_told_in_a_line(model: TextModel, others: dict, message: str) -> None:
    given = {"prompts": ["Say _", "It is _"], "sites": "resid.1", "into": "resid.0", "max_new_tokens": 2, **others}
    with pytest.raises(CovecError, match=message) as caught:
        patchscope(model, ["The hotel", "A film"], **given)
    assert "\n" not in str(caught.value)


def test_kinds_need_all_that_is_known_of_each_answer() -> None:
    for given in (([True, False], [True], [True, True], [True, True]), ([], [], [], [])):
        with pytest.raises(CovecError, match="give one an answer"):
            taxonomy(*given)


def test_a_name_agrees_with_itself_in_a_long_text_too() -> None:
    """Letters that are frequent in a text of 200 or more are no noise."""
    text = "a marguerite dubais " + "see the tree there, and the great gate at the gate " * 6
    assert agreement("marguerite dubois", text) == pytest.approx(agreement("marguerite dubois", text[:60]))
