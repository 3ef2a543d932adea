from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from covec.activations.jacobian import Linearised
from covec.concepts.examples import Examples
from covec.errors import CovecError, ExamplesError, ModelError
from covec.find._facts import Facts
from covec.find.linear_relational_concepts import LinearRelationalConcepts, RelationalEmbedding
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.worlds.relations import relation


def facts(model: TextModel, examples: Examples) -> Facts:
    return Facts.of(model, examples.inputs, examples.spans, examples.column("object"))


@pytest.fixture(scope="module")
def continents() -> Examples:
    """Few countries of each, some in several tokens, and an object in two."""
    examples = relation("continent").examples("South America")
    rows = [
        row
        for called in sorted({*examples.extra["object"]})
        for row in np.flatnonzero(np.array(examples.extra["object"]) == called)[:3]
    ]
    return examples.subset(rows)


def test_a_linear_relation_is_taken_back_exactly() -> None:
    """Where all texts have one map, what tells an object leads to its subject, up to what the rank leaves out."""
    generator = torch.Generator().manual_seed(0)
    weights, bias = torch.randn(1, 8, 8, generator=generator), torch.randn(8, generator=generator)
    subjects = torch.randn(5, 8, generator=generator)
    told = subjects @ weights[0].T + bias
    texts = [Linearised(weights, subject[None], object) for subject, object in zip(subjects, told, strict=True)]
    embedding = RelationalEmbedding.of(texts)
    torch.testing.assert_close(embedding.biases[0], bias, rtol=1e-4, atol=1e-4)
    for subject, object in zip(subjects, told, strict=True):
        (found,) = embedding.subjects(object[None], rank=8)
        torch.testing.assert_close(found, subject / subject.norm(), rtol=1e-3, atol=1e-3)
    (few,) = embedding.subjects(told[:1], rank=2)
    right = torch.linalg.svd(weights[0]).Vh
    torch.testing.assert_close(few.norm(), torch.tensor(1.0))
    torch.testing.assert_close(right[2:] @ few, torch.zeros(6), atol=1e-4, rtol=0)


def test_subjects_and_objects_of_several_tokens_count_whole(smol: TextModel, continents: Examples) -> None:
    found = facts(smol, continents)
    for row, (text, span) in enumerate(zip(continents.inputs, continents.spans or (), strict=True)):
        item, tokens = found.asked.tokens[row], smol.tokenizer.convert_ids_to_tokens
        ends = smol.tokenizer(text[: span[1]])["input_ids"]
        assert found.sources[row] == len(ends) - 1
        told = tokens([*item.ids[item.layout.last + 1 :], found.asked.answers[row][-1]])
        assert smol.tokenizer.convert_tokens_to_string(told).strip() == found.objects[row]
    south = found.objects.index("South America")
    site = Site("resid", 21)
    rows = smol.capture([f"{continents.inputs[south]} South"], site, "all/none")[site]
    torch.testing.assert_close(found.told(site)[south], rows[-2:].mean(0), rtol=1e-3, atol=1e-2)


def test_texts_are_chosen_of_all_objects_in_turn_whatever_their_order(smol: TextModel, continents: Examples) -> None:
    order = np.random.default_rng(0).permutation(len(continents))
    texts = []
    for given in (continents, continents.subset(order), continents.subset([*order, *order])):
        found = facts(smol, given)
        chosen = found.balanced(range(len(found)), 5)
        texts.append([given.inputs[row] for row in chosen])
        assert {found.objects[row] for row in chosen[:4]} == {*found.objects}
    assert texts[0] == texts[1] == texts[2]


def test_only_texts_count_that_the_model_answers(smol: TextModel, continents: Examples) -> None:
    found = facts(smol, continents)
    known = found.answered()
    assert len(known) >= 9
    wrong = replace(continents, extra={"object": ("antidisestablishment", *continents.extra["object"][1:])})
    assert facts(smol, wrong).answered() == [row for row in known if row]


def test_the_model_s_own_map_tells_countries_apart(smol: TextModel, continents: Examples) -> None:
    """From two Jacobians; positives that it was not shown stand higher along it than others do."""
    finder = LinearRelationalConcepts(texts=2).fit_model(smol, continents, "resid.12")
    unseen = relation("continent").examples("South America")
    spans = tuple((end - 1, end) for _, end in unseen.spans or ())
    rows = smol.capture(unseen.inputs, "resid.12", "span/mean", spans=spans)["resid.12"]
    scores = finder.decision_function(rows)
    assert scores[unseen.labels].mean() > scores[~unseen.labels].mean() + 0.3


def test_bad_input(tiny: TextModel) -> None:
    texts = [f"The people of {name} speak" for name in ("Rome", "Oslo", "Bonn", "Bern")]
    good = Examples(
        tuple(texts),
        [1, 1, 0, 0],
        spans=tuple((14, len(text) - 6) for text in texts),
        extra={"object": ("a", "b", "c", "d")},
    )
    cases: list[tuple[Examples, type[CovecError], str]] = [
        (replace(good, extra={}), ExamplesError, "needs object of each row"),
        (replace(good, spans=(None, *(good.spans or ())[1:])), CovecError, "span"),
        (replace(good, extra={"object": ("a", " ", "c", "d")}), ExamplesError, "row 2 has no object"),
        (replace(good, extra={"object": ("a",) * 4}), ExamplesError, "4 texts and one object, 'a'"),
        (good, ExamplesError, "put solved examples before each text"),
    ]
    for examples, kind, words in cases:
        with pytest.raises(kind, match=words):
            LinearRelationalConcepts().fit_model(tiny, examples, "resid.0")
    for options in ({"texts": 0}, {"rank": 0}):
        with pytest.raises(ExamplesError, match="a text and a rank of 1 at least"):
            LinearRelationalConcepts(**options).fit_model(tiny, good, "resid.0")
    with pytest.raises(ExamplesError, match="1 text and one object"):
        LinearRelationalConcepts.check(tiny, good.subset([0]))
    with pytest.raises(ExamplesError, match="row 1 has no subject"):
        LinearRelationalConcepts.check(tiny, replace(good, spans=None))
    with pytest.raises(ModelError, match="name an earlier site"):
        LinearRelationalConcepts(object_site="resid.0", answered=False).fit_model(
            tiny, good, f"resid.{tiny.blocks - 1}"
        )
    with pytest.raises(ExamplesError, match="reads a model: call fit_model"):
        LinearRelationalConcepts().fit(np.eye(4), [0, 1, 0, 1])
