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


def test_several_vectors_act_at_once(run, model, vector, vector_file, bank_file):
    also = ("--also", f"{bank_file}:cold@-2", "--also", f"{vector_file}@0.5")
    ran = steer(run, vector_file, "--prompt", "Water", "--strength", 1, *also, "--json")
    from covec import load_vector

    cold = load_vector(bank_file, "cold")
    with model.edit(vector.add(1), cold.add(-2), vector.add(0.5)):
        text = model.generate("Water", max_new_tokens=5)
    assert ran.document["results"][0]["text"] == text
    assert ran.document["also"] == [{"concept": "cold", "strength": -2.0}, {"concept": vector.name, "strength": 0.5}]


def test_an_order_that_matters_is_warned_of(run, model, vector_file, bank_file):
    also = ("--also", f"{bank_file}:cold@1")
    assert "order" in steer(run, vector_file, "--prompt", "Water", "--ablate", *also).err
    assert "order" not in steer(run, vector_file, "--prompt", "Water", *also).err


def test_auto_takes_a_strength_of_the_curve_and_shows_it(run, model, vector_file):
    budget = ("--max-kl", 0.2, "--max-perplexity", 1000)
    for given, sign in (("auto", 1), ("-auto", -1)):
        ran = steer(run, vector_file, "--prompt", "Water", "--strength", given, *budget, "--json")
        assert ran.code in (0, 2)
        if ran.code == 0:
            auto = ran.document["auto"]
            assert auto["strength"] == ran.document["results"][0]["strength"]
            assert sign * auto["strength"] > 0
            assert auto["budget"] == {"nats": 0.2, "perplexity": 1000.0}
            assert all(row["nats"] <= 0.3 for row in auto["curve"])
            assert "KL a token" in ran.err
        else:
            assert "allow more" in ran.err


def test_a_baked_model_says_what_the_edited_one_does(run, model, vector, vector_file, tmp_path):
    from transformers import AutoModelForCausalLM

    ran = steer(run, vector_file, "--prompt", "Water boils", "--strength", 2, "--bake", tmp_path / "baked", "--json")
    assert ran.code == 0, ran.err
    baked = AutoModelForCausalLM.from_pretrained(tmp_path / "baked")
    ids = model.tokenizer("Water boils", return_tensors="pt")
    written = baked.generate(**ids, max_new_tokens=5, do_sample=False, pad_token_id=model.pad_id)
    text = model.tokenizer.decode(written[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
    assert ran.document["results"][0]["text"] == text
    assert ran.document["baked"] == str(tmp_path / "baked")
    assert steer(run, vector_file, "--strength", 2, "--bake", tmp_path / "other").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to continue"),
        (["--prompt", "Water", "--also", "nowhere.safetensors"], "FILE@STRENGTH"),
        (["--prompt", "Water", "--also", "nowhere.safetensors@much"], "FILE@STRENGTH"),
        (["--prompt", "Water", "--also", "nowhere.safetensors@nan"], "FILE@STRENGTH"),
        (["--prompt", "Water", "--also", "nowhere.safetensors@1"], "nowhere"),
        (["--prompt", "Water", "--strength", "auto", "--strength", "1"], "alone"),
        (["--prompt", "Water", "--strength", "auto", "--ablate"], "give one"),
        (["--prompt", "Water", "--strength", "auto", "--max-kl", "0"], "above 0"),
        (["--prompt", "Water", "--strength", "auto", "--max-perplexity", "nan"], "from 1"),
        (["--strength", "1", "--strength", "2", "--bake", "out"], "give one"),
        (["--ablate", "--bake", "{folder}"], "is there already"),
        (["--position", "last", "--bake", "{new}"], "last"),
    ],
)
def test_more_bad_input_is_one_line(run, model, vector_file, tmp_path, arguments, words):
    (tmp_path / "there").mkdir()
    names = {"{folder}": tmp_path / "there", "{new}": tmp_path / "new"}
    ran = steer(run, vector_file, *(names.get(one, one) for one in arguments))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    assert words in ran.err
    assert not (tmp_path / "new").exists()
