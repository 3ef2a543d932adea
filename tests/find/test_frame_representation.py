from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.concepts.examples import Examples
from covec.edits.algebra import Add
from covec.errors import CovecError, ExamplesError, ModelError
from covec.find._frames import nearest
from covec.find.frame_representation import Frame, FrameRepresentation, Frames, guided
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel

PROMPTS = ["The hotel was", "Water boils at 100", "A dull"]


@pytest.fixture(scope="module")
def frames(smol: TextModel) -> Frames:
    return Frames(smol)


def test_whitened_rows_have_the_covariance_one(tiny: TextModel) -> None:
    """As the symmetric inverse root of the covariance does it, of every token."""
    made = Frames(tiny)
    rows = tiny.module.get_output_embeddings().weight.detach().double()[: len(tiny.tokenizer)]
    found = made.whitened(rows).double()
    torch.testing.assert_close(found.T @ found / len(found), torch.eye(tiny.width).double(), atol=1e-4, rtol=0)
    values, axes = torch.linalg.eigh(rows.T.cov(correction=0))
    wanted = (rows - rows.mean(0)) @ axes @ torch.diag(values.rsqrt()) @ axes.T
    torch.testing.assert_close(found, wanted, atol=1e-3, rtol=1e-3)
    direction = torch.randn(tiny.width)
    products = rows.float() @ made.dual(direction)  # differences of what is read are what whitened ones are
    torch.testing.assert_close(
        products - products.mean(), (rows - rows.mean(0)).float() @ made.dual(direction), atol=1e-3, rtol=1e-3
    )
    inverse = axes @ torch.diag(values.sqrt()) @ axes.T
    torch.testing.assert_close(made.dual(direction), (inverse @ direction.double()).float(), atol=1e-4, rtol=1e-3)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 99))
def test_the_nearest_frame_is_orthonormal_where_it_is_used_and_zero_elsewhere(size: int, empty: int, seed: int) -> None:
    columns = torch.randn(12, size, generator=torch.Generator().manual_seed(seed))
    found = nearest(torch.cat([columns, torch.zeros(12, empty)], 1))
    assert found.used == size
    torch.testing.assert_close(found.columns[:, :size].T @ found.columns[:, :size], torch.eye(size), atol=1e-4, rtol=0)
    assert not (found.columns[:, size:].abs() > 1e-6).any()
    assert found.correlation(nearest(columns)) == pytest.approx(1.0, abs=1e-4)
    assert nearest(7 * columns).correlation(found) == pytest.approx(1.0, abs=1e-4)


def test_projections_are_correlations_with_windows() -> None:
    generator = torch.Generator().manual_seed(0)
    concept, hidden = nearest(torch.randn(8, 3, generator=generator)), torch.randn(5, 8, generator=generator)
    found = concept.projections(concept.along(hidden))
    for place in range(5):
        window = Frame(hidden[place : place + 3].T)
        assert float(found[place]) == pytest.approx(window.correlation(concept), abs=1e-5)
    assert concept.projections(concept.along(hidden[:1])).shape == (1,)


def test_words_of_several_tokens_have_a_column_each(frames: Frames) -> None:
    assert frames.word("dog").columns.shape == (576, 1)
    word = frames.word(" antidisestablishment")
    assert word.used == len(frames.tokens("antidisestablishment")) > 2
    assert torch.linalg.matrix_rank(word.columns) == word.used
    concept = frames.concept(["dog", "cat", "antidisestablishment"])
    assert concept.used == word.used
    assert frames.concept(["dog", "cat"]).used == 1
    animals, food = frames.concept(["dog", "cat", "horse"]), frames.concept(["bread", "soup", "cheese"])
    assert frames.word("cow").correlation(animals) > frames.word("cow").correlation(food)


def test_one_candidate_is_greedy_decoding_and_more_lead_to_the_concept(tiny: TextModel) -> None:
    concept = nearest(torch.randn(tiny.width, 2, generator=torch.Generator().manual_seed(0)))
    greedy = guided(tiny, PROMPTS, concept, candidates=1, max_new_tokens=6)
    assert [one.text for one in greedy] == tiny.generate(PROMPTS, max_new_tokens=6)
    for one in (greedy[0], guided(tiny, PROMPTS[:1], concept, candidates=4, max_new_tokens=6)[0]):
        ids = [*tiny.tokenize(PROMPTS[:1])[0].ids, *one.ids]
        with torch.no_grad():
            hidden = tiny.anatomy.body(input_ids=torch.tensor([ids]), use_cache=False)[0][0]
        assert one.total == pytest.approx(float(concept.projections(concept.along(hidden)).sum()), abs=1e-2)


def test_edits_in_force_are_refused_for_each_step_would_be_a_text_to_them(tiny: TextModel) -> None:
    edit = Add(site=Site("resid", 0), position=Position("last"), shift=torch.ones(tiny.width))
    concept = nearest(torch.randn(tiny.width, 2, generator=torch.Generator().manual_seed(0)))
    with tiny.edit(edit), pytest.raises(ModelError, match="a text is read in parts"):
        guided(tiny, PROMPTS[:1], concept, max_new_tokens=2)


def test_each_step_takes_the_candidate_after_which_the_total_is_largest(tiny: TextModel) -> None:
    """As plain passes over the whole text say it."""
    concept = nearest(torch.randn(tiny.width, 2, generator=torch.Generator().manual_seed(1)))
    (found,) = guided(tiny, PROMPTS[1:2], concept, candidates=3, max_new_tokens=3)
    ids = list(tiny.tokenize(PROMPTS[1:2])[0].ids)
    for token in found.ids:
        with torch.no_grad():
            likely = tiny.module(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].topk(3).indices.tolist()
            hidden = tiny.anatomy.body(input_ids=torch.tensor([[*ids, one] for one in likely]), use_cache=False)[0]
        assert token == likely[int(concept.projections(concept.along(hidden)).sum(1).argmax())]
        ids.append(token)


def test_the_finder_reads_the_difference_of_the_words(smol: TextModel, frames: Frames) -> None:
    texts = [f"She talked about the {word}" for word in ("dog", "horse", "cow", "bread", "soup", "cheese")]
    examples = Examples(
        tuple(texts), [1, 1, 1, 0, 0, 0], extra={"observable": tuple(text.split()[-1] for text in texts)}
    )
    column = (frames.concept(["dog", "horse", "cow"]) - frames.concept(["bread", "soup", "cheese"])).columns[:, 0]
    found = FrameRepresentation().fit_model(smol, examples, "final")
    assert abs(float(found.direction_ @ column)) == pytest.approx(1.0, abs=1e-4)
    dual = FrameRepresentation(dual=True).fit_model(smol, examples, "final")
    wanted = torch.nn.functional.normalize(frames.dual(column), dim=0)
    assert abs(float(dual.direction_ @ wanted)) == pytest.approx(1.0, abs=1e-4)
    sites = smol.select("resid.20,resid.29")
    X = smol.capture(examples.inputs, sites, "last").stack()
    fits = FrameRepresentation().at(smol, sites).fit_many(X, examples.labels, observable=examples.extra["observable"])
    torch.testing.assert_close(fits.directions[0].abs(), fits.directions[1].abs())


def test_bad_input(tiny: TextModel, smol: TextModel, frames: Frames) -> None:
    good = Examples(
        ("a dog", "a cat", "a cup", "a pan"), [1, 1, 0, 0], extra={"observable": ("dog", "cat", "cup", "pan")}
    )
    cases: list[tuple[Examples, Any, type[CovecError], str]] = [
        (replace(good, extra={}), "resid.0", ExamplesError, "needs observable of each row"),
        (
            replace(good, extra={"observable": ("dog", "", "cup", "pan")}),
            "resid.0",
            ExamplesError,
            "row 2 has no observable",
        ),
        (
            replace(good, extra={"observable": ("dog",) * 4}),
            "resid.0",
            ExamplesError,
            "'dog' is a word of both classes",
        ),
        (good, "head.0.0", ModelError, "no part of it"),
    ]
    for examples, site, kind, words in cases:
        with pytest.raises(kind, match=words):
            FrameRepresentation().fit_model(tiny, examples, site)
    with pytest.raises(ExamplesError, match="a concept needs a word"):
        frames.concept([])
    with pytest.raises(ExamplesError, match="is no token to smollm2-135m"):
        frames.word("  ")
    concept = frames.concept(["dog"])
    for options in ({"candidates": 0}, {"max_new_tokens": 0}):
        with pytest.raises(ExamplesError, match="need a candidate and a token"):
            guided(smol, PROMPTS, concept, **options)
    with pytest.raises(ExamplesError, match="reads a model: call fit_model"):
        FrameRepresentation().fit(np.eye(4), [0, 1, 0, 1], observable=["a", "b", "c", "d"])
    assert Site("final") in smol.sites
