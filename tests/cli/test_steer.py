"""`covec steer`: the cross product of prompts and strengths, as the Python API writes it."""

import pytest

PROMPTS = ("The hotel was", "Water boils")


def steer(run, file, *more):
    return run("steer", file, "--max-new-tokens", 5, *more)


def test_the_cross_product_with_prompts_outer(run, model, vector, vector_file):
    prompts = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    ran = steer(run, vector_file, "--model", "tiny", *prompts, "--strength", "0", "--strength", "-1.5", "--json")
    assert ran.code == 0
    results = ran.document["results"]
    assert [(row["prompt"], row["strength"]) for row in results] == [(p, s) for p in PROMPTS for s in (0, -1.5)]
    plain = model.generate(list(PROMPTS), max_new_tokens=5)
    with model.edit(vector.add(-1.5)):
        lowered = model.generate(list(PROMPTS), max_new_tokens=5)
    assert [row["text"] for row in results] == [plain[0], lowered[0], plain[1], lowered[1]]


def test_the_model_is_the_vectors_own_where_none_is_named(run, model, vector_file):
    ran = steer(run, vector_file, "--prompt", "Water", "--json")
    assert (ran.document["model"], ran.document["results"][0]["strength"]) == ("tiny", 1.0)


def test_ablation_comes_first_and_strength_then_is_zero(run, model, vector, vector_file):
    ran = steer(run, vector_file, "--prompt", "Water", "--ablate", "--json")
    with model.edit(vector.ablate()):
        text = model.generate("Water", max_new_tokens=5)
    assert ran.document["results"] == [{"prompt": "Water", "strength": 0.0, "text": text}]


def test_chat_and_sampling_reach_the_model(run, model, vector_file):
    ran = steer(run, vector_file, "--prompt", "Water", "--chat", "--sample", "--seed", 3, "--strength", 0, "--json")
    chat = [{"role": "user", "content": "Water"}]
    assert ran.document["results"][0]["text"] == model.generate(chat, max_new_tokens=5, do_sample=True, seed=3)


def test_without_json_the_texts_are_shown(run, model, vector_file):
    ran = steer(run, vector_file, "--prompt", "Water", "--strength", "2")
    assert ran.out.startswith("'Water' at +2:\n")


def test_a_bank_needs_a_concept(run, model, bank_file):
    assert "warmth, cold" in steer(run, bank_file, "--prompt", "Water").err
    assert steer(run, bank_file, "--prompt", "Water", "--concept", "cold").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prompt", " "], "prompt is empty"),
        (["--prompt", "Water", "--model", "other"], "no model 'other'"),
        (["--prompt", "Water", "--strength", "nan"], "finite number"),
        (["--prompt", "Water", "--strength", "-inf"], "finite number"),
        (["--prompt", "Water", "--strength", "1e30"], "too large"),
        (["--prompt", "Water", "--strength", "much"], "--strength"),
        (["--prompt", "Water", "--concept", "hot"], "'hot'"),
        (["--prompt", "Water", "--position", "nowhere"], "is not a position"),
        (["--prompt", "Water", "--position", "mean"], "takes no pooling"),
        (["--prompt", "Water", "--max-new-tokens", "0"], "--max-new-tokens"),
        (["--prompt", "Water " * 200], "128"),
    ],
)
def test_bad_input_is_one_line(run, model, vector_file, arguments, words):
    ran = steer(run, vector_file, *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err


def test_a_vector_of_another_model_is_refused_unless_forced(run, model, vector, tmp_path):
    from dataclasses import replace

    replace(vector, model={**vector.model, "fingerprint": "other"}).save(tmp_path / "other.safetensors")
    ran = steer(run, tmp_path / "other.safetensors", "--prompt", "Water")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert steer(run, tmp_path / "other.safetensors", "--prompt", "Water", "--force").code == 0


@pytest.mark.parametrize("content", [b"", b"\x10\0\0\0\0\0\0\0{", b"no vector at all"])
def test_a_damaged_vector_is_one_line(run, model, tmp_path, content):
    (tmp_path / "bad.safetensors").write_bytes(content)
    ran = steer(run, tmp_path / "bad.safetensors", "--prompt", "Water")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
