"""What was saved steers and predicts in a fresh process as it did where it was found, for every method (K-24)."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from concepts import reloaded
from covec import registry
from covec.checks.model_finders import world as with_words
from covec.checks.steering import with_columns
from covec.concepts.bank import Bank, load_bank
from covec.concepts.vector import ConceptVector
from covec.steer import steerings
from covec.steer._steering import provenance
from covec.worlds.toys import toy
from finding import columns

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def world():
    return toy(0, read=True)


def found(world, name):
    """What a finder finds after the toy's last block."""
    finder, examples = registry.get("find", name)(), world.examples
    rows = world.model.capture(examples.inputs, sites=["resid.1"], position="last")["resid.1"]
    if finder.entry.needs == "model":
        fitted = finder.fit_model(world.model, with_words(read=True).examples, "resid.1")
    else:
        pairs = [str(row % (len(examples) // 2)) for row in range(len(examples))]
        fitted = finder.fit(rows, examples.labels, **columns(name, pairs))
    means = fitted.mean_positive_, fitted.mean_negative_
    return ConceptVector.from_direction(
        name, "resid.1", fitted.direction_, *means, **provenance(world.model, examples, finder.entry)
    )


@pytest.fixture(scope="module")
def everything(world):
    """A vector of every method that gives one."""
    vectors = [found(world, name) for name in registry.names("find")]
    for name in steerings():
        learned = registry.get("steer", name)().fit(world.model, with_columns(world).examples).vectors
        vectors += [replace(one, name=f"{name} {one.name}") for one in learned.values()]
    return Bank(vectors)


def test_every_method_is_there(everything):
    methods = {vector.method for vector in everything.values()}
    assert methods == {*registry.names("find"), *steerings()}


def test_a_fresh_process_scores_and_steers_alike_to_the_bit(everything, world, tmp_path):
    everything.save(tmp_path / "bank.safetensors")
    program = subprocess.run(
        [sys.executable, TESTS / "concepts" / "reloaded.py", tmp_path / "bank.safetensors"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
    )
    assert program.returncode == 0, program.stderr[-2000:]
    here = reloaded.answers(everything, world)
    there = json.loads(program.stdout)
    assert there.keys() == everything.keys()
    for name in everything:
        assert there[name] == here[name], name
    assert load_bank(tmp_path / "bank.safetensors") == everything


def test_edits_are_felt(everything, world):
    plain = world.model.capture(list(world.neutral[:6]), sites=["final"], position="last")["final"]
    bits = plain.view(torch.int32).tolist()
    ends = min(len(item.ids) for item in world.model.tokenize(list(world.neutral[:6])))
    for name, (_, _, logits) in reloaded.answers(everything, world).items():
        where = everything[name].write_position.select
        if not (where.isdecimal() and int(where) >= ends):  # ActAdd's further vectors stand behind these texts
            assert all(steered != bits for steered in logits), name
