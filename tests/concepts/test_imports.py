"""Control vectors of other tools become concept vectors, or are refused in one line."""

import random

import gguf
import numpy as np
import pytest
import torch

import covec
from concepts.made import direction, part
from covec.concepts.exports import export
from covec.concepts.imports import load_gguf
from covec.concepts.vector import ConceptVector
from covec.errors import FileError, ModelError
from covec.models.text import TextModel
from tiny import tiny_model


def written(path, tensors, architecture="controlvector", **texts):
    """A GGUF file as repeng writes it."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in ({f"{architecture}.model_hint": "mistral"} | texts).items():
        writer.add_string(key, value)
    writer.add_uint32(f"{architecture}.layer_count", len(tensors))
    for name, tensor in tensors.items():
        writer.add_tensor(name, np.asarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_what_repeng_writes_is_read(tmp_path):
    rows = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    vector = load_gguf(
        written(
            tmp_path / "honesty.gguf", {"direction.14": 3 * rows[0], "direction.2": rows[1], "direction.3": 0 * rows[1]}
        )
    )
    assert (vector.name, vector.scale_from, vector.model) == ("honesty", "native", {"model_type": "mistral"})
    assert [str(site) for site in vector.sites] == ["resid.14", "resid.2"]
    one = vector.at("resid.14")
    assert np.array_equal(one.write, 3 * rows[0])
    assert one.scale == pytest.approx(3 * float(np.linalg.norm(rows[0])), rel=1e-6)
    torch.testing.assert_close(one.direction, torch.from_numpy(rows[0] / np.linalg.norm(rows[0])))
    assert load_gguf(tmp_path / "honesty.gguf", "truth").name == "truth"


def test_what_is_exported_comes_back(tmp_path):
    vector = ConceptVector("joy", {"resid.3": part(seed=1), "resid.5": part(seed=2)}, model={"model_type": "llama"})
    export(vector, "gguf", tmp_path / "v.gguf")
    back = load_gguf(tmp_path / "v.gguf")
    assert back.name == "joy"
    assert all(torch.equal(back.parts[site].write, vector.parts[site].write) for site in vector.sites)
    export(back, "gguf", tmp_path / "w.gguf")
    assert (tmp_path / "w.gguf").read_bytes() == (tmp_path / "v.gguf").read_bytes()


@pytest.mark.parametrize("architecture", ["controlvector", "steeringvector"])
def test_a_vector_is_loaded_whichever_tool_wrote_it_and_steers_a_model_that_is_given_later(tmp_path, architecture):
    module, tokenizer = tiny_model("llama")
    model = TextModel(module, tokenizer)
    shift = np.random.default_rng(0).standard_normal(model.width).astype(np.float32)
    path = written(tmp_path / "joy.bin", {"direction.1": shift}, architecture)  # told by its content, not its name
    vector = covec.load_vector(path)
    assert (vector.name, vector.model) == ("joy", {"model_type": "mistral"})
    assert list(covec.load_bank(path)) == ["joy"]
    plain = model.capture(["a b c"], "resid.1", "all/none")["resid.1"]
    with model.edit(vector.add(2, position="all")):
        steered = model.capture(["a b c"], "resid.1", "all/none")["resid.1"]
    torch.testing.assert_close(steered - plain, torch.from_numpy(2 * shift).expand_as(plain), rtol=1e-4, atol=1e-4)
    with pytest.raises(FileError, match="holds no concept 'sorrow'"):
        covec.load_vector(path, "sorrow")


def test_a_vector_for_a_deeper_or_wider_model_is_refused_where_it_is_used(tmp_path):
    model = TextModel(*tiny_model("llama"))
    deep = covec.load_vector(written(tmp_path / "deep.gguf", {"direction.30": np.ones(model.width, dtype=np.float32)}))
    wide = covec.load_vector(written(tmp_path / "wide.gguf", {"direction.1": np.ones(64, dtype=np.float32)}))
    for vector, reason in ((deep, r"no site 'resid\.30'"), (wide, "has width 64")):
        with pytest.raises(ModelError, match=reason):
            model.edit(vector.add())


ROW = np.ones(4, dtype=np.float32)


@pytest.mark.parametrize(
    ("tensors", "options", "reason"),
    [
        ({"direction.1": ROW}, {"architecture": "llama"}, "architecture is 'llama', and not controlvector"),
        ({"lm_head": ROW}, {}, "'lm_head' is not a float32 direction"),
        ({"direction.-1": ROW}, {}, "not a float32 direction"),
        ({"direction.1": ROW.astype(np.float16)}, {}, "not a float32 direction"),
        ({"direction.1": ROW.reshape(2, 2)}, {}, "not a float32 direction"),
        ({"direction.1": ROW * np.nan}, {}, "not finite"),
        ({"direction.1": 0 * ROW}, {}, "no parts"),
        ({"direction.1": ROW}, {"general.name": "../x"}, "concept's name"),
    ],
)
def test_what_is_no_control_vector_is_refused(tmp_path, tensors, options, reason):
    with pytest.raises(FileError, match=reason):
        load_gguf(written(tmp_path / "v.gguf", tensors, **options))


def test_damage_ends_in_one_line_or_in_a_valid_vector(tmp_path):
    export(direction(), "gguf", tmp_path / "good.gguf")
    data, chance = (tmp_path / "good.gguf").read_bytes(), random.Random(0)
    refusals, path = [], tmp_path / "v.gguf"
    for _ in range(800):
        damaged = bytearray(data[: chance.choice((len(data), chance.randrange(len(data))))])
        for _ in range(chance.randrange(1, 4) if damaged else 0):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            load_gguf(path)
        except FileError as error:
            refusals.append(str(error))
    assert 400 < len(refusals) < 800
    assert not any("\n" in line for line in refusals)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileError, match="there is no file"):
        load_gguf(tmp_path / "none.gguf")
