"""Where a concept is in a text, by the text's own SuperActivators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from covec.concepts.vector import ConceptVector
from covec.detect import Localised, localise
from covec.detect.super_activators import SuperActivators
from covec.errors import CovecError
from covec.models.text import TextModel
from tiny import tiny_model

TEXTS = ("The hotel was clean and the people were kind.", "Water boils at 100 degrees.")


@pytest.fixture(scope="module")
def model() -> TextModel:
    module, tokenizer = tiny_model("llama")
    return TextModel(module, tokenizer, name="tiny")


@pytest.fixture(scope="module")
def vector(model: TextModel) -> ConceptVector:
    low, high = torch.randn(2, model.width, generator=torch.Generator().manual_seed(0))
    made = ConceptVector.from_direction("warmth", "resid.1", high - low, high, low, model=model.describe())
    return replace(made, aggregator="super-activators", threshold=0.0)


def test_the_local_vector_is_the_softmax_mean_of_the_tail() -> None:
    rows = np.random.default_rng(0).normal(size=(7, 3))
    scores, offsets = np.array([0.1, 2.0, 3.0, -1.0, 0.2, 0.3, 0.1]), np.array([0, 4, 7])
    tail = SuperActivators(1.0)
    assert tail.tail(scores).tolist() == [False, True, True, False, False, False, False]
    found = tail.local_vectors(scores, offsets, rows)
    weights = np.exp([2.0, 3.0]) / np.exp([2.0, 3.0]).sum()
    np.testing.assert_allclose(found[0], weights @ rows[1:3])
    np.testing.assert_allclose(found[1], rows[5], err_msg="without a SuperActivator the highest token stands in")
    np.testing.assert_allclose(tail.local_vectors(scores, offsets, rows, top=True), rows[[2, 5]])


def test_high_scores_do_not_overflow() -> None:
    found = SuperActivators(0.0).local_vectors([1e4, 1e4 - 1], [0, 2], np.eye(2))
    assert np.isfinite(found).all()


def test_tokens_are_scored_by_the_texts_own_vector(model: TextModel, vector: ConceptVector) -> None:
    found = localise(model, vector, TEXTS)
    part = vector.parts[vector.site]
    for one, text in zip(found, TEXTS, strict=True):
        rows = model.capture([text], vector.site, "content/none")[vector.site]
        centred = (rows - (part.mean_positive + part.mean_negative) / 2).double().numpy()
        cosines = centred @ one.direction / np.linalg.norm(centred, axis=1)
        np.testing.assert_allclose([token.score for token in one.tokens if token.score is not None], cosines, atol=1e-5)
        assert one.tokens[0].score is None
        assert np.linalg.norm(one.direction) == pytest.approx(1)
        assert one.super_activators
        assert {token.score for token in (one.tokens[place] for place in one.super_activators)} != {None}


def test_a_text_alone_is_as_in_a_batch(model: TextModel, vector: ConceptVector) -> None:
    alone, first = localise(model, vector, TEXTS[0]), localise(model, vector, TEXTS)[0]
    assert isinstance(alone, Localised)
    assert alone.super_activators == first.super_activators
    np.testing.assert_allclose(alone.direction, first.direction, atol=1e-4)


def test_a_text_out_of_reach_of_the_tail_does_not_fire(model: TextModel, vector: ConceptVector) -> None:
    far = localise(model, replace(vector, threshold=1e6), TEXTS[0])
    assert isinstance(far, Localised)
    assert not far.fires
    assert len(far.super_activators) == 1


def test_what_cannot_be_localised_is_told(model: TextModel, vector: ConceptVector) -> None:
    with pytest.raises(CovecError, match="calibrate it for super-activators"):
        localise(model, replace(vector, aggregator="mean"), TEXTS)
