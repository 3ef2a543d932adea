"""Every law of concept vectors can be broken: one wrong vector for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from covec.checks import check_vector
from covec.checks._check import Law, title
from covec.checks.vectors import LAWS, sample, samples, vector_checks
from covec.concepts import _fields as fields
from covec.concepts import files
from covec.concepts.part import Part
from covec.concepts.vector import FIELDS, ConceptVector
from covec.errors import CovecError


class Forgetful(ConceptVector):
    def save(self, path: Any) -> None:
        files.write(path, [dataclasses.replace(self, threshold=0.5)])


class Double(ConceptVector):
    def save(self, path: Any) -> None:
        safetensors.torch.save_file({"direction": self.direction.double()}, path, {"covec": "{}"})


class Restless(ConceptVector):
    def score(self, activations: Tensor) -> Tensor:
        return super().score(activations) + 1e-6


class Used(ConceptVector):
    def add(self, strength: float = 1.0, **where: Any) -> Any:
        object.__setattr__(self, "threshold", strength)


class Falling(ConceptVector):
    def probability(self, scores: Any) -> Tensor:
        return torch.sigmoid(torch.as_tensor(scores))


class Everywhere(ConceptVector):
    def at(self, site: Any) -> ConceptVector:
        return self


class Squashed(Part):
    def score(self, activations: Tensor) -> Tensor:
        return torch.tanh(super().score(activations))


class Lenient(Part):
    def score(self, activations: Tensor) -> Tensor:
        rows = activations.reshape(-1, activations.shape[-1])
        return super().score(torch.nn.functional.pad(rows, (0, self.width - rows.shape[1])))


def own(kind: type[ConceptVector]) -> ConceptVector:
    """A vector of a wrong class."""
    made = sample("wrong")
    return kind(**{name: getattr(made, name) for name in FIELDS})


def hacked(**changes: Callable[[Tensor], Tensor]) -> ConceptVector:
    """A vector whose part was changed behind its back."""
    made = sample("wrong")
    for name, change in changes.items():
        object.__setattr__(made.parts[made.site], name, change(getattr(made.parts[made.site], name)))
    return made


def with_part(kind: type[Part]) -> ConceptVector:
    """A vector with a part of a wrong class."""
    made = sample("wrong")
    return dataclasses.replace(made, parts={made.site: kind(**made.parts[made.site].tensors())})


def exported_wrong(patch: pytest.MonkeyPatch) -> ConceptVector:
    """A vector, where exports are twice what they should be."""

    def export(vector: ConceptVector, format: str, path: Path) -> None:
        np.save(path, 2 * vector.write.numpy())

    patch.setattr("covec.checks.vectors.export", export)
    return sample("wrong")


SABOTEURS: dict[str, Callable[[pytest.MonkeyPatch], ConceptVector]] = {
    "a file keeps every bit": lambda patch: own(Forgetful),
    "a file is numbers and text": lambda patch: own(Double),
    "another process reads the same": lambda patch: own(Restless),
    "use leaves it alone": lambda patch: own(Used),
    "directions are orthonormal": lambda patch: hacked(direction=lambda rows: 2 * rows),
    "strength one raises the score by one": lambda patch: hacked(write=lambda rows: 1.1 * rows),
    "class means stand at one half": lambda patch: hacked(intercept=lambda middle: middle + 1),
    "scores are linear": lambda patch: with_part(Squashed),
    "wrong rows are refused": lambda patch: with_part(Lenient),
    "probabilities rise with scores": lambda patch: own(Falling),
    "its own direction gives it again": lambda patch: hacked(scale=lambda scale: 1.1 * scale),
    "exports hold what it writes": exported_wrong,
    "sites are chosen by their address": lambda patch: own(Everywhere),
}


@pytest.mark.parametrize("law", LAWS, ids=title)
def test_a_vector_that_breaks_the_law_is_caught(law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = SABOTEURS[title(law)](monkeypatch)
    (check,) = (check for check in vector_checks(wrong, {}) if check.law is law)
    with pytest.raises((AssertionError, CovecError)) as caught:
        check.run()
    assert title(law) in caught.value.__notes__[-1]


def test_every_law_has_its_saboteur() -> None:
    assert list(SABOTEURS) == [title(law) for law in LAWS]


def test_one_call_checks_a_vector_and_names_the_law_it_breaks() -> None:
    check_vector(sample("right"))
    with pytest.raises(AssertionError) as caught:
        check_vector(hacked(intercept=lambda middle: middle + 1))
    assert "vector wrong: class means stand at one half" in caught.value.__notes__[-1]


def test_samples_have_every_kind_scale_and_field() -> None:
    made = list(samples())
    assert {vector.kind for vector in made} == set(fields.KINDS)
    assert {vector.scale_from for vector in made} == set(fields.SCALES_FROM)
    usual = ConceptVector("usual", made[0].parts)
    apart = ("name", "parts", "kind", "operation", "scale_from", "calibration")
    assert not [name for name in FIELDS if name not in apart and getattr(made[0], name) == getattr(usual, name)]
    assert all(isinstance(vector, ConceptVector) for vector in made)
