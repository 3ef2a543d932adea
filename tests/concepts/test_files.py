"""The file of concept vectors: exact for what is valid, one line for everything else."""

import dataclasses
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concepts.hostile.cases import (
    CASES,
    CONCEPT,
    GOOD,
    TENSORS,
    built,
    concept,
    document,
    framed,
    named,
    packed,
    signed,
    text,
)
from concepts.made import direction, part, vectors
from covec.concepts import files
from covec.concepts._fields import KINDS, OPERATIONS, SCALES_FROM
from covec.concepts.bank import Bank, load_bank, load_vector
from covec.concepts.vector import ConceptVector
from covec.errors import FileError
from covec.statistics.figure import Figure


@pytest.fixture(autouse=True)
def _patient_disk(monkeypatch):
    """Thousands of small files need not reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(vectors(), min_size=1, max_size=3, unique_by=lambda vector: vector.name))
def test_what_is_saved_is_read_to_the_bit(tmp_path, several):
    path = tmp_path / "any.safetensors"
    Bank(several).save(path)
    read = load_bank(path)
    assert list(read.values()) == several
    before = path.read_bytes()
    read.save(path)
    assert path.read_bytes() == before


def test_what_a_user_adds_never_stands_for_the_files_own(tmp_path):
    added = {"schema": "9.0", "sha256": "", "concepts": [], "license": '"sha256":""'}
    Bank([direction()], added).save(tmp_path / "bank.safetensors")
    read = load_bank(tmp_path / "bank.safetensors")
    assert list(read.values()) == [direction()]
    assert read.metadata == {"license": '"sha256":""'}


def test_vectors_and_sites_may_share_a_part(tmp_path):
    shared = part()
    one = ConceptVector("one", {"resid.1": shared, "resid.2": shared})
    bank = Bank([one, dataclasses.replace(one, name="two")])
    bank.save(tmp_path / "shared.safetensors")
    assert load_bank(tmp_path / "shared.safetensors") == bank


def test_a_fresh_process_scores_the_same_bits(tmp_path):
    vector = direction(width=64, figures={"auroc": Figure(1 / 3, 0.1, 0.9, 0.5, 7, "delong")}, threshold=0.1)
    vector.save(tmp_path / "v.safetensors")
    code = (
        "import sys, torch, covec; v = covec.load_vector(sys.argv[1]); "
        "print(v.score(torch.arange(128.0).reshape(2, 64)).view(torch.int32).tolist(), v.figures['auroc'].value.hex())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "v.safetensors"], capture_output=True, text=True, check=True
    )
    bits = vector.score(torch.arange(128.0).reshape(2, 64)).view(torch.int32).tolist()
    assert run.stdout.strip() == f"{bits} {(1 / 3).hex()}"


def test_a_file_written_without_covec_is_read(tmp_path):
    (tmp_path / "good.safetensors").write_bytes(GOOD)
    vector = load_vector(tmp_path / "good.safetensors")
    assert (vector.name, str(vector.site), vector.threshold, vector.calibration) == ("joy", "resid.3", 0.0, None)
    assert vector.score([[3.0, 2.0], [0.0, 0.0]]).tolist() == [0.5, -0.5]
    assert (str(vector.read_position), str(vector.write_position)) == ("last/none", "content/none")


def test_the_safetensors_library_reads_it(tmp_path):
    vector = direction()
    vector.save(tmp_path / "v.safetensors")
    with safetensors.safe_open(tmp_path / "v.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["covec"])["schema"] == "1.0"
        assert torch.equal(file.get_tensor("0/resid.14/write")[0], vector.write)
        assert set(file.keys()) == {f"0/resid.14/{name}" for name in vector.parts[vector.site].tensors()}


PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")


def test_the_example_of_the_specification_is_read(tmp_path):
    example = json.loads(PAGE.partition("```json")[2].partition("```")[0])
    assert example.keys() == json.loads(document(b"")).keys()
    (concept_,) = example["concepts"]
    (tmp_path / "v.safetensors").write_bytes(built([concept_], named(TENSORS, "resid.14")))
    vector = load_vector(tmp_path / "v.safetensors")
    assert vector.figures == {"auroc": Figure(0.91, 0.86, 0.95, 0.52, 180, "DeLong")}
    vector.save(tmp_path / "w.safetensors")
    written = json.loads(header((tmp_path / "w.safetensors").read_bytes())["__metadata__"]["covec"])
    assert written["concepts"] == [concept_]


@pytest.mark.parametrize("known", [KINDS, OPERATIONS, SCALES_FROM])
def test_the_specification_names_all_kinds_operations_and_scales(known):
    assert ", ".join(f"`{name}`" for name in known) in PAGE


@pytest.mark.parametrize("kind", ["prefix", "weights"])
def test_what_only_writes_has_only_that_tensor(tmp_path, kind):
    made = built([CONCEPT | {"kind": kind, "parts": ["embed"]}], {"0/embed/write": ([2, 3], [1.0] * 6)})
    (tmp_path / "v.safetensors").write_bytes(made)
    vector = load_vector(tmp_path / "v.safetensors")
    assert vector.parts[vector.sites[0]].write.shape == (2, 3)
    vector.save(tmp_path / "w.safetensors")
    assert load_vector(tmp_path / "w.safetensors") == vector


def test_a_later_minor_version_is_read_and_what_it_adds_is_kept(tmp_path):
    path = tmp_path / "v.safetensors"
    made = built([CONCEPT | {"mood": {"a": [1, None]}}], schema="1.7", license="CC0")
    path.write_bytes(made)
    bank = load_bank(path)
    assert bank["joy"].metadata == {"mood": {"a": [1, None]}}
    assert bank.metadata == {"license": "CC0"}
    bank.save(path)
    assert load_bank(path) == bank
    assert load_bank(path).metadata == bank.metadata
    assert json.loads(header(path.read_bytes())["__metadata__"]["covec"])["schema"] == "1.0"


def test_padding_and_other_tools_metadata_do_no_harm(tmp_path):
    entries, data = packed(named(TENSORS))
    metadata = {"covec": document(data), "format": "pt"}
    padded = json.dumps({"__metadata__": metadata} | entries) + " " * 5
    (tmp_path / "v.safetensors").write_bytes(framed(padded, data))
    assert load_vector(tmp_path / "v.safetensors").name == "joy"


def test_the_order_of_tensors_in_the_data_is_free(tmp_path):
    (tmp_path / "v.safetensors").write_bytes(built(tensors=named(dict(reversed(TENSORS.items())))))
    (tmp_path / "good.safetensors").write_bytes(GOOD)
    assert load_vector(tmp_path / "v.safetensors") == load_vector(tmp_path / "good.safetensors")


def header(data):
    return json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])


def refusal(path, data):
    """The one line with which `data` is refused, or None where it is read; any other error fails the test."""
    path.write_bytes(data)
    try:
        bank = load_bank(path)
    except FileError as error:
        line = str(error)
        assert "\n" not in line
        assert str(path) in line
        assert len(line) < len(str(path)) + 350
        return line
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} for {data[:500]!r}") from error
    bank.save(path)
    assert load_bank(path) == bank
    return None


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_is_refused_in_one_line(tmp_path, name):
    data, words = CASES[name]
    with pytest.raises(FileError, match=words):
        raise FileError(refusal(tmp_path / "v.safetensors", data) or "it was read")


def test_no_hostile_file_takes_more_memory_than_its_size_explains(tmp_path):
    for name, (data, _) in CASES.items():
        (tmp_path / name).write_bytes(data)
    code = """
import resource, sys
from pathlib import Path
from covec.concepts.bank import load_bank
from covec.errors import FileError
import torch; torch.zeros(1) @ torch.zeros(1)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 640 * 2**20,) * 2)
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        load_bank(path)
    except FileError as error:
        assert "fit into memory" not in str(error), error
    else:
        raise AssertionError(f"{path.name} was read")
print("all refused")
"""
    run = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    assert run.stdout == "all refused\n", run.stderr[-1000:]


def valid(tmp_path):
    """A file with every kind of content, to be damaged."""
    several = [
        direction(
            "one", figures={"auroc": Figure(0.9, 0.8, 0.95, 0.5, 180, "x")}, tried=[{"site": "resid.1", "p": 0.5}]
        ),
        ConceptVector(
            "two", {"resid.1": part(2, seed=1), "attn.3": part(3, seed=2)}, kind="subspace", calibration=(2.0, 0.1)
        ),
    ]
    Bank(several).save(tmp_path / "valid.safetensors")
    return (tmp_path / "valid.safetensors").read_bytes()


def test_every_truncation_is_refused(tmp_path):
    data = valid(tmp_path)
    assert all(refusal(tmp_path / "v.safetensors", data[:end]) for end in range(0, len(data), 3))
    assert refusal(tmp_path / "v.safetensors", data + b"\x00")


def test_flipped_bytes_never_go_unnoticed_in_the_numbers(tmp_path):
    data, chance = valid(tmp_path), random.Random(0)
    start = 8 + struct.unpack("<Q", data[:8])[0]
    for _ in range(300):
        damaged = bytearray(data)
        damaged[chance.randrange(start, len(data))] ^= 1 << chance.randrange(8)
        assert "checksum" in refusal(tmp_path / "v.safetensors", damaged)


def test_a_flipped_bit_of_the_header_is_refused_or_changes_nothing(tmp_path):
    data, chance = valid(tmp_path), random.Random(0)
    whole, path = load_bank(tmp_path / "valid.safetensors"), tmp_path / "v.safetensors"
    for place in range(8 + struct.unpack("<Q", data[:8])[0]):
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            assert load_bank(path) == whole, f"byte {place}"
        except FileError:
            continue


ODD = [
    None,
    True,
    -1,
    0,
    1.5,
    1e308,
    -0.0,
    10**19,
    "",
    "x",
    "../x",
    "\ud800",
    "9" * 500,
    [],
    [[]],
    [0],
    {},
    {"a": {}},
    {"value": 1},
]


def spots(node, path=()):
    """Paths to every value inside `node`."""
    yield path
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from spots(value, (*path, key))


def replaced(node, path, value):
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = replaced(node[path[0]], path[1:], value)
    return copy


def test_odd_values_anywhere_in_the_document_end_in_one_line_or_in_valid_vectors(tmp_path):
    data = valid(tmp_path)
    table = header(data)
    content = json.loads(table["__metadata__"]["covec"]) | {"sha256": ""}
    body = data[8 + struct.unpack("<Q", data[:8])[0] :]
    refused = []
    for where in spots(content):
        for value in ODD:
            changed = signed(replaced(content, where, value), body)
            line = refusal(tmp_path / "v.safetensors", framed(table | {"__metadata__": {"covec": changed}}, body))
            refused.append(line is not None)
    assert len(refused) > 1000
    assert any(refused)
    assert not all(refused)


def test_odd_values_anywhere_in_the_table_are_refused(tmp_path):
    data = valid(tmp_path)
    table = header(data)
    body = data[8 + struct.unpack("<Q", data[:8])[0] :]
    entries = {key: value for key, value in table.items() if key != "__metadata__"}
    for where in list(spots(entries))[:60]:
        for value in ODD:
            changed = replaced(entries, where, value)
            if where and changed != entries and isinstance(changed, dict):
                whole = framed({"__metadata__": table["__metadata__"]} | changed, body)
                assert refusal(tmp_path / "v.safetensors", whole) is not None


@pytest.mark.parametrize(
    "concept_", [{"kind": "direction"}, {"operation": "ablate", "scale_from": "spread"}, {"seed": 3, "x": 1}]
)
def test_the_builder_of_hostile_files_also_builds_good_ones(tmp_path, concept_):
    assert refusal(tmp_path / "v.safetensors", concept(**concept_)) is None


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(FileError, match=r"there is no file .*none\.safetensors"):
        load_vector(tmp_path / "none.safetensors")
    with pytest.raises(FileError, match="it is a folder"):
        load_vector(tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs devices")
def test_an_endless_device_is_refused():
    with pytest.raises(FileError, match="no file"):
        load_vector("/dev/zero")


def test_a_file_larger_than_memory_is_refused(tmp_path, monkeypatch):
    def too_much(*_):
        raise MemoryError

    (tmp_path / "v.safetensors").write_bytes(GOOD)
    monkeypatch.setattr(safetensors.torch, "load", too_much)
    with pytest.raises(FileError, match="does not fit into memory"):
        load_vector(tmp_path / "v.safetensors")


@pytest.mark.parametrize("call", ["os.replace", "os.fsync"])
def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch, call):
    path = tmp_path / "v.safetensors"
    direction().save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(call, full)
    with pytest.raises(FileError, match=r"cannot write .*No space left"):
        direction("other").save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["v.safetensors"]


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot write"):
        direction().save(tmp_path / "file" / "v.safetensors")
    with pytest.raises(FileError, match="is a folder"):
        direction().save(tmp_path)


def test_too_much_metadata_is_refused_when_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LONGEST_HEADER", 1000)
    with pytest.raises(FileError, match="shorten"):
        direction(tried=[{"site": "x" * 1000}]).save(tmp_path / "v.safetensors")
    assert not os.listdir(tmp_path)


def test_the_same_vector_makes_the_same_bytes(tmp_path):
    vector = direction(model={"b": 1, "a": 2}, metadata={"x": 1})
    vector.save(tmp_path / "a.safetensors")
    dataclasses.replace(vector).save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_the_document_is_one_line_of_the_header(tmp_path):
    assert refusal(tmp_path / "v.safetensors", text('{"schema":"1.0","concepts":[')).endswith("column 29 (char 28)")
