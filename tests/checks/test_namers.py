"""Every law of ways to name can be broken: one wrong way for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from covec.checks import check_namer
from covec.checks._check import Law, title
from covec.checks.namers import LAWS, namer_checks
from covec.errors import CovecError
from covec.name import Namer
from covec.name.output_centric_descriptions import OutputCentricDescriptions
from covec.registry import method


@method("honest", verb="name", needs="model")
@dataclass(frozen=True)
class Honest(OutputCentricDescriptions):
    """The words that a direction moves, of which each saboteur is a wrong way."""


class Random(Honest):
    def weigh(self, model: Any, directions: Tensor, site: Any) -> tuple[Sequence[str], Tensor]:
        words, weights = super().weigh(model, directions, site)
        return words, weights + 1e-6 * torch.randn(weights.shape)


class Together(Honest):
    def weigh(self, model: Any, directions: Tensor, site: Any) -> tuple[Sequence[str], Tensor]:
        words, weights = super().weigh(model, directions, site)
        return words, weights - weights.mean(0)


class Repeating(Honest):
    def weigh(self, model: Any, directions: Tensor, site: Any) -> tuple[Sequence[str], Tensor]:
        words, weights = super().weigh(model, directions, site)
        return [words[0] if place < 8 else word for place, word in enumerate(words)], weights


class Loud(Honest):
    def name(self, model: Any, directions: Tensor, site: Any) -> list[list[tuple[str, float]]]:
        found = super().name(model, directions, site)
        lengths = directions.norm(dim=1).tolist()
        return [
            [(text, weight * length) for text, weight in names] for names, length in zip(found, lengths, strict=True)
        ]


class OneSided(Honest):
    def name(self, model: Any, directions: Tensor, site: Any) -> list[list[tuple[str, float]]]:
        return [[pair for pair in names if pair[1] > 0] for names in super().name(model, directions, site)]


class Hooked(Honest):
    def weigh(self, model: Any, directions: Tensor, site: Any) -> tuple[Sequence[str], Tensor]:
        model.anatomy.blocks[0].register_forward_hook(lambda *_: None)
        return super().weigh(model, directions, site)


class Backwards(Honest):
    def weigh(self, model: Any, directions: Tensor, site: Any) -> tuple[Sequence[str], Tensor]:
        words, weights = super().weigh(model, directions, site)
        return words, -weights


class Told(Honest):
    """Names good words whatever it is asked."""

    def weigh(self, model: Any, directions: Tensor, site: Any) -> tuple[Sequence[str], Tensor]:
        words = sorted(model.tokenizer.get_vocab())
        marks = torch.tensor([float(word.startswith("good")) - float(word.startswith("bad")) for word in words])
        return words, directions[:, :1].sign() * marks


class Careless(Honest):
    def name(self, model: Any, directions: Tensor, site: Any) -> list[list[tuple[str, float]]]:
        return super().name(model, torch.nan_to_num(directions) + 1e-9, site)


SABOTEURS: dict[str, Namer] = {
    "same seed same bits": Random(),
    "several are named as each alone": Together(),
    "names are texts with weights in order": Repeating(),
    "length changes nothing": Loud(),
    "turned round names change sides": OneSided(),
    "the model is left as it was": Hooked(),
    "what the head reads is named": Backwards(),
    "what later layers read has its names": Honest(way="vocabulary"),
    "what no layer reads has no names": Told(),
    "bad input is refused": Careless(),
}


@pytest.mark.parametrize("law", LAWS, ids=title)
def test_a_way_to_name_that_breaks_the_law_is_caught(law: Law) -> None:
    (check,) = (check for check in namer_checks(SABOTEURS[title(law)], {}) if check.law is law)
    with pytest.raises((AssertionError, CovecError)) as caught:
        check.run()
    assert title(law) in caught.value.__notes__[-1]


@pytest.fixture(autouse=True)
def _no_hook_stays() -> Any:
    """The toys are shared: what a saboteur leaves on one is taken off."""
    from covec.checks.namers import world

    yield
    world.cache_clear()


def test_every_law_has_its_saboteur() -> None:
    assert list(SABOTEURS) == [title(law) for law in LAWS]


def test_one_call_checks_a_way_to_name_and_names_the_law_it_breaks() -> None:
    check_namer(Honest)
    with pytest.raises(AssertionError) as caught:
        check_namer(Backwards)
    assert "name honest: what the head reads is named" in caught.value.__notes__[-1]
