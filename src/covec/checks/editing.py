"""The contract of edits in a model: the tokens, rows and passes that they act on, and what is left behind."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from covec.checks._check import Law, refusal
from covec.checks._edit import WIDTH, Subject, applied, planted
from covec.edits.algebra import Edit, Gate
from covec.edits.schedules import Ramp, Steps
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.worlds.toys import toy

_TEXTS = ("word1 good2 word3 word4 bad1", "good0 word7", "bad3 bad4 word2")
_NEAR = 1e-4  # of the largest entry: what float32 may cost


@cache
def _model() -> TextModel:
    """A toy model whose sites are as wide as the vector, and which reads what is planted in it."""
    return toy(read=True, texts=1).model


def only_the_selected_tokens_change(subject: Subject) -> None:
    """Tokens that its position selects come out as from the pure function, all others to the bit as they were."""
    for select in ("all", "content", "first", "last", "last+generated", "from-2", "1"):
        edits = _with(subject, position=Position(select))
        plain, index = _seen(edits[0].site)
        with _model().edit(*edits):
            found, _ = _seen(edits[0].site)
        chosen = _selected(select, index)
        assert torch.equal(found[~chosen], plain[~chosen]), f"{select}: a token that is not selected was changed"
        wanted = applied(edits, plain[chosen][None])[0]
        torch.testing.assert_close(found[chosen], wanted, rtol=0, atol=_NEAR * float(wanted.abs().max()))


def a_gate_holds_it_back(subject: Subject) -> None:
    """It acts where its gate fires and nowhere else."""
    (site,) = {edit.site for edit in subject.edits()}
    plain, _ = _seen(site)
    axis = nn.functional.normalize(torch.randn(WIDTH, generator=torch.Generator().manual_seed(1)), dim=0)
    gate = Gate(site, axis, 0.0, 1.0, threshold=float((plain @ axis).median()))
    edits = _with(subject, gate=gate, position=Position("all"))
    with _model().edit(*edits):
        found, _ = _seen(site)
    open_ = plain @ axis > gate.threshold
    assert torch.equal(found[~open_], plain[~open_]), "a token before which the gate is closed was changed"
    assert not torch.equal(found[open_], plain[open_]), "no token was changed"


def a_schedule_weighs_it(subject: Subject) -> None:
    """Tokens change by as much of it as the schedule says, and what is written under one does not depend on the cache,
    on beams kept in it, or on the other rows.
    """
    (site,) = {edit.site for edit in subject.edits()}
    plain, index = _seen(site)
    edits = _with(subject, schedule=Ramp(((1, 0.0), (3, 1.0)), by="index"), position=Position("all"))
    with _model().edit(*edits):
        found, _ = _seen(site)
    weights = torch.from_numpy(np.interp(index, (1, 3), (0, 1)))[:, None].float()
    assert torch.equal(found[index <= 1], plain[index <= 1]), "a token of weight 0 was changed"
    if len(edits) == 1:
        wanted = plain + weights * (applied(edits, plain[None])[0] - plain)
        torch.testing.assert_close(found, wanted, rtol=0, atol=_NEAR * float(wanted.abs().max()))
    model, position = _model(), Position("all")
    for schedule in (Steps(1, 3), Ramp(((0, 1.0), (4, 0.0)))):
        strong = [dataclasses.replace(edit, schedule=schedule, position=position) for edit in _strong(subject)]
        with model.edit(*strong):
            for beams in (1, 2):
                written = model.generate(list(_TEXTS), max_new_tokens=6, num_beams=beams)
                assert model.generate(list(_TEXTS), max_new_tokens=6, num_beams=beams, use_cache=False) == written
                assert [model.generate(text, max_new_tokens=6, num_beams=beams) for text in _TEXTS] == written


def rows_keep_their_own(subject: Subject) -> None:
    """Rows of a batch with edits of their own write what they write alone, and one without writes what it would."""
    model, prompts, strong = _model(), [_TEXTS[0]] * 2 + [_TEXTS[1]], _strong(subject)
    each = [strong, [], strong]
    together = model.generate(prompts, edits=each, max_new_tokens=6)
    for prompt, own, text in zip(prompts, each, together, strict=True):
        assert model.generate(prompt, edits=own, max_new_tokens=6) == text
    assert together[1] == model.generate(prompts[1], max_new_tokens=6)


def the_cache_changes_nothing(subject: Subject) -> None:
    """Texts are the same with and without the cache, together and alone (K-5)."""
    model = _model()
    for select in ("content", "generated", "last+generated", "1"):
        with model.edit(*(dataclasses.replace(edit, position=Position(select)) for edit in _strong(subject))):
            cached = model.generate(list(_TEXTS), max_new_tokens=6)
            assert model.generate(list(_TEXTS), max_new_tokens=6, use_cache=False) == cached
            assert [model.generate(text, max_new_tokens=6) for text in _TEXTS] == cached


def the_model_is_left_as_it_was(subject: Subject) -> None:
    """After the scope, also one that an error ends, the model gives the same bits and has no hook (K-9, K-12)."""
    model = _model()
    before = _logits(model)
    with model.edit(*subject.edits()):
        edited = _logits(model)
    try:
        with model.edit(*subject.edits()):
            _logits(model)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert torch.equal(_logits(model), before)
    assert not torch.equal(edited, before), "within the scope nothing was edited"
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.module.modules())


def what_does_not_fit_is_refused(subject: Subject) -> None:
    """One line, before the model runs, for another width, a site that is not there, pooling, and another model."""
    model = _model()
    wrong = [
        subject.edits(planted(width=WIDTH - 1)),
        _with(subject, site=Site("resid", 99)),
        _with(subject, position=Position("content", "mean")),
        _with(subject, fingerprint="another"),
    ]
    for edits in wrong:
        refusal(partial(_enter, model, edits))


LAWS: tuple[Law, ...] = (
    only_the_selected_tokens_change,
    a_gate_holds_it_back,
    a_schedule_weighs_it,
    rows_keep_their_own,
    the_cache_changes_nothing,
    the_model_is_left_as_it_was,
    what_does_not_fit_is_refused,
)


def _with(subject: Subject, **changes: Any) -> tuple[Edit, ...]:
    """The edits of `subject` with other fields."""
    return tuple(dataclasses.replace(edit, **changes) for edit in subject.edits())


def _strong(subject: Subject) -> list[Edit]:
    """Its edits for class means as large as the toy's activations, so that texts show them."""
    return list(subject.edits(planted(size=30)))


def _seen(site: Site) -> tuple[Tensor, np.ndarray]:
    """Every token of the texts at `site` [tokens, d], and each one's place in its text [tokens]."""
    rows = _model().capture(list(_TEXTS), site, "all/none")
    return rows[site], np.asarray(rows.tokens)


def _selected(select: str, index: np.ndarray) -> Tensor:
    """The tokens that a position selects, of texts without special tokens."""
    last = np.append(index[1:] == 0, True)
    chosen = {
        "all": index >= 0,
        "content": index > 0,
        "first": index == 0,
        "last": last,
        "last+generated": last,
        "from-2": index >= 2,
        "1": index == 1,
    }
    return torch.from_numpy(chosen[select])


def _logits(model: TextModel) -> Tensor:
    inputs = (model.tokenizer(text, return_tensors="pt").input_ids for text in _TEXTS)
    with torch.no_grad():
        return torch.cat([model.module(ids).logits[0] for ids in inputs])


def _enter(model: TextModel, edits: tuple[Edit, ...]) -> None:
    with model.edit(*edits):
        raise AssertionError("the scope was entered")
