"""K-12: an error within a scope keeps its type and leaves nothing behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from covec.edits.algebra import Add, Edit
from covec.errors import CovecError
from covec.models.plan import current_pass, current_plan, edits_in_force
from covec.models.sites import Site
from covec.models.text import TextModel
from laws.given import PROMPTS, add, hooks, vector
from tiny import tiny_model

ERRORS = [
    ZeroDivisionError("of one's own"),
    KeyboardInterrupt(),
    StopIteration("of one's own"),
    ValueError("model_kwargs and keywords of one's own"),
    TypeError("got an unexpected keyword argument"),
    RuntimeError("of one's own"),
]


@dataclass(frozen=True, eq=False, kw_only=True)
class Failing(Edit):
    """Fails at its n-th pass."""

    error: BaseException
    counted: list[int]
    at: int = 1

    def apply(self, h: Tensor, context: Any) -> Tensor:
        self.counted.append(1)
        if len(self.counted) == self.at:
            raise self.error
        return h


def kept_by_the_network(model: TextModel, error: BaseException, ids: Tensor) -> bool:
    """Whether an error of a block reaches the caller of the network at once, without covec."""
    tries = []

    def fail(*_: Any) -> None:
        tries.append(1)
        raise error

    handle = model.anatomy.blocks[0].register_forward_hook(fail)
    try:
        model.module(ids)
    except BaseException as told:
        return told is error and len(tries) == 1
    finally:
        handle.remove()
    return False


def check_clean(model: TextModel, known: int, plain: Tensor) -> None:
    assert hooks(model) == known
    assert edits_in_force(model.anatomy.body) == ()
    assert (current_plan(), current_pass()) == (None, None)
    assert "generate" not in vars(model.module)
    assert torch.equal(model.capture(PROMPTS[:2], "final")["final"], plain)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_fails_within_a_scope_is_what_is_told(error: BaseException) -> None:
    model = TextModel(*tiny_model("llama"))
    known, plain, concept = hooks(model), model.capture(PROMPTS[:2], "final")["final"], vector(model)
    with pytest.raises(type(error)) as told, model.edit(add(model)), model.watch(concept):
        raise error
    assert told.value is error
    check_clean(model, known, plain)


@pytest.mark.parametrize("error", [error for error in ERRORS if not isinstance(error, StopIteration)], ids=repr)
@pytest.mark.parametrize("at", [1, 3])
def test_an_edit_that_fails_in_a_pass_is_told_as_it_failed(error: BaseException, at: int) -> None:
    """In a prompt and in the middle of writing, also when the network is called by hand, under several scopes."""
    model = TextModel(*tiny_model("llama"))
    known, plain, concept = hooks(model), model.capture(PROMPTS[:2], "final")["final"], vector(model)
    ids = model.tokenizer(PROMPTS[1], return_tensors="pt").input_ids
    if not kept_by_the_network(model, error, ids):
        pytest.skip("this version of transformers tries again after such an error")
    calls = [
        lambda: model.generate(list(PROMPTS[:2]), max_new_tokens=5),
        lambda: model.module.generate(ids, max_new_tokens=5, do_sample=False),
        lambda: [model.module(ids) for _ in range(3)],
        lambda: [model.capture(PROMPTS[:2], "resid.3") for _ in range(3)],
        lambda: [model.detect(concept, PROMPTS[0]) for _ in range(3)],
    ]
    for call in calls:
        failing = Failing(site=Site("resid", 0), error=error, counted=[], at=at)
        with pytest.raises(type(error)) as told, model.edit(add(model)), model.watch(concept), model.edit(failing):
            call()
        assert told.value is error
        check_clean(model, known, plain)


def test_a_scope_that_cannot_be_opened_opens_nothing() -> None:
    model = TextModel(*tiny_model("llama"))
    known, plain = hooks(model), model.capture(PROMPTS[:2], "final")["final"]
    wrong = Add(site=Site("resid", 99), shift=torch.zeros(model.width))
    for edits in ([add(model), wrong], [wrong], [add(model), "louder"]):
        with pytest.raises(CovecError), model.edit(*edits):
            raise AssertionError
        check_clean(model, known, plain)
        with pytest.raises(CovecError):
            model.generate(PROMPTS[0], edits=edits)
        check_clean(model, known, plain)


def test_an_error_of_an_inner_scope_leaves_the_outer_one_at_work(smol: TextModel) -> None:
    known, plain = hooks(smol), smol.capture(PROMPTS[:2], "final")["final"]
    outer = add(smol, site="resid.3")
    with smol.edit(outer):
        edited = smol.capture(PROMPTS[:2], "final")["final"]
        failing = Failing(site=Site("resid", 7), error=ZeroDivisionError(), counted=[], at=2)
        with pytest.raises(ZeroDivisionError), smol.edit(failing):
            smol.generate(PROMPTS[0], max_new_tokens=3)
        assert torch.equal(smol.capture(PROMPTS[:2], "final")["final"], edited)
    check_clean(smol, known, plain)
    assert not torch.allclose(edited, plain, atol=1e-2)
