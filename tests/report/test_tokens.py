"""Texts as spans: nothing lost, nothing twice."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covec.report.tokens import LEVELS, reach, shade, spans

TOP = 1.0


@st.composite
def scored(draw):
    """A text with tokens in order that may overlap, leave gaps, be empty or lack a score."""
    text = draw(st.text(max_size=30))
    starts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    score = st.none() | st.floats(-5, 5) | st.just(math.nan)
    made = [{"token": "", "start": at, "end": draw(st.integers(at, len(text))), "score": draw(score)} for at in starts]
    return {"text": text, "tokens": made}


@given(scored())
def test_the_spans_are_the_text(text):
    assert "".join(span.text for span in spans(text, TOP, most=100)) == text["text"]


@given(scored())
def test_only_what_is_scored_is_coloured(text):
    for span in spans(text, TOP, most=100):
        assert not span.shade or span.title.startswith("score ")


@given(st.floats(0.01, 10), st.floats(0.1, 5))
def test_shades_are_symmetric_and_grow(score, top):
    depth = int(shade(score, top).removeprefix("more"))
    assert shade(score, top) == f"more{depth}"
    assert shade(-score, top) == f"less{depth}"
    assert depth <= int(shade(2 * score, top).removeprefix("more")) <= LEVELS
    assert shade(top, top) == f"more{LEVELS}"
    assert shade(0.0, top) == ""


def test_a_character_of_several_tokens_is_shown_once():
    text = {"text": "a👍b", "tokens": [{"token": "?", "start": 1, "end": 2, "score": s} for s in (0.5, -0.5, 0.1)]}
    assert [span.text for span in spans(text, TOP, most=9)] == ["a", "👍", "b"]


def test_a_long_text_is_cut_and_says_so():
    text = {"text": "x" * 50, "tokens": [{"token": "x", "start": i, "end": i + 1, "score": 0.2} for i in range(50)]}
    shown = spans(text, TOP, most=10)
    assert len(shown) == 11
    assert shown[-1].text == "…"


@pytest.mark.parametrize("scores", [[], [None], [math.nan], [0.1, -0.2]])
def test_the_deepest_shade_is_at_least_a_class_mean(scores):
    assert reach([{"text": "", "tokens": [{"score": score} for score in scores]}]) == 0.5


def test_one_outlier_does_not_pale_the_rest():
    scores = [0.8] * 99 + [50.0]
    assert reach([{"tokens": [{"score": score} for score in scores]}]) < 1
