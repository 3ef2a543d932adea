"""Control vectors: means, contrasts and components of solved tasks, and what is said under an edit."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from covec.concepts.examples import Examples
from covec.edits.norms import AddKeepingNorm
from covec.errors import CovecError, ExamplesError
from covec.models.text import TextModel
from covec.steer.reasoning_control_vectors import Diagnosis, ReasoningControlVectors
from covec.worlds.toys import toy


@pytest.fixture(scope="module")
def world():
    made = toy(0, read=True)
    count = len(made.examples) // 2
    return replace(made, examples=replace(made.examples, pairs=tuple(row % count for row in range(2 * count))))


def differences(world):
    rows = world.model.capture(world.examples.inputs, "resid.0", "last")["resid.0"]
    half = len(rows) // 2
    return rows[:half], rows[:half] - rows[half:]


def vector_of(world, *given, **options):
    (vector,) = ReasoningControlVectors(*given, block=0, **options).fit(world.model, world.examples).vectors.values()
    return vector


def test_mean_and_contrast_are_means(world):
    solved, gaps = differences(world)
    assert torch.allclose(vector_of(world, "mean").write, solved.mean(0), atol=1e-5)
    assert torch.allclose(vector_of(world, "contrast").write, gaps.mean(0), atol=1e-5)


@pytest.mark.parametrize("centre", [True, False])
def test_the_component_is_that_of_scikit_learn_with_the_sign_of_the_mean(world, centre):
    from sklearn.decomposition import PCA, TruncatedSVD

    _, gaps = differences(world)
    peer = PCA(1) if centre else TruncatedSVD(1, algorithm="arpack")
    component = torch.from_numpy(peer.fit(gaps.double().numpy()).components_[0]).float()
    vector = vector_of(world, "pca", centre=centre)
    assert abs(float(torch.cosine_similarity(vector.write, component, dim=0))) == pytest.approx(1, abs=1e-4)
    assert float(vector.write.norm()) == pytest.approx(float(gaps.mean(0).norm()), rel=1e-4)
    cosine = float(torch.cosine_similarity(vector.write, gaps.mean(0), dim=0))
    assert vector.figures["cosine"].value == pytest.approx(cosine, abs=1e-5)
    assert cosine > 0


def test_the_order_of_the_pairs_rows_does_not_matter(world):
    order = np.random.default_rng(0).permutation(len(world.examples))
    mixed = ReasoningControlVectors("pca", block=0, centre=False).fit(world.model, world.examples.subset(order))
    (vector,) = mixed.vectors.values()
    assert torch.allclose(vector.write, vector_of(world, "pca", centre=False).write, atol=1e-4)


def test_lengths_are_kept_where_that_is_asked(world):
    fitted = ReasoningControlVectors(block=0, keep_norm=True).fit(world.model, world.examples)
    (edit,) = fitted.edits(2.0)
    assert isinstance(edit, AddKeepingNorm)
    assert torch.allclose(edit.shift, 2 * vector_of(world).write)


@pytest.fixture(scope="module")
def diagnosis(world):
    candidates = ["good0", "good1", "bad0", "bad1"]
    correct = ["good0", "bad0", "good1", "bad1"]
    return Diagnosis(world.model, "resid.0", list(world.neutral[:4]), candidates, correct)


def test_without_an_edit_nothing_diverges_and_entropy_is_that_of_the_model(world, diagnosis):
    said = diagnosis.under()
    assert np.array_equal(said.divergence, np.zeros(4))
    ids = world.model.tokenizer(list(world.neutral[:4]), return_tensors="pt").input_ids
    with torch.no_grad():
        wanted = torch.distributions.Categorical(logits=world.model.module(ids).logits[:, -1]).entropy()
    assert np.allclose(said.entropy, wanted.numpy(), atol=1e-4)


def test_divergences_probability_and_choice_are_those_under_the_edit(world, diagnosis):
    (edit,) = ReasoningControlVectors(block=0).fit(world.model, world.examples).edits(2.0)
    said = diagnosis.under(edit)
    ids = world.model.tokenizer(list(world.neutral[:4]), return_tensors="pt").input_ids
    with torch.no_grad():
        plain = world.model.module(ids).logits[:, -1].log_softmax(1)
        with world.model.edit(edit):
            edited = world.model.module(ids).logits[:, -1].log_softmax(1)
    assert np.allclose(said.divergence, (edited.exp() * (edited - plain)).sum(1).numpy(), atol=1e-4)
    assert np.allclose(said.reverse, (plain.exp() * (plain - edited)).sum(1).numpy(), atol=1e-4)
    vocabulary = world.model.tokenizer.get_vocab()
    among = edited[:, [vocabulary[word] for word in ("good0", "good1", "bad0", "bad1")]].softmax(1).numpy()
    right = [0, 2, 1, 3]
    assert np.allclose(said.probability, among[range(4), right], atol=1e-4)
    assert np.array_equal(said.right, among.argmax(1) == right)


def test_what_cannot_be_done_is_told_in_one_line(world):
    with pytest.raises(CovecError, match="one of contrast, mean, pca, not 'median'"):
        ReasoningControlVectors("median").fit(world.model, world.examples)
    unpaired = Examples(world.examples.inputs, world.examples.labels, name="c")
    with pytest.raises(ExamplesError, match="needs pairs"):
        ReasoningControlVectors("pca").fit(world.model, unpaired)
    with pytest.raises(ExamplesError, match="both classes"):
        ReasoningControlVectors("mean").fit(world.model, unpaired.subset(np.flatnonzero(unpaired.labels)))
    with pytest.raises(CovecError, match="not fitted"):
        ReasoningControlVectors().edits()
    fitted = ReasoningControlVectors().fit(world.model, world.examples)
    assert fitted.edits(0.0) == ()
    with pytest.raises(CovecError, match="finite number, not nan"):
        fitted.edits(math.nan)
    with pytest.raises(ExamplesError, match="one of the candidates"):
        Diagnosis(world.model, "resid.0", ["word1"], ["good0"], ["bad0"])
    with pytest.raises(ExamplesError, match="begin with the same token"):
        Diagnosis(world.model, "resid.0", ["word1"], ["good0", "good0"], ["good0"])


def test_any_family_can_be_steered(tiny: TextModel):
    words = ["Bread", "Water", "Stone", "Grass"]
    good, bad = [f"{word} is good!" for word in words], [f"{word} is bad." for word in words]
    for kind in ("contrast", "mean", "pca"):
        steering = ReasoningControlVectors(kind).fit(tiny, Examples.from_lists(good, bad, paired=True))
        assert len(tiny.generate(["Bread"], edits=[steering.edits()], max_new_tokens=2)) == 1
