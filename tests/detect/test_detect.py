"""Scores, tokens and refusals of `detect`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import torch

from covec.cli import schemas
from covec.concepts.bank import Bank
from covec.concepts.vector import ConceptVector, Part
from covec.errors import CovecError
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import tiny_model

TEXTS = ["The hotel was clean.", "A dull film: two hours 🙂 lost!", "Köln 7", "The hotel was clean."]
CHAT = [{"role": "user", "content": "Is it clean?"}, {"role": "assistant", "content": "It was."}]


def vector(model: TextModel, site: str, **others: Any) -> ConceptVector:
    direction = torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    return ConceptVector.from_direction("some", site, direction, scale=2.0, scale_from="spread", **others)


@pytest.mark.parametrize(("aggregator", "position"), [("last", "last"), ("mean", "mean")])
def test_the_score_is_that_of_the_read_position(tiny: TextModel, aggregator: str, position: str) -> None:
    some = vector(tiny, "resid.1", aggregator=aggregator)
    found = [detection.score for detection in tiny.detect(some, TEXTS)]
    expected = some.score(tiny.capture(TEXTS, "resid.1", position)["resid.1"])
    assert torch.allclose(torch.tensor(found), expected, atol=1e-4)


def test_the_highest_token_decides_under_max(tiny: TextModel) -> None:
    for detection in tiny.detect(vector(tiny, "resid.1", aggregator="max"), TEXTS):
        assert detection.score == max(token.score for token in detection.tokens if token.score is not None)


def test_tokens_show_their_characters_and_the_first_says_nothing(tiny: TextModel) -> None:
    some = vector(tiny, "resid.0")
    for text, detection in zip(TEXTS, tiny.detect(some, TEXTS), strict=True):
        assert detection.text == text
        assert detection.tokens[0].score is None
        assert None not in [token.score for token in detection.tokens[1:]]
        shown = [token for token in detection.tokens if token.end > token.start]
        assert all(token.token == text[token.start : token.end] for token in shown)
        assert {index for token in shown for index in range(token.start, token.end)} == set(range(len(text)))


def test_token_scores_equal_captured_rows(tiny: TextModel) -> None:
    some = vector(tiny, "resid.1")
    rows = tiny.capture(TEXTS[:2], "resid.1", "all")
    for index, detection in enumerate(tiny.detect(some, TEXTS[:2])):
        expected = some.score(rows.of(index, "resid.1"))
        found = [token.score for token in detection.tokens]
        assert torch.allclose(torch.tensor(found[1:]), expected[1:], atol=1e-4)


def test_one_text_gives_one_detection_and_a_bank_one_a_concept(
    llama: TextModel, seven: ConceptVector, other: ConceptVector
) -> None:
    bank = Bank([seven, other])
    assert llama.detect(seven, "Köln 7").concept == "seven"
    assert [found.concept for found in llama.detect(bank, "Köln 7")] == ["seven", "other"]
    several = llama.detect(bank, TEXTS[:2])
    assert [(found.text, found.concept) for found in several] == [(t, c) for t in TEXTS[:2] for c in bank]
    alone = [llama.detect(one, text) for text in TEXTS[:2] for one in bank.values()]
    assert all(a.score == pytest.approx(b.score, abs=1e-4) for a, b in zip(several, alone, strict=True))
    assert llama.detect(seven, []) == []


def test_one_pass_serves_all_vectors_and_repeated_texts(
    llama: TextModel, seven: ConceptVector, other: ConceptVector
) -> None:
    read: list[int] = []
    body = llama.anatomy.body
    handle = body.register_forward_pre_hook(
        lambda _, args, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    llama.detect([seven, other], ["Köln 7"] * 5)
    handle.remove()
    assert read == [len(llama.tokenizer("Köln 7").input_ids)]


def test_fires_above_the_threshold_and_probability_where_calibrated(llama: TextModel, seven: ConceptVector) -> None:
    at_seven = llama.detect(seven, "Köln 7")
    assert at_seven.score == pytest.approx(0.5, abs=1e-4)
    assert (at_seven.fires, at_seven.probability) == (True, None)
    assert not llama.detect(replace(seven, threshold=0.6), "Köln 7").fires
    sure = llama.detect(replace(seven, calibration=(4.0, 0.0)), "Köln 7")
    assert sure.probability == pytest.approx(0.8808, abs=1e-3)


def test_several_directions_score_their_mean(llama: TextModel) -> None:
    basis = torch.linalg.qr(torch.randn(llama.width, 2, generator=torch.Generator().manual_seed(2)))[0].T
    part = Part(basis, basis, torch.tensor([0.5, -0.25]), torch.ones(2))
    sites = {Site.parse("resid.1"): part, Site.parse("resid.2"): part}
    some = ConceptVector("plane", sites, kind="subspace", scale_from="spread", aggregator="mean")
    rows = llama.capture(TEXTS, ["resid.1", "resid.2"], "mean")
    expected = torch.stack([part.score(rows[site]).mean(1) for site in sites]).mean(0)
    found = [detection.score for detection in llama.detect(some, TEXTS)]
    assert torch.allclose(torch.tensor(found), expected, atol=1e-4)


def test_chats_are_read_with_their_template(llama: TextModel, other: ConceptVector) -> None:
    found = llama.detect(other, CHAT)
    assert found.text == llama.tokenizer.apply_chat_template(CHAT, tokenize=False)
    assert found.score == pytest.approx(found.tokens[-1].score)  # the closing special token is the last


@pytest.mark.parametrize("aggregator", ["mean", "last"])
def test_a_text_without_content_is_read_at_its_last_token_with_a_warning(
    llama: TextModel, seven: ConceptVector, aggregator: str
) -> None:
    with pytest.warns(UserWarning, match=r"1 input has no content \(no token but the first one"):
        found = llama.detect(replace(seven, aggregator=aggregator), "")
    assert [token.score for token in found.tokens] == [None]
    assert isinstance(found.score, float)


def test_scores_are_those_under_the_edits_around(llama: TextModel, other: ConceptVector) -> None:
    plain = llama.detect(other, TEXTS)
    with llama.edit(other.add(1.5)):
        edited = llama.detect(other, TEXTS)
    assert [b.score - a.score for a, b in zip(plain, edited, strict=True)] == pytest.approx([1.5] * 4, abs=1e-3)


def test_bfloat16_agrees_with_float32(other: ConceptVector, llama: TextModel) -> None:
    module, tokenizer = tiny_model("llama")
    rough = TextModel(module.to(torch.bfloat16), tokenizer, name="tiny-llama")
    exact = [found.score for found in llama.detect(other, TEXTS)]
    found = [found.score for found in rough.detect(other, TEXTS, force=True)]
    assert found == pytest.approx(exact, abs=0.1)


def test_the_document_is_what_the_command_promises(llama: TextModel, seven: ConceptVector) -> None:
    calibrated = replace(seven, calibration=(4.0, 0.0))
    document = json.loads(
        json.dumps(llama.detect([calibrated, replace(seven, name="raw")], TEXTS).to_json(), allow_nan=False)
    )
    jsonschema.validate(document, schemas.load("detect"))
    assert len(document["results"]) == 8


def test_notebooks_get_coloured_and_escaped_text(llama: TextModel, seven: ConceptVector) -> None:
    drawn = llama.detect(seven, "a <b> 7")._repr_html_()
    assert "&lt;" in drawn
    assert "<b>" not in drawn
    assert 'title="+0.50"' in drawn
    assert llama.detect(seven, ["7 a", "b 7"])._repr_html_().count("<p") == 2
    assert "seven" in repr(llama.detect(seven, "7 a"))


def test_vectors_that_do_not_fit_are_refused(llama: TextModel, seven: ConceptVector) -> None:
    stranger = TextModel(*tiny_model("llama", seed=1), name="stranger")
    with pytest.raises(CovecError, match="found in tiny-llama"):
        stranger.detect(seven, "a 7")
    assert isinstance(stranger.detect(seven, "a 7", force=True).score, float)
    with pytest.raises(CovecError, match="no detect method 'loudest'.*known"):
        llama.detect(replace(seven, aggregator="loudest"), "a 7")
    prefix = ConceptVector(
        "p", {Site.parse("embed"): Part.writing(torch.ones(1, llama.width))}, kind="prefix", scale_from="native"
    )
    with pytest.raises(CovecError, match="cannot be read"):
        llama.detect(prefix, "a 7")
    with pytest.raises(CovecError, match="no site|resid.9"):
        llama.detect(vector(llama, "resid.9"), "a 7")
    wide = ConceptVector.from_direction("w", "neuron.0", torch.ones(5), scale=1.0, scale_from="spread")
    with pytest.raises(CovecError, match="5 wide at neuron.0"):
        llama.detect(wide, "a 7")
    for nothing in ([], ["no vector"]):
        with pytest.raises(CovecError, match="vector"):
            llama.detect(nothing, "a 7")
