"""`covec name`: words for vectors, as text and as JSON."""

import pytest

WAYS = ["conceptualization", "output-centric-descriptions"]


@pytest.fixture(autouse=True)
def _many_words(monkeypatch):
    """The tiny tokenizer's tokens are letters: all of them count as words here."""
    import re

    from covec.models import vocabulary

    monkeypatch.setattr(vocabulary, "_WORD", re.compile(r"\S+"))
    monkeypatch.setattr(vocabulary, "_STARTS", ("\0",))


def test_every_way_names_every_vector(run, bank_file):
    ran = run("name", bank_file, "--count", 3, "--json")
    assert ran.code == 0
    assert ran.document["model"] == "tiny"
    rows = [(one["concept"], one["site"], one["row"], one["by"]) for one in ran.document["names"]]
    assert rows == [(concept, "resid.1", 0, way) for concept in ("warmth", "cold") for way in WAYS]
    for warm, cold in zip(ran.document["names"][:2], ran.document["names"][2:], strict=True):
        assert 0 < len(warm["up"]) <= 3
        assert [one["text"] for one in warm["up"]] == [one["text"] for one in cold["down"]]
        assert all(one["weight"] > 0 for one in warm["up"])
        assert all(one["weight"] < 0 for one in warm["down"])


def test_the_text_says_the_same(run, vector_file):
    ran = run("name", vector_file, "--by", "conceptualization", "--count", 2)
    head, up, down = ran.out.splitlines()
    assert head == "warmth at resid.1, by conceptualization"
    assert up.startswith("  up    ")
    assert down.startswith("  down  ")
    assert up.count(", ") == down.count(", ") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--by", "magic"], "no way to name called 'magic'; there are conceptualization, output-centric-descriptions"),
        (["--concept", "hot"], "no concept 'hot'"),
        (["--count", "0"], "--count"),
        (["--model", "other"], "no model 'other'"),
    ],
)
def test_what_is_wrong_is_one_line(run, bank_file, arguments, words):
    ran = run("name", bank_file, *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err
