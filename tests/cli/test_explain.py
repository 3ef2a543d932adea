"""`covec explain`: a figure a token and a figure a place, as text and as JSON."""

import pytest


@pytest.fixture(autouse=True)
def _model(model):
    """Every command of this file loads the tiny model."""


ASKED = ["--model", "tiny", "--text", "the hotel was clean and", "--word", "ho", "--against", "at", "--rounds", "2"]


def test_a_figure_a_token_and_a_place(run):
    ran = run("explain", *ASKED, "--json")
    assert ran.code == 0
    assert ran.document["target"] == {"ho": 1.0, "at": -1.0}
    (one,) = ran.document["explanations"]
    assert one["text"] == "the hotel was clean and"
    kinds = [name.split()[0] for name in one["figures"]]
    assert kinds.count("token") == kinds.count("place") == 11
    assert run("explain", *ASKED, "--json").document == ran.document


def test_the_text_says_the_same(run):
    lines = run("explain", *ASKED, "--position", "from-10").out.splitlines()
    assert lines[0] == "the hotel was clean and"
    assert [line.split()[:2] for line in lines[1:]] == [["token", "1"], ["token", "2"], ["place", "1"], ["place", "2"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--by", "magic"], "no way to explain called 'magic'; there are pax"),
        (["--against", "ho"], "'ho' counts for and against itself"),
        (["--text", " "], "a text is empty"),
        (["--word", "two words"], "'two words'"),
        (["--position", "1"], "selects 1 tokens of input 1"),
        (["--rounds", "1"], "--rounds"),
        (["--model", "other"], "no model 'other'"),
    ],
)
def test_what_is_wrong_is_one_line(run, arguments, words):
    ran = run("explain", *ASKED, *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err
