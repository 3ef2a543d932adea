"""Concept guidance: three probes, the blocks that detect best, and activations that keep their length."""

import math

import numpy as np
import pytest
import torch

from covec.concepts.examples import Examples
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.steer.concept_guidance import PROBES, ConceptGuidance, _probe
from covec.worlds.toys import toy


@pytest.fixture(scope="module")
def world():
    return toy(0, read=True)


def planted_rows(seed=0):
    generator = torch.Generator().manual_seed(seed)
    axis = torch.nn.functional.normalize(torch.randn(12, generator=generator), dim=0)
    labels = torch.arange(200) % 2 == 0
    return torch.randn(200, 12, generator=generator) + 3 * torch.where(labels, 1.0, -1.0)[:, None] * axis, labels, axis


@pytest.mark.parametrize("kind", PROBES)
def test_every_probe_finds_a_planted_direction(kind):
    rows, labels, axis = planted_rows()
    w, right = _probe(kind, rows, labels.numpy(), 0)
    assert abs(float(torch.cosine_similarity(w.float(), axis, dim=0))) > 0.9
    assert right.mean() > 0.95


@pytest.mark.parametrize("kind", PROBES)
def test_no_probe_is_right_where_labels_say_nothing(kind):
    rows, labels, _ = planted_rows()
    shuffled = np.random.default_rng(0).permutation(labels.numpy())
    _, right = _probe(kind, rows, shuffled, 0)
    assert right.mean() < 0.7


def test_the_mean_difference_is_the_paper_s():
    rows, labels, _ = planted_rows(1)
    unit = torch.nn.functional.normalize(rows.double() - rows.double().mean(0), dim=1)
    signs = torch.where(labels, 1.0, -1.0).double()
    w, _ = _probe("mean-difference", rows, labels.numpy(), 0)
    wanted = (signs[:, None] * unit).mean(0)
    assert float(torch.cosine_similarity(w, wanted, dim=0)) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("kind", PROBES)
def test_the_blocks_that_detect_best_are_guided_along_their_probes(world, kind):
    fitted = ConceptGuidance(kind).fit(world.model, world.examples)
    accuracies = {one.site: one.figures["accuracy"].value for one in fitted.vectors.values()}
    (edit,), (vector,) = fitted.edits(2.0), fitted.guided()
    assert edit.site == max(accuracies, key=accuracies.get)
    assert torch.allclose(edit.shift, 2.0 * vector.scale * vector.direction, atol=1e-5)
    assert len(ConceptGuidance(kind, blocks=2).fit(world.model, world.examples).edits()) == 2


def test_only_the_first_tokens_of_a_text_are_rows(world):
    texts = [f"{text} word1 word2 word3" for text in world.examples.inputs]
    longer = Examples(texts, world.examples.labels, name="c")
    short = ConceptGuidance(tokens=9).fit(world.model, Examples(world.examples.inputs, world.examples.labels, name="c"))
    again = ConceptGuidance(tokens=9).fit(world.model, longer)
    for one, other in zip(short.vectors.values(), again.vectors.values(), strict=True):
        assert torch.allclose(one.direction, other.direction, atol=1e-4)


def test_activations_keep_their_length(world):
    fitted = ConceptGuidance().fit(world.model, world.examples)
    (edit,) = fitted.edits(1.0)
    plain = world.model.capture(world.neutral[:4], edit.site, "content/none")[edit.site]
    with world.model.edit(edit):
        guided = world.model.capture(world.neutral[:4], edit.site, "content/none")[edit.site]
    assert torch.allclose(guided.norm(dim=1), plain.norm(dim=1), rtol=1e-4)
    assert not torch.allclose(guided, plain)


def test_what_cannot_be_done_is_told_in_one_line(world):
    with pytest.raises(CovecError, match="one of mean-difference, logistic, pca, not 'svm'"):
        ConceptGuidance("svm").fit(world.model, world.examples)
    with pytest.raises(CovecError, match="not fitted"):
        ConceptGuidance().edits()
    fitted = ConceptGuidance().fit(world.model, world.examples)
    assert fitted.edits(0.0) == ()
    with pytest.raises(CovecError, match="finite number, not nan"):
        fitted.edits(math.nan)


def test_any_family_can_be_guided(tiny: TextModel):
    words = ["Bread", "Water", "Stone", "Grass", "Light", "Night"]
    examples = Examples.from_lists([f"{word} is good!" for word in words], [f"{word} is bad." for word in words])
    steering = ConceptGuidance().fit(tiny, examples)
    assert len(steering.guided()) == tiny.blocks // 2
    assert len(tiny.generate(["Bread"], edits=[steering.edits()], max_new_tokens=2)) == 1
