"""`covec export` and `covec compare`."""

from dataclasses import replace

import numpy as np
import pytest

import covec


def test_export_writes_the_file_and_says_so(run, vector, vector_file, tmp_path):
    ran = run("export", vector_file, "--format", "npy", "--out", tmp_path / "w.npy", "--json")
    assert ran.document["concept"] == "warmth"
    assert np.array_equal(np.load(tmp_path / "w.npy"), vector.write.numpy())
    assert ran.document["bytes"] == (tmp_path / "w.npy").stat().st_size


def test_export_to_llama_cpp_is_the_default(run, vector_file, tmp_path):
    assert run("export", vector_file, "--out", tmp_path / "w.gguf").out == f"warmth written to {tmp_path / 'w.gguf'}\n"
    assert (tmp_path / "w.gguf").read_bytes()[:4] == b"GGUF"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--format", "docx"], "no export format 'docx'"), (["--concept", "hot"], "no concept 'hot'")],
)
def test_export_refuses_in_one_line(run, bank_file, tmp_path, arguments, words):
    ran = run("export", bank_file, "--concept", "warmth", "--out", tmp_path / "w.x", *arguments)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert words in ran.err
    assert not (tmp_path / "w.x").exists()


def test_a_bank_needs_a_concept(run, bank_file, tmp_path):
    ran = run("export", bank_file, "--out", tmp_path / "w.gguf")
    assert (ran.code, "warmth, cold" in ran.err) == (2, True)


def test_compare_gives_cosines(run, bank_file, vector_file):
    (site,) = run("compare", bank_file, "--json").document["sites"]
    assert (site["site"], site["names"]) == ("resid.1", ["warmth", "cold"])
    assert np.allclose(site["cosines"], [[1, -1], [-1, 1]], atol=1e-6)
    (both,) = run("compare", bank_file, vector_file, "--json").document["sites"]
    assert both["names"] == ["bank:warmth", "cold", "warmth:warmth"]
    assert "-1.000" in run("compare", bank_file).out


def test_compare_gives_figures_with_their_nulls(run, bank_file, vector_file):
    (site,) = run("compare", bank_file, "--json").document["sites"]
    (pair,) = site["pairs"]
    assert (pair["one"], pair["other"]) == ("warmth", "cold")
    assert pair["angle"]["value"] == pytest.approx(180, abs=0.1)
    assert pair["angle"]["null"] == pytest.approx(90, abs=5)
    assert pair["magnitude_ratio"]["value"] == pytest.approx(1, abs=1e-5)
    assert (pair["procrustes"]["value"], pair["jensen_shannon"]["value"]) == (None, None)
    assert "degrees (null)" in run("compare", bank_file).out
    (both,) = run("compare", bank_file, vector_file, "--json").document["sites"]
    assert len(both["pairs"]) == 3  # of the two files one alone holds several vectors


def test_files_with_several_vectors_are_compared_as_sets(run, vector, bank_file, tmp_path):
    other = tmp_path / "other.safetensors"
    covec.Bank(reversed([*covec.load_bank(bank_file).values()])).save(other)
    (site,) = run("compare", bank_file, other, "--json").document["sites"]
    last = site["pairs"][-1]
    assert (last["one"], last["other"], len(site["pairs"])) == ("bank", "other", 7)
    assert last["matching"]["value"] == pytest.approx(1, abs=1e-5)
    assert last["procrustes"]["value"] == pytest.approx(1, abs=1e-5)


def test_rows_of_a_store_give_distances_of_distributions(run, model, bank_file, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(f"The {word} was kind and the film was dull." for word in "abcdefgh"))
    run("capture", texts, "--model", "tiny", "--sites", "resid.1", "--out", tmp_path / "store")
    (site,) = run("compare", bank_file, "--rows", tmp_path / "store", "--json").document["sites"]
    assert site["pairs"][0]["jensen_shannon"]["value"] > site["pairs"][0]["jensen_shannon"]["null"]
    assert "distributions (null)" in run("compare", bank_file, "--rows", tmp_path / "store").out
    ran = run("compare", bank_file, "--rows", tmp_path / "nowhere")
    assert (ran.code, ran.err.count("\n")) == (2, 1)


def test_vectors_of_two_models_are_compared_when_forced(run, vector, vector_file, tmp_path):
    tuned = replace(vector, model={**vector.model, "fingerprint": "f" * 64})
    tuned.save(tmp_path / "tuned.safetensors")
    files = (vector_file, tmp_path / "tuned.safetensors")
    ran = run("compare", *files)
    assert (ran.code, "different models" in ran.err) == (2, True)
    (site,) = run("compare", *files, "--force", "--json").document["sites"]
    assert site["pairs"][0]["angle"]["value"] == pytest.approx(0, abs=0.1)


def test_files_of_one_name_are_told_apart_by_their_folders(run, vector, tmp_path):
    files = [tmp_path / folder / "vectors.safetensors" for folder in ("first", "second")]
    for file in files:
        file.parent.mkdir()
        vector.save(file)
    (site,) = run("compare", *files, "--json").document["sites"]
    assert site["names"] == ["first/vectors:warmth", "second/vectors:warmth"]
    ran = run("compare", files[0], files[0])
    assert (ran.code, ran.err.count("\n"), "given twice" in ran.err) == (2, 1, True)


def test_one_vector_has_nothing_to_be_compared_with(run, vector_file):
    ran = run("compare", vector_file)
    assert (ran.code, ran.err.count("\n")) == (2, 1)


def test_what_is_read_is_not_written_over(run, tmp_path, vector_file):
    before = vector_file.read_bytes()
    ran = run("export", vector_file, "--out", vector_file)
    assert ran.code == 2
    assert "is what is read" in ran.err
    assert vector_file.read_bytes() == before


def test_the_name_of_the_file_says_the_format(run, vector_file, tmp_path):
    assert run("export", vector_file, "--out", tmp_path / "v.npy", "--json").document["format"] == "npy"
    ran = run("export", vector_file, "--out", tmp_path / "w.npy", "--format", "gguf")
    assert (ran.code, (tmp_path / "w.npy").exists()) == (2, False)
    assert "name it so, or give --format npy" in ran.err
