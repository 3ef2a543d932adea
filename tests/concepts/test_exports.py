"""Exports hold what the other tool will do with them, or are refused."""

import os

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concepts.made import direction, part
from covec.concepts.exports import export
from covec.concepts.part import Part
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError, FileError

LLAMA = {"name": "smollm2-135m", "architecture": "LlamaForCausalLM", "model_type": "llama"}


def field(reader, key):
    return reader.get_field(key).contents()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.integers(1, 99), st.integers(0, 2**31), min_size=1, max_size=4), st.integers(1, 40))
def test_a_control_vector_is_read_back_to_the_bit(tmp_path, blocks, width):
    vector = ConceptVector(
        "joy", {f"resid.{block}": part(1, width, seed) for block, seed in blocks.items()}, model=LLAMA
    )
    export(vector, "gguf", tmp_path / "v.gguf")
    reader = gguf.GGUFReader(tmp_path / "v.gguf")
    assert field(reader, "general.architecture") == "controlvector"
    assert field(reader, "controlvector.model_hint") == "llama"
    assert field(reader, "controlvector.layer_count") == len(blocks)
    assert [tensor.name for tensor in reader.tensors] == [f"direction.{block}" for block in sorted(blocks)]
    for tensor in reader.tensors:
        assert tensor.tensor_type == gguf.GGMLQuantizationType.F32
        assert tensor.data.shape == (width,)
        write = vector.parts[next(site for site in vector.sites if f"direction.{site.block}" == tensor.name)].write[0]
        assert tensor.data.tobytes() == write.numpy().tobytes()


def test_scale_one_there_is_strength_one_here(tmp_path):
    vector = direction()
    export(vector, "gguf", tmp_path / "v.gguf")
    (tensor,) = gguf.GGUFReader(tmp_path / "v.gguf").tensors
    rows = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_allclose(vector.score(rows + tensor.data) - vector.score(rows), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (direction(site="resid.0"), "never steers block 0"),
        (ConceptVector("c", {"resid.0": part(), "resid.1": part()}), "never steers block 0"),
        (direction(site="attn.3"), r"residual stream .*, not attn\.3"),
        (direction(site="final"), "not final"),
        (direction(operation="ablate"), "a direction to ablate"),
        (ConceptVector("c", {"resid.1": part(2)}, kind="subspace"), "a subspace to add"),
        (
            ConceptVector("c", {"embed": Part.writing([[1.0]])}, kind="prefix", operation="prepend"),
            "a prefix to prepend",
        ),
    ],
)
def test_what_llama_cpp_cannot_do_is_refused(tmp_path, vector, reason):
    with pytest.raises(CovecError, match=reason):
        export(vector, "gguf", tmp_path / "v.gguf")
    assert not os.listdir(tmp_path)


def test_npy_is_the_shift_of_strength_one(tmp_path):
    vector = direction()
    export(vector, "npy", tmp_path / "v.npy")
    read = np.load(tmp_path / "v.npy", allow_pickle=False)
    assert (read.dtype, read.shape) == (np.float32, (8,))
    assert np.array_equal(read, vector.write)
    plane = ConceptVector("c", {"resid.1": part(2)}, kind="subspace")
    export(plane, "npy", tmp_path / "plane.npy")
    assert np.load(tmp_path / "plane.npy", allow_pickle=False).shape == (2, 8)


def test_npy_holds_one_site(tmp_path):
    vector = ConceptVector("c", {"resid.0": part(), "resid.1": part()})
    with pytest.raises(CovecError, match=r"one site .* has 2"):
        export(vector, "npy", tmp_path / "v.npy")
    export(vector.at("resid.1"), "npy", tmp_path / "v.npy")
    assert os.listdir(tmp_path) == ["v.npy"]


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(CovecError, match="no export format 'onnx'; known: gguf, npy"):
        export(direction(), "onnx", tmp_path / "v.onnx")


@pytest.mark.parametrize("format_", ["gguf", "npy"])
def test_a_place_that_cannot_be_written_is_refused(tmp_path, monkeypatch, format_):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot write"):
        export(direction(), format_, tmp_path / "file" / "v")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match="No space left"):
        export(direction(), format_, tmp_path / "v")
    assert os.listdir(tmp_path) == ["file"]


def test_a_vector_exports_itself(tmp_path):
    vector = ConceptVector("joy", {"resid.3": part(1, 8, 0)}, model=LLAMA)
    for name in ("gguf", "npy"):
        vector.export(tmp_path / f"own.{name}", name)
        export(vector, name, tmp_path / f"same.{name}")
        assert (tmp_path / f"own.{name}").read_bytes() == (tmp_path / f"same.{name}").read_bytes()
