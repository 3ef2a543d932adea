"""ACE: the amount of a concept is what is set, whatever it was."""

import math
from dataclasses import replace

import pytest
import torch

from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.edits.joint import set_scores
from covec.errors import CovecError
from covec.models.positions import Position
from covec.models.text import TextModel
from covec.steer.affine_concept_editing import AffineConceptEditing
from covec.worlds.toys import toy


@pytest.fixture(scope="module")
def world():
    return toy(0, read=True)


@pytest.fixture(scope="module", params=["orthogonal", "oblique"])
def fitted(world, request):
    return AffineConceptEditing("resid.0", request.param).fit(world.model, world.examples)


def means(world, site="resid.0"):
    rows = world.model.capture(world.examples.inputs, [site], "last")[site]
    positive = torch.from_numpy(world.examples.labels)
    return rows, rows[positive].mean(0), rows[~positive].mean(0)


def test_the_formula_is_the_paper_s(world):
    steering = AffineConceptEditing("resid.0").fit(world.model, world.examples)
    rows, positive, negative = means(world)
    r = positive - negative
    unit = r / r.norm()
    for amount in (-0.5, 0.0, 1.0, 2.0):
        (edit,) = steering.amount(amount)
        wanted = rows - (rows @ unit)[:, None] * unit + (negative @ unit) * unit + amount * r
        assert torch.allclose(edit.apply(rows, None), wanted, atol=1e-5)


def test_the_reference_is_met_where_ablation_to_the_origin_misses_it_by_its_distance():
    """Synthetic rows around a reference far from the origin: x = reference + c r + noise across r."""
    generator = torch.Generator().manual_seed(0)
    axis = torch.nn.functional.normalize(torch.randn(6, generator=generator), dim=0)
    noise = torch.randn(40, 6, generator=generator)
    reference, c = 5 * axis + 1.0, torch.rand(40, generator=generator)
    rows = reference + c[:, None] * axis + noise - (noise @ axis)[:, None] * axis
    vector = ConceptVector.from_direction("c", "resid.0", axis, reference + axis, reference)
    (set_,), (ablated,) = set_scores(vector, -0.5), vector.ablate(to="zero")
    miss = [((edit.apply(rows, None) - reference) @ axis).abs().max() for edit in (set_, ablated)]
    assert float(miss[0]) < 1e-5
    assert float(miss[1]) == pytest.approx(float((reference @ axis).abs()), rel=1e-5)


def test_both_class_means_land_on_each_other_s_place(world, fitted):
    _, positive, negative = means(world)
    (present,), (absent,) = fitted.amount(1.0), fitted.amount(0.0)
    assert torch.allclose(present.apply(negative, None), positive, atol=1e-4)
    assert torch.allclose(absent.apply(positive, None), negative, atol=1e-4)


def test_the_text_s_own_amount_changes_nothing(world, fitted):
    (vector,), (rows, _, _) = fitted.vectors.values(), means(world)
    for row, score in zip(rows[:8], vector.score(rows), strict=False):
        (edit,) = fitted.amount(float(score) + 0.5)
        assert torch.allclose(edit.apply(row, None), row, atol=1e-5)


def test_weak_strengths_go_part_of_the_way_and_strong_ones_beyond(world, fitted):
    (vector,), (rows, _, _) = fitted.vectors.values(), means(world)
    before = vector.score(rows)
    for strength, after in ((0.25, 0.75 * before + 0.25 * 0.5), (1, 0.5), (3, 2.5), (-1, -0.5), (-2, -1.5)):
        (edit,) = fitted.edits(strength)
        assert torch.allclose(vector.score(edit.apply(rows, None)), torch.as_tensor(after).float(), atol=1e-4)


def test_what_a_model_says_no_longer_depends_on_the_prompt(world):
    """With the coordinate set at every token, texts of both classes give good words the same logits on average."""
    steering = AffineConceptEditing("resid.0").fit(world.model, world.examples)
    vocabulary, positive = world.model.tokenizer.get_vocab(), world.examples.labels
    good = [at for word, at in vocabulary.items() if word.startswith("good")]
    ids = world.model.tokenizer(list(world.examples.inputs), return_tensors="pt").input_ids

    def spread(*edits):
        with world.model.edit(*edits), torch.no_grad():
            logits = world.model.module(ids).logits[:, -1, good].mean(1)
        return float((logits[torch.from_numpy(positive)].mean() - logits[torch.from_numpy(~positive)].mean()).abs())

    (vector,), (edit,) = steering.vectors.values(), steering.edits(1.0)
    everywhere = replace(edit, position=Position("all"))
    assert spread(everywhere) < 0.2 * spread(vector.add(1.0, position="all"))


def test_what_cannot_be_done_is_told_in_one_line(world):
    with pytest.raises(CovecError, match="orthogonal or oblique, not 'leace'"):
        AffineConceptEditing(projection="leace").fit(world.model, world.examples)
    with pytest.raises(CovecError, match="not fitted"):
        AffineConceptEditing().edits()
    with pytest.raises(CovecError, match="not fitted"):
        AffineConceptEditing().amount(1.0)
    fitted = AffineConceptEditing("resid.0").fit(world.model, world.examples)
    assert fitted.edits(0.0) == ()
    with pytest.raises(CovecError, match="finite number, not inf"):
        fitted.edits(math.inf)


def test_any_family_can_be_edited(tiny: TextModel):
    words = ["Bread", "Water", "Stone", "Grass", "Light", "Night"]
    examples = Examples.from_lists([f"{word} is good!" for word in words], [f"{word} is bad." for word in words])
    steering = AffineConceptEditing().fit(tiny, examples)
    assert [site.block for site in next(iter(steering.vectors.values())).sites] == [tiny.blocks // 2]
    assert len(tiny.generate(["Bread"], edits=[steering.edits()], max_new_tokens=2)) == 1
