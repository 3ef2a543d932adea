"""Positions round-trip, and their masks are what they say on any layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covec.errors import ModelError
from covec.models.positions import Layout, Position, mask


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    length = draw(st.integers(1, 12))
    special = np.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)))
    prompt = draw(st.integers(1, length))
    start, end = sorted(draw(st.tuples(st.integers(0, length - 1), st.integers(0, length - 1))))
    return Layout(special, prompt, prompt - 1, (prompt, length), (start, end + 1))


selects = st.one_of(
    st.sampled_from(["all", "content", "prompt", "answer", "span", "generated", "first", "last"]),
    st.integers(0, 14).map(str),
    st.integers(0, 14).map("from-{}".format),
)


def chosen(text: str, layout: Layout) -> set[int]:
    return set(np.flatnonzero(mask(Position.parse(text), layout)))


@given(st.lists(selects, min_size=1, max_size=3).map("+".join), st.sampled_from(["none", "mean", "max"]))
def test_positions_round_trip(select: str, pool: str) -> None:
    position = Position.parse(f"{select}/{pool}")
    assert (position.select, position.pool) == (select, pool)
    assert Position.parse(str(position)) == position
    assert Position.parse(position) is position


def test_short_forms() -> None:
    assert str(Position.parse("last")) == "last/none"
    assert str(Position.parse("mean")) == "content/mean"
    assert str(Position.parse("max")) == "content/max"
    assert str(Position.parse("3")) == "3/none"


@pytest.mark.parametrize(
    "text", ["", "middle", "last/median", "from-", "-1", "last+", "mean/mean", "from-x", "1.5", 3, None]
)
def test_what_is_no_position_is_refused(text: Any) -> None:
    with pytest.raises(ModelError, match="is not a position"):
        Position.parse(text)


@given(layouts())
def test_content_has_no_special_token_and_not_the_first(layout: Layout) -> None:
    content = chosen("content", layout)
    expected = set(np.flatnonzero(~layout.special)) - {0}
    assert content == (expected or {layout.length - 1})


@given(layouts(), st.integers(0, 14))
def test_every_selection_is_what_it_says(layout: Layout, k: int) -> None:
    everything = set(range(layout.length))
    assert chosen("all", layout) == everything
    assert chosen("first", layout) == {0}
    assert chosen("last", layout) == {layout.last}
    assert chosen("prompt", layout) | chosen("generated", layout) == everything
    assert not chosen("prompt", layout) & chosen("generated", layout)
    assert chosen(str(k), layout) == {k} & everything
    assert chosen(f"from-{k}", layout) == {index for index in everything if index >= k}
    assert chosen("span", layout) == set(range(*layout.span or ()))
    assert chosen("answer", layout) == set(range(*layout.answer or ()))


@given(layouts(), st.lists(selects, min_size=2, max_size=3))
def test_a_sum_selects_what_its_parts_do(layout: Layout, parts: list[str]) -> None:
    assert chosen("+".join(parts), layout) == set().union(*(chosen(part, layout) for part in parts))


def test_one_row_comes_out_of_pools_and_single_tokens() -> None:
    single = {"last", "first", "4", "mean", "all/max", "from-3/mean", "cls"}
    several = {"all", "content", "from-3", "last+generated", "span"}
    assert all(Position.parse(text).single for text in single)
    assert not any(Position.parse(text).single for text in several)


def test_edits_take_no_pooling() -> None:
    assert Position.parse("last").for_edits() == Position("last")
    with pytest.raises(ModelError, match="takes no pooling: write 'content'"):
        Position.parse("mean").for_edits()


@pytest.mark.parametrize(("text", "message"), [("span", "carry one"), ("answer", "carry one"), ("patches", "images")])
def test_what_an_input_lacks_is_refused(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        mask(Position(text), Layout(np.zeros(3, dtype=bool), 3, 2))


@pytest.mark.parametrize("parts", [("mean",), ("last", "middle"), ("middle",), ("last+",), ("",), ("content/mean",)])
def test_a_position_is_not_made_of_a_short_form(parts: tuple[str, ...]) -> None:
    with pytest.raises(ModelError, match="is no selection and pooling"):
        Position(*parts)


@pytest.mark.parametrize("text", ["last/none", "content/mean", "from-3/max", "last+generated/none"])
def test_what_a_prompt_shows_would_make_the_position_again(text: str) -> None:
    assert repr(Position.parse(text)) == f"Position.parse({text!r})"
