"""A tiny model that the commands load whatever name they are given, and vectors found in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
import torch

import covec
from covec import cli
from covec.cli import schemas
from covec.models.text import TextModel
from tiny import tiny_model


class Ran(NamedTuple):
    """What a command left: exit code, stdout, stderr, and with --json the document, which keeps to its schema."""

    code: int
    out: str
    err: str
    document: Any


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command line in this process."""

    def command(*arguments: object) -> Ran:
        words = [str(argument) for argument in arguments]
        code = cli.run(words)
        out, err = capsys.readouterr()
        document = None
        if "--json" in words and code < 2:
            document = json.loads(out)
            jsonschema.validate(document, schemas.load(words[0]))
        return Ran(code, out, err, document)

    return command


@pytest.fixture(scope="session")
def tiny_text() -> TextModel:
    module, tokenizer = tiny_model("llama")
    return TextModel(module, tokenizer, name="tiny")


@pytest.fixture
def model(tiny_text: TextModel, monkeypatch: pytest.MonkeyPatch) -> TextModel:
    """The model that every command loads."""

    def load(name: str, **options: Any) -> TextModel:
        if name != "tiny":
            raise covec.CovecError(f"no model {name!r}; `covec models` lists those at hand")
        return tiny_text

    monkeypatch.setitem(vars(covec), "load", load)
    return tiny_text


@pytest.fixture
def vector(model: TextModel) -> covec.ConceptVector:
    """A calibrated direction at the tiny model's second block."""
    generator = torch.Generator().manual_seed(0)
    low, high = torch.randn(2, model.width, generator=generator)
    found = covec.ConceptVector.from_direction("warmth", "resid.1", high - low, high, low, model=model.describe())
    return replace(found, calibration=(2.0, 0.1), method="mean-difference")


@pytest.fixture
def vector_file(vector: covec.ConceptVector, tmp_path: Path) -> Path:
    path = tmp_path / "warmth.safetensors"
    vector.save(path)
    return path


@pytest.fixture
def bank_file(vector: covec.ConceptVector, tmp_path: Path) -> Path:
    """The vector and its opposite."""
    part = vector.parts[vector.site]
    cold = covec.ConceptVector.from_direction(
        "cold", vector.site, -vector.direction, part.mean_negative, part.mean_positive, model=vector.model
    )
    path = tmp_path / "bank.safetensors"
    covec.Bank([vector, cold]).save(path)
    return path
