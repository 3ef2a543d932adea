"""Every law of ways to steer can be broken: one wrong way for each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import pytest
import torch

from covec.checks import check_steering
from covec.checks._check import Law, title
from covec.checks.steering import LAWS, steering_checks
from covec.concepts.bank import Bank
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Edit
from covec.errors import CovecError
from covec.registry import method
from covec.steer import Steering
from covec.steer._steering import provenance


@method("honest", verb="steer", needs="model")
class Honest(Steering):
    """The difference of the class means after block 0, of which each saboteur is a wrong one."""

    def fit(self, model: Any, examples: Any, **_: Any) -> Self:
        rows = model.capture(examples.inputs, "resid.0", "last")["resid.0"]
        if examples.labels.all() or not examples.labels.any():
            raise CovecError("one class has no examples: give some of both")
        positive, negative = (rows[torch.from_numpy(examples.labels == sign)].mean(0) for sign in (True, False))
        common = provenance(model, examples, self.entry)
        one = ConceptVector.from_direction(
            "one", "resid.0", positive - negative, positive, negative, write_position="all", **common
        )
        self.vectors = Bank([one])
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        (vector,) = self._fitted().values()
        added: tuple[Edit, ...] = vector.add(strength)
        return added if strength else ()


class Random(Honest):
    def fit(self, model: Any, examples: Any, **others: Any) -> Self:
        super().fit(model, examples, **others)
        self.vectors = Bank([replace(self.vectors["one"], seed=int(torch.randint(1000, ())))])
        return self


class Lasting(Honest):
    seen = 0

    def fit(self, model: Any, examples: Any, **others: Any) -> Self:
        super().fit(model, examples, **others)
        self.seen += 1
        self.vectors = Bank([replace(self.vectors["one"], seed=self.seen)])
        return self


class Hooked(Honest):
    def fit(self, model: Any, examples: Any, **others: Any) -> Self:
        handle = model.anatomy.blocks[0].register_forward_hook(lambda *_: None)
        self.leave = handle.remove
        return super().fit(model, examples, **others)


class Nameless(Honest):
    def fit(self, model: Any, examples: Any, **others: Any) -> Self:
        super().fit(model, examples, **others)
        self.vectors = Bank([replace(self.vectors["one"], method="another")])
        return self


class Everywhere(Honest):
    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        return tuple(replace(edit, fingerprint=None) for edit in super().edits(strength))


class Busy(Honest):
    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        return super().edits(strength or 1e-9)


class Tired(Honest):
    strength = 1.0

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        self.strength *= 0.99
        return super().edits(strength * self.strength)


class Careless(Honest):
    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        return super().edits(strength if math.isfinite(strength) else 1.0)


class Backwards(Honest):
    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        return super().edits(-strength)


class OfTheHead(Honest):
    """Steers what the head reads, whether the network reads the concept or not."""

    def fit(self, model: Any, examples: Any, **others: Any) -> Self:
        super().fit(model, examples, **others)
        head = model.module.get_output_embeddings().weight.detach()
        words = model.tokenizer.get_vocab()
        good, bad = (
            head[[at for word, at in words.items() if word.startswith(kind)]].mean(0) for kind in ("good", "bad")
        )
        one, site = self.vectors["one"], f"resid.{model.blocks - 1}"
        self.vectors = Bank([ConceptVector.from_direction(
            "one", site, good - bad, good, bad, method=one.method, model=one.model, data=one.data
        )])  # fmt: skip
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        return self._fitted()["one"].add(10.0 * strength, position="all") if strength else ()


SABOTEURS: dict[str, type[Steering]] = {
    "same seed same bits": Random,
    "fit gives itself": Lasting,
    "the model is left as it was": Hooked,
    "what it learned are concept vectors": Nameless,
    "edits belong to the model": Everywhere,
    "no strength no edit": Busy,
    "equal strengths equal edits": Tired,
    "bad input is refused": Careless,
    "strength moves what is written": Backwards,
    "what no layer reads moves little": OfTheHead,
}


@pytest.mark.parametrize("law", LAWS, ids=title)
def test_a_way_to_steer_that_breaks_the_law_is_caught(law: Law) -> None:
    made = SABOTEURS[title(law)]()
    (check,) = (check for check in steering_checks(made, {}) if check.law is law)
    with pytest.raises((AssertionError, CovecError)) as caught:
        check.run()
    assert title(law) in caught.value.__notes__[-1]


@pytest.fixture(autouse=True)
def _no_hook_stays() -> Any:
    """The toys are shared: what a saboteur leaves on one is taken off."""
    from covec.checks.steering import world

    yield
    world.cache_clear()


def test_every_law_has_its_saboteur() -> None:
    assert list(SABOTEURS) == [title(law) for law in LAWS]


def test_one_call_checks_a_way_to_steer_and_names_the_law_it_breaks() -> None:
    check_steering(Honest)
    check_steering("style-vectors")
    with pytest.raises(AssertionError) as caught:
        check_steering(Backwards)
    assert "steer honest: strength moves what is written" in caught.value.__notes__[-1]
