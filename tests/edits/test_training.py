"""Training of edits: what a step does, which tensors are kept, and what is refused."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from covec.activations.answers import Answered
from covec.edits.algebra import Add
from covec.edits.objectives import NextToken
from covec.edits.trainable import TrainableAdd, as_vector, zero_shifts
from covec.edits.training import Settings, train
from covec.errors import CovecError, ExamplesError, FileError, ModelError
from covec.models.sites import Site
from covec.models.text import TextModel

TEXTS = ["The hotel was clean.", "A dull film: two hours that I shall never get back!", "ice melts at 0."]


def trainable(model: TextModel, site: str = "resid.1") -> tuple[TrainableAdd, ...]:
    return zero_shifts(model, site, TEXTS)


def shifted(model: TextModel) -> Add:
    shift = torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    return Add(site=Site("resid", 1), shift=shift)


def test_the_loss_is_that_of_the_whole_model_under_the_edit(tiny: TextModel) -> None:
    edit = shifted(tiny)
    said = NextToken(Answered.whole(tiny, TEXTS), rows=None).reading.read([edit], range(3))
    for row, text in enumerate(TEXTS):
        ids = tiny.tokenizer(text, return_tensors="pt").input_ids
        with tiny.edit(edit), torch.no_grad():
            wanted = cross_entropy(tiny.module(ids).logits[0, :-1], ids[0, 1:], reduction="none")
        assert torch.allclose(said.losses[said.row == row], wanted, atol=1e-4)


def test_rows_have_edits_of_their_own_beside_those_in_training(tiny: TextModel) -> None:
    edit, own = shifted(tiny), [[], [shifted(tiny)], []]
    answered = Answered.whole(tiny, TEXTS)
    with torch.no_grad():
        found = NextToken(answered, own=own, rows=None).reading.read([edit], [0, 1])
        plain = NextToken(answered, rows=None).reading
        once, twice = plain.read([edit], [0, 1]), plain.read([edit, edit], [0, 1])
    assert torch.allclose(found.logits[found.row == 0], once.logits[once.row == 0], atol=1e-4)
    assert torch.allclose(found.logits[found.row == 1], twice.logits[twice.row == 1], atol=1e-4)


def test_one_step_is_one_of_adamw(tiny: TextModel) -> None:
    objective, (edit,) = NextToken(Answered.whole(tiny, TEXTS), rows=None), trainable(tiny)
    leaf = edit.shift.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective.loss([edit.with_parameters({"shift": leaf})], 0), leaf)
    found = train([edit], objective, Settings(steps=1, rate=0.1))
    peer = edit.shift.clone()
    peer.grad = gradient / max(1.0, float(gradient.norm()))
    torch.optim.AdamW([peer], lr=0.1, weight_decay=0.0).step()
    assert torch.allclose(found.edits[0].shift, peer, atol=1e-6)


def test_the_tensors_of_the_lowest_validation_loss_are_kept_and_training_stops(tiny: TextModel) -> None:
    seen, other = (NextToken(Answered.whole(tiny, [text]), rows=None) for text in TEXTS[:2])
    found = train(trainable(tiny), seen, Settings(steps=400, rate=0.3, check_every=2, patience=2), validation=other)
    assert len(found.losses) < 400
    kept = float(other.loss(found.edits, 0).detach())
    assert kept == pytest.approx(min(found.checks.values()), rel=1e-5)
    assert list(found.checks.values())[-1] > min(found.checks.values())


def test_rates_rise_and_fall() -> None:
    settings = Settings(steps=10, rate=1.0, warmup=2, cosine=True)
    rates = [settings.rate_at(step) for step in range(10)]
    assert rates[0] == 0.5
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert 0 < rates[-1] < 0.1


def test_a_trained_shift_is_a_vector_that_adds_the_same(tiny: TextModel, tmp_path) -> None:
    edits = train(zero_shifts(tiny, ["resid.0", "resid.1"], TEXTS), NextToken(Answered.whole(tiny, TEXTS))).edits
    vector = as_vector("said", edits, model=tiny.describe())
    assert vector.scale_from == "native"
    for made, edit in zip(vector.add(), edits, strict=True):
        assert torch.allclose(made.shift, edit.added, atol=1e-6)
    assert tiny.generate(TEXTS, edits=[vector.add()] * 3) == tiny.generate(TEXTS, edits=[edits] * 3)
    with pytest.raises(CovecError, match="moved nothing at resid.1"):
        as_vector("nothing", trainable(tiny))


def test_what_cannot_be_trained_is_told_in_one_line(tiny: TextModel, tmp_path) -> None:
    objective = NextToken(Answered.whole(tiny, TEXTS))
    with pytest.raises(CovecError, match="nothing to train"):
        train([], objective)
    with pytest.raises(CovecError, match="steps of at least 1, not 0"):
        Settings(steps=0)
    with pytest.raises(CovecError, match="finite rate above 0, not nan"):
        Settings(rate=math.nan)
    with pytest.raises(ModelError, match="loss of step 1 is nan"):
        train([TrainableAdd(site=Site("resid", 1), shift=torch.full((tiny.width,), math.nan))], objective)
    if len(tiny.tokenize(["A"])[0].ids) == 1:  # where nothing stands before every text
        with pytest.raises(ExamplesError, match="a single token"):
            Answered.whole(tiny, ["A"])
    with pytest.raises(ExamplesError, match="2 lists of edits for 3 prompts"):
        NextToken(Answered.whole(tiny, TEXTS), own=[[], []])
    path = tmp_path / "checkpoint"
    path.write_text("no checkpoint")
    with pytest.raises(FileError, match="no checkpoint"):
        train(trainable(tiny), objective, checkpoint=path)
