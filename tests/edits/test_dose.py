"""Drift of several edits at several sites and positions at once, and the strengths that reach a drift."""

import numpy as np
import pytest
import torch

from covec.edits.algebra import Add
from covec.edits.divergence import Divergence, Drift
from covec.edits.dose import Dose, doses
from covec.errors import CovecError, ExamplesError, ModelError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import tiny_model

TEXTS = (
    "The hotel was clean and the people were kind to us.",
    "Water boils at 100 degrees; ice melts at 0, as we know.",
    "The train to the coast leaves at eight and it is late.",
)


@pytest.fixture(scope="module")
def model():
    return TextModel(*tiny_model("llama"))


@pytest.fixture(scope="module")
def drift(model):
    return Drift(model, TEXTS)


def shift(model, size=1.0, block=1, position="content", seed=0):
    made = torch.randn(model.width, generator=torch.Generator().manual_seed(seed))
    return Add(site=Site("resid", block), shift=size * made, position=Position(position))


def test_no_edit_is_no_drift_and_rows_do_not_see_one_another(model, drift):
    both = [shift(model), shift(model, 0.5, 0, seed=1)]
    found = drift.values([(), shift(model), both])
    assert found[0] == pytest.approx(0.0, abs=1e-6)
    assert found[2] == pytest.approx(drift.value(both), rel=1e-4)
    assert found[1] == pytest.approx(drift.value([[shift(model)]]), rel=1e-4)
    assert not np.isclose(found[1], found[2])


def test_what_is_written_is_drift_under_a_scope_around_the_writing(model, drift):
    edit = shift(model)
    tokens = model.tokenize(TEXTS)
    total = count = 0.0
    for item in tokens:
        ids = torch.tensor([item.ids])
        with torch.no_grad():
            before = model.module(ids).logits[0].log_softmax(1)
            with model.edit(edit):
                after = model.module(ids).logits[0].log_softmax(1)
        nats = (before.exp() * (before - after)).sum(1)[drift.prompt - 1 :]
        total, count = total + float(nats.sum()), count + len(nats)
    assert drift.count == count
    assert drift.value(edit) == pytest.approx(total / count, rel=1e-3)


def test_generated_tokens_are_those_behind_the_prompt(model, drift):
    everywhere, written, prompt = drift.values([shift(model, position=one) for one in ("all", "generated", "prompt")])
    assert 0 < written < everywhere
    assert 0 < prompt < everywhere
    assert drift.value(shift(model, position="last+generated")) > written


def test_it_agrees_with_the_divergence_of_one_edit(model):
    texts = [text.partition(",")[0] for text in TEXTS]
    drift = Drift(model, texts)
    edit = shift(model, position=f"from-{drift.prompt}")
    whole = Divergence(model, edit.site, texts)
    assert drift.value(edit) > 0
    assert whole.value(edit) > 0


def test_doses_are_met_and_in_order(model, drift):
    found = doses(drift, lambda strength: shift(model, strength), (0.01, 0.1, 0.5))
    assert [one.wanted for one in found] == [0.01, 0.1, 0.5]
    assert all(one.reached for one in found)
    assert found[0].strength < found[1].strength < found[2].strength
    assert found[1].nats == pytest.approx(drift.value(shift(model, found[1].strength)), rel=1e-3)


def test_the_unit_of_strength_does_not_matter(model, drift):
    (one,), (other,) = (
        doses(drift, lambda strength, unit=unit: shift(model, unit * strength), (0.1,)) for unit in (0.02, 5.0)
    )
    assert one.reached
    assert other.reached
    assert one.strength * 0.02 == pytest.approx(other.strength * 5.0, rel=0.1)


def test_a_family_that_stops_short_is_told(model, drift):
    bounded = doses(drift, lambda strength: shift(model, min(strength, 0.1)), (5.0,))
    assert not bounded[0].reached

    def refusing(strength):
        if strength > 0.2:
            raise ModelError("no further")
        return shift(model, strength)

    (found,) = doses(drift, refusing, (5.0,))
    assert not found.reached
    assert 0.1 < found.strength <= 0.2


def test_bad_input_is_refused_in_a_line(model, drift):
    for wanted in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(CovecError, match="above 0"):
            doses(drift, lambda strength: shift(model, strength), (wanted,))

    def never(strength):
        raise ModelError("not at all")

    with pytest.raises(ModelError, match="not at all"):
        doses(drift, never, (0.1,))
    with pytest.raises(ModelError, match="resid"):
        drift.value(shift(model, block=99))
    with pytest.raises(ExamplesError, match="no text"):
        Drift(model, [])


def test_dose_reached_is_to_a_tenth():
    assert Dose(1.0, 0.1, 0.109).reached
    assert not Dose(1.0, 0.1, 0.12).reached
