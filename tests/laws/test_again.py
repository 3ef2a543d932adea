"""K-11, K-24: the same seed gives the same bits, in another process too, and what is loaded is what was saved."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from covec import registry
from covec.concepts.bank import Bank, load_bank
from covec.concepts.vector import ConceptVector
from covec.detect import aggregators
from covec.errors import ModelError
from covec.models.text import TextModel
from finding import OF_ROWS, columns
from laws import fresh
from tiny import tiny_model

TESTS = Path(__file__).parents[1]


def vectors() -> Bank:
    """One vector a finder, and of these one an aggregator, calibrated."""
    model, examples = fresh.model(), fresh.examples(30)
    rows = model.capture(examples.inputs, "resid.1", "mean")["resid.1"]
    found = []
    for name in OF_ROWS:
        finder = registry.get("find", name)()
        finder.fit(rows, examples.labels, **columns(name, [f"pair {row % 30}" for row in range(60)]))
        means = finder.mean_positive_, finder.mean_negative_
        found.append(
            ConceptVector.from_direction(
                name, "resid.1", finder.direction_, *means, method=name, model=model.describe(), read_position="mean"
            )
        )
    for name in aggregators():
        found.append(replace(found[0], name=name, aggregator=name, threshold=0.1, calibration=(3.0, -0.5)))
    return Bank(found)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bank") / "bank.safetensors"
    vectors().save(path)
    return path


@pytest.fixture(scope="module")
def elsewhere(saved: Path) -> dict[str, Any]:
    """What another process does with the file; its hashes of strings fall otherwise."""
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-m", "laws.fresh", str(saved)]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def test_every_method_is_bit_equal_once_loaded(saved: Path) -> None:
    loaded = load_bank(saved)
    assert all(loaded[name].identical(vector) for name, vector in vectors().items())


def test_every_method_steers_and_predicts_the_same_in_a_fresh_process(saved: Path, elsewhere: dict[str, Any]) -> None:
    known = {*OF_ROWS, *aggregators()}
    assert elsewhere["effects"].keys() == known
    assert fresh.effects(saved) == elsewhere["effects"]


def test_no_file_of_vectors_holds_or_needs_a_pickle(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was opened")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, never)
    monkeypatch.setattr(torch, "load", never)
    assert len(load_bank(saved)) == len(vectors())
    assert not zipfile.is_zipfile(saved)
    assert b"cnumpy" not in saved.read_bytes()


def test_a_study_is_the_same_in_another_process(elsewhere: dict[str, Any]) -> None:
    assert fresh.study() == elsewhere["study"]


def test_nothing_depends_on_or_moves_the_global_random_numbers(tiny: TextModel) -> None:
    examples = fresh.examples(12)
    torch.manual_seed(3)
    np.random.seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    rows = tiny.capture(examples.inputs, "resid.1", "mean")["resid.1"]
    for name in OF_ROWS:
        registry.get("find", name)().fit(
            rows, examples.labels, **columns(name, [f"pair {row % 12}" for row in range(24)])
        )
    tiny.generate(list(examples.inputs[:2]), max_new_tokens=2)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    sampled = []
    for seed in (3, 4):
        torch.manual_seed(seed)
        sampled.append(tiny.generate(list(examples.inputs[:2]), max_new_tokens=4, do_sample=True, seed=0))
    assert sampled[0] == sampled[1]


@pytest.mark.parametrize("where", ["layer", "rate", "part"])
def test_dropout_at_work_is_refused_wherever_it_is(where: str) -> None:
    """In a layer that no configuration tells of (an adapter's), in a rate, in a part left in training mode."""
    model = TextModel(*tiny_model("llama"))
    block = model.anatomy.blocks[2]
    if where == "rate":
        block.self_attn.attention_dropout = 0.5
    else:
        block.mlp.add_module("lora_dropout", torch.nn.Dropout(0.5))
    (block if where == "part" else model.module).train()
    with pytest.raises(ModelError, match=r"training mode, where .*layers\.2\..*drop.* is at work"):
        model.capture(fresh.TEXTS, "resid.1")
    model.module.eval()
    assert torch.isfinite(model.capture(fresh.TEXTS, "resid.1")["resid.1"]).all()


def everything(model: TextModel) -> list[torch.Tensor]:
    """Rows, vectors, fits, scores and texts, as numbers."""
    examples = fresh.examples(12)
    rows = model.capture(examples.inputs, "resid.1", "mean")["resid.1"]
    found = [rows]
    for name in OF_ROWS:
        required = columns(name, [f"pair {row % 12}" for row in range(24)])
        finder = registry.get("find", name)().fit(rows, examples.labels, **required)
        vector = ConceptVector.from_direction(
            name, "resid.1", finder.direction_, finder.mean_positive_, finder.mean_negative_
        )
        fits = registry.get("find", name)().fit_many(rows[None], examples.labels, **required)
        found += [*vector.parts[vector.site].tensors().values(), fits.intercepts, fits.scales]
    found.append(
        torch.tensor([one.score for one in model.detect(vector, fresh.TEXTS)], dtype=torch.float64, device="cpu")
    )
    edits = [list(vector.add(1.0)), [], list(vector.add(-1.0))]
    texts = model.generate(fresh.TEXTS, edits=edits, max_new_tokens=4, do_sample=True, seed=1)
    found.append(torch.tensor([ord(letter) for letter in "|".join(texts)], device="cpu"))
    return found


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_default_dtype_changes_nothing(family: str) -> None:
    """A script may have set another one for its own tensors."""
    model = TextModel(*tiny_model(family))
    expected = everything(model)
    try:
        for dtype in (torch.float64, torch.bfloat16):
            torch.set_default_dtype(dtype)
            assert all(map(torch.equal, everything(model), expected))
    finally:
        torch.set_default_dtype(torch.float32)
