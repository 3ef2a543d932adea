"""The catalog: 138 systems, and a status that says no more than was shown."""

import importlib.util
import json
from dataclasses import replace

import pytest

from covec import catalog, registry
from covec.errors import CovecError, FileError

VERBS = {*registry.VERBS, "capture", "theory", "pretrain"}


def test_all_systems_are_there_in_order():
    ids = [system.id for system in catalog.systems()]
    assert len(ids) == 138
    assert ids == sorted(ids)


def test_every_system_is_complete():
    for system in catalog.systems():
        assert all((system.name, system.title, system.paper, system.summary, system.claim)), system.id
        assert {system.verb, *system.also} <= VERBS, system.id
        assert system.tier in ("core", "extended", "outer"), system.id


def test_a_built_system_names_a_module_that_exists():
    built = [system for system in catalog.systems() if system.module]
    assert {"raptor", "scav", "style-vectors", "super-activators"} <= {system.id for system in built}
    for system in built:
        assert importlib.util.find_spec(system.module), system.id


def test_an_unknown_system_names_its_neighbours():
    with pytest.raises(CovecError, match="did you mean raptor"):
        catalog.system("rapto")


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "RESULTS", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("passed", "status"), [(True, "claim holds"), (False, "claim fails here")])
def test_status_follows_the_recorded_claim(results, passed, status):
    system = replace(catalog.System("raptor", *[""] * 7), module="covec.registry")
    assert replace(system, module=None).status == "planned"
    assert system.status == "works"
    assert not system.stale
    texts = catalog.packaged_texts()
    record = {"passed": passed, "digest": system.digest(texts), "texts": texts, "figures": []}
    (results / "raptor.json").write_text(json.dumps(record))
    assert system.status == status
    assert not system.stale
    assert replace(system, module="covec.errors").stale


def test_a_claim_is_stale_where_a_text_changed_that_was_there_and_not_where_one_was_added(
    results, tmp_path, monkeypatch
):
    monkeypatch.setattr(catalog, "DATA", tmp_path / "data")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old.txt").write_text("one")
    system, texts = catalog.system("raptor"), catalog.packaged_texts()
    record = {"passed": True, "digest": system.digest(texts), "texts": texts, "figures": []}
    (results / "raptor.json").write_text(json.dumps(record))
    (tmp_path / "data" / "new.txt").write_text("two")
    assert not system.stale
    (tmp_path / "data" / "old.txt").write_text("three")
    assert system.stale
    (tmp_path / "data" / "old.txt").unlink()
    assert system.stale


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"passed": 1, "digest": ""}', '{"passed": true, "digest": "", "texts": ["../x"]}', "{}"]
)
def test_a_damaged_result_says_how_to_mend_it(results, text):
    (results / "raptor.json").write_text(text)
    with pytest.raises(FileError, match="covec claims raptor --write"):
        catalog.read_result("raptor")
