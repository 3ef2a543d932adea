"""Banks hold several concepts in one file, and one where a vector is expected."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

import covec
from concepts.made import direction, part, vectors
from covec.concepts.bank import Bank, load_vector
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError, FileError
from covec.models.sites import Site

JOY, FEAR = direction("joy", seed=1), direction("fear", seed=2)


@settings(max_examples=20, deadline=None)
@given(st.lists(vectors(), min_size=1, max_size=4, unique_by=lambda vector: vector.name))
def test_a_bank_is_a_mapping_in_order(several):
    bank = Bank(several)
    assert list(bank) == [vector.name for vector in several]
    assert [bank[name] for name in bank] == several
    assert len(bank) == len(several)
    assert several[0].name in bank
    assert bank == Bank(bank) == Bank(bank.vectors) == copy.deepcopy(bank)


def test_banks_and_vectors_add_up():
    sad = direction("sad", seed=3)
    assert list(Bank([JOY]) + FEAR + Bank([sad])) == ["joy", "fear", "sad"]
    assert (Bank([JOY], {"a": 1}) + Bank([FEAR], {"b": 2})).metadata == {"a": 1, "b": 2}
    with pytest.raises(TypeError):
        Bank([JOY]) + 1


def test_a_name_stands_once_and_is_the_key():
    with pytest.raises(CovecError, match="called 'joy'"):
        Bank([JOY]) + dataclasses.replace(FEAR, name="joy")
    with pytest.raises(CovecError, match="the names of its vectors"):
        Bank({"happiness": JOY})
    with pytest.raises(CovecError, match="at least one"):
        Bank([])


def test_a_bank_of_one_is_read_wherever_a_vector_is(tmp_path):
    Bank([JOY]).save(tmp_path / "bank.safetensors")
    JOY.save(tmp_path / "vector.safetensors")
    assert (tmp_path / "bank.safetensors").read_bytes() == (tmp_path / "vector.safetensors").read_bytes()
    assert covec.load_vector(tmp_path / "bank.safetensors") == JOY
    assert covec.load_bank(str(tmp_path / "vector.safetensors")) == Bank([JOY])


def test_one_of_several_must_be_named(tmp_path):
    path = tmp_path / "bank.safetensors"
    Bank([JOY, FEAR]).save(path)
    assert load_vector(path, concept="fear") == FEAR
    with pytest.raises(FileError, match="several concepts: choose one of joy, fear"):
        load_vector(path)
    with pytest.raises(FileError, match="no concept 'anger'; it holds joy, fear"):
        load_vector(path, concept="anger")


def test_a_long_list_of_names_is_cut(tmp_path):
    Bank([direction(f"c{index}") for index in range(30)]).save(tmp_path / "bank.safetensors")
    with pytest.raises(FileError, match=r"c19 and 10 more \(--concept NAME\)$"):
        load_vector(tmp_path / "bank.safetensors")


def test_cosines_agree_with_scikit_learn_at_every_shared_site():
    made = {
        name: {"resid.1": part(seed=seed), site: part(seed=seed + 9)}
        for seed, (name, site) in enumerate(zip("abc", ("resid.2", "resid.2", "resid.3"), strict=True))
    }
    bank = Bank([ConceptVector(name, parts) for name, parts in made.items()])
    cosines = bank.cosines()
    assert {site: shared.names for site, shared in cosines.items()} == {
        Site("resid", 1): ("a", "b", "c"),
        Site("resid", 2): ("a", "b"),
    }
    for site, shared in cosines.items():
        rows = np.concatenate([bank[name].parts[site].direction.numpy() for name in shared.names])
        np.testing.assert_allclose(shared.matrix, cosine_similarity(rows), atol=1e-6)
        torch.testing.assert_close(shared.matrix.diagonal(), torch.ones(len(shared.names)))


def test_only_single_directions_of_one_model_have_cosines():
    plane = ConceptVector("plane", {"resid.14": part(2)}, kind="subspace")
    assert Bank([JOY, plane]).cosines() == {}
    one, two = (dataclasses.replace(vector, model={"fingerprint": vector.name}) for vector in (JOY, FEAR))
    with pytest.raises(CovecError, match="different models"):
        Bank([one, two]).cosines()


def test_it_prints_every_concept():
    assert [line for line in str(Bank([JOY, FEAR])).splitlines() if not line.startswith(" ")] == ["joy", "fear"]
    assert repr(Bank([JOY])) == f"Bank({JOY!r})"
