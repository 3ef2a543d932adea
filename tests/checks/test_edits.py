"""Every law of edits can be broken: one wrong edit for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from covec.checks import check_edit
from covec.checks._check import Law, title
from covec.checks.editing import _model
from covec.checks.edits import LAWS, OF_STRENGTHS, edit_checks, edit_classes, it_is_made_somewhere
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Add, Edit
from covec.errors import CovecError
from covec.models.plan import Pass


@dataclass(frozen=True, eq=False, kw_only=True)
class Honest(Add):
    """A shift, of which each saboteur is a wrong one."""

    @classmethod
    def of(cls, vector: ConceptVector, strength: float = 1.0, **others: Any) -> Add:
        (made,) = vector.add(strength)
        return cls(site=made.site, shift=made.shift, fingerprint=made.fingerprint, **others)


class InPlace(Honest):
    def apply(self, h: Tensor, context: Any) -> Tensor:
        return h.add_(self.shift) if h.is_contiguous() else super().apply(h, context)


class Wide(Honest):
    def apply(self, h: Tensor, context: Any) -> Tensor:
        return h + self.shift.double()


class Strided(Honest):
    def apply(self, h: Tensor, context: Any) -> Tensor:
        return super().apply(h, context) if h.is_contiguous() else h.clone()


class Pooled(Honest):
    def apply(self, h: Tensor, context: Any) -> Tensor:
        return super().apply(h, context) - 0.1 * h.float().mean(1, keepdim=True).to(h.dtype)


class Rounded(Honest):
    def apply(self, h: Tensor, context: Any) -> Tensor:
        return super().apply(h, context) if h.dtype == torch.float32 else h


class Cut(Honest):
    def apply(self, h: Tensor, context: Any) -> Tensor:
        return super().apply(h.detach(), context) + 0 * h


@dataclass(frozen=True, kw_only=True)
class Ambiguous(Edit):
    """Compares its tensors as a tuple would."""

    shift: Tensor

    def apply(self, h: Tensor, context: Any) -> Tensor:
        return h + self.shift

    def __hash__(self) -> int:
        return id(self)


class Impatient(Honest):
    def apply(self, h: Tensor, context: Any) -> Tensor:
        return super().apply(h, context) * (1 if h.shape[1] > 1 else 30)


class Lasting(Honest):
    def apply(self, h: Tensor, context: Any) -> Tensor:
        with torch.no_grad():
            _model().module.lm_head.weight.mul_(1.001)
        return super().apply(h, context)


@dataclass(frozen=True, eq=False, kw_only=True)
class OfAnyWidth(Edit):
    amount: float

    def apply(self, h: Tensor, context: Any) -> Tensor:
        return h + self.amount


class Random(Honest):
    def apply(self, h: Tensor, context: Any) -> Tensor:
        return super().apply(h, context) + torch.randn(len(h), 1, 1)


def absolute(vector: ConceptVector) -> Edit:
    (part,) = vector.parts.values()
    return Honest(site=vector.site, shift=part.write[0] + 0.1)


def ambiguous(vector: ConceptVector) -> Edit:
    return Ambiguous(site=vector.site, shift=vector.write)


def of_any_width(vector: ConceptVector) -> Edit:
    return OfAnyWidth(site=vector.site, amount=1.0)


def never_nothing(vector: ConceptVector, strength: float = 1.0) -> Edit:
    return Honest.of(vector, strength + 0.01)


def one_way(vector: ConceptVector, strength: float = 1.0) -> Edit:
    return Honest.of(vector, abs(strength))


def too_much(vector: ConceptVector, strength: float = 1.0) -> Edit:
    return Honest.of(vector, 2 * strength)


def obliging(vector: ConceptVector, strength: float = 1.0) -> Edit:
    return Honest.of(vector, min(1.0, strength) if strength < 9 else 0.0)


SABOTEURS: dict[str, Callable[..., Any]] = {
    "nothing given is changed": InPlace.of,
    "form is kept": Wide.of,
    "layout in memory does not matter": Strided.of,
    "tokens do not see one another": Pooled.of,
    "bfloat16 is enough": Rounded.of,
    "gradients flow": Cut.of,
    "scale of the model does not matter": absolute,
    "twice is once": Honest.of,
    "a saved vector makes the same edit": Random.of,
    "edits are values": ambiguous,
    "only the selected tokens change": InPlace.of,
    "a gate holds it back": InPlace.of,
    "a schedule weighs it": InPlace.of,
    "rows keep their own": InPlace.of,
    "the cache changes nothing": Impatient.of,
    "the model is left as it was": Lasting.of,
    "what does not fit is refused": of_any_width,
    "strength of zero is nothing": never_nothing,
    "opposite strengths cancel": one_way,
    "strength is the rise of the score": too_much,
    "strengths that are no numbers are refused": obliging,
}


@pytest.fixture(autouse=True)
def _fresh_model() -> Iterator[None]:
    """A saboteur may have spoilt the toy model that the laws share."""
    yield
    _model.cache_clear()


@pytest.mark.parametrize("law", [*LAWS, *OF_STRENGTHS], ids=title)
def test_an_edit_that_breaks_the_law_is_caught(law: Law) -> None:
    (check,) = (check for check in edit_checks(SABOTEURS[title(law)], {}) if check.law is law)
    with pytest.raises((AssertionError, CovecError, RuntimeError)) as caught:
        check.run()
    assert title(law) in caught.value.__notes__[-1]


def test_every_law_has_its_saboteur() -> None:
    assert list(SABOTEURS) == [title(law) for law in (*LAWS, *OF_STRENGTHS)]


def test_one_call_checks_an_edit_and_names_the_law_it_breaks() -> None:
    check_edit(Honest.of, {"twice is once": "a shift moves as far again"})
    check_edit("ablate")
    with pytest.raises(AssertionError) as caught:
        check_edit(Wide.of)
    assert "edit of: form is kept" in caught.value.__notes__[-1]
    with pytest.raises(CovecError, match="no edit 'louder'; known: add, "):
        check_edit("louder")


def test_a_class_of_edits_that_nothing_makes_is_found() -> None:
    class Unmade(Edit):
        def apply(self, h: Tensor, context: Pass) -> Tensor:
            return h

    class Abstract(Edit):
        pass

    for kind in (Unmade, Abstract):
        kind.__module__ = "covec.edits.elsewhere"
    assert Unmade in edit_classes()
    assert Abstract not in edit_classes()
    with pytest.raises(AssertionError, match="MAKERS how Unmade is made"):
        it_is_made_somewhere(Unmade)
    Unmade.__module__ = __name__
    assert Unmade not in edit_classes()
