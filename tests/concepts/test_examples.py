"""Examples: what is read, what is refused, and what identifies them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.concepts.examples import Examples, read_concepts, require_enough
from covec.errors import ExamplesError

CHAT = [{"role": "user", "content": "How was it?"}, {"role": "assistant", "content": "Lovely."}]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def refused(path: Path, rows: list[dict[str, Any]], message: str, **options: Any) -> None:
    with pytest.raises(ExamplesError, match=message) as caught:
        read_concepts(write(path, rows), **options)
    assert "\n" not in str(caught.value)


def many(count: int, **columns: Any) -> Examples:
    return Examples(tuple(f"text {i}" for i in range(count)), np.arange(count) % 2 == 0, **columns)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.jsonl"


def test_all_columns_find_their_place(path: Path) -> None:
    rows = [
        {"text": "so good", "label": 1, "group": 7, "span_start": 3, "span_end": 7, "split": "train", "source": "a"},
        {
            "text": "so bad",
            "label": 0,
            "group": None,
            "span_start": None,
            "span_end": None,
            "split": "Dev",
            "source": "b",
        },
    ]
    examples = Examples.read(write(path, rows))
    assert examples.inputs == ("so good", "so bad")
    assert examples.labels.tolist() == [True, False]
    assert examples.groups == ("7", None)
    assert examples.spans == ((3, 7), None)
    assert examples.splits == ("train", "validation")
    assert examples.extra == {"source": ("a", "b")}
    assert examples.name == "data"
    assert examples.kind == "text"
    assert repr(examples) == "Examples('data', 2 texts, 1 positive)"


def test_a_row_of_positive_and_negative_is_a_pair(path: Path) -> None:
    rows = [{"positive": "kind", "negative": "cruel", "group": "a"}]
    examples = Examples.read(write(path, [*rows, {"positive": "warm", "negative": "cold", "group": "b"}]))
    assert examples.inputs == ("kind", "cruel", "warm", "cold")
    assert examples.labels.tolist() == [True, False, True, False]
    assert examples.pairs is not None
    assert examples.pairs[::2] == examples.pairs[1::2]
    assert len(set(examples.pairs)) == 2
    assert examples.groups == ("a", "a", "b", "b")
    refused(path, [{"positive": "kind", "negative": " "}], r"line 1 \(negative\): the text is empty")
    refused(
        path, [{"positive": "kind", "negative": "Kind."}], r"line 1 \(negative\) has the text of line 1 \(positive\)"
    )
    refused(path, [{"positive": "a", "negative": "b", "pair": 1}], "each row is a pair already")


def test_columns_can_be_named_and_a_lone_other_is_guessed_aloud(path: Path) -> None:
    rows = [{"statement": "a", "label": 1, "id": 1}, {"statement": "b", "label": 0, "id": 2}]
    assert Examples.read(write(path, rows), text_column="statement").inputs == ("a", "b")
    refused(path, rows, "has no column 'text'; it has 'statement', 'label', 'id'; name one with --text-column")
    refused(path, rows, "has no column 'sentence'; it has 'statement'", text_column="sentence")
    refused(path, rows, "cannot be both text and label", text_column="label")
    two = [{"statement": row["statement"], "label": row["label"]} for row in rows]
    assert Examples.read(write(path, two)).notes == (f"{path}: column 'statement' is read as text",)
    refused(path, [{"text": "a", "concept": "x", "n": 1}], "if 'concept' is the label, say --label-column concept")


def test_a_concept_column_makes_several(path: Path) -> None:
    rows = [{"text": f"{name} {label}", "label": label, "concept": name} for name in "ab" for label in (1, 0)]
    concepts = read_concepts(write(path, rows))
    assert {name: examples.positive for name, examples in concepts.items()} == {"a": ("a 1",), "b": ("b 1",)}
    assert [examples.name for examples in concepts.values()] == ["a", "b"]
    with pytest.raises(ExamplesError, match=r"has 2 concepts \('a', 'b'\)"):
        Examples.read(path)
    refused(path, [*rows, {"text": "c", "label": 1, "concept": None}], "line 5: the concept is missing")
    refused(path, rows[:3], "concept 'b', has one label only")


def test_more_than_two_labels_need_a_choice(path: Path) -> None:
    rows = [{"text": f"feeling {name}", "label": name} for name in ("joy", "anger", "fear")]
    refused(path, rows, r"has 3 labels \('joy', 'anger', 'fear'\)")
    refused(path, rows, "give one of the two", positive="joy", each_class=True)
    (joy,) = read_concepts(path, positive="joy").items()
    assert (joy[0], joy[1].labels.tolist()) == ("joy", [True, False, False])
    every = read_concepts(path, each_class=True)
    assert [(name, examples.labels.tolist().index(True)) for name, examples in every.items()] == [
        ("joy", 0),
        ("anger", 1),
        ("fear", 2),
    ]


def test_two_concepts_never_share_a_name(path: Path) -> None:
    pairs = [("a", "b-c"), ("a", "d"), ("a-b", "c"), ("a-b", "e")]
    rows = [{"text": f"text {row}", "concept": one, "label": other} for row, (one, other) in enumerate(pairs * 2)]
    refused(path, rows, "two concepts are called 'a-b-c'; rename", each_class=True)


@pytest.mark.parametrize("empty", ["", "  \n", None, float("nan")])
def test_an_empty_text_says_where(path: Path, empty: Any) -> None:
    refused(path, [{"text": "a", "label": 1}, {"text": empty, "label": 0}], "line 2: the text is empty")


def test_what_is_wrong_with_rows_is_one_line(path: Path) -> None:
    good, bad = {"text": "good", "label": 1}, {"text": "bad", "label": 0}
    refused(path, [good, {"text": 3, "label": 0}], "line 2: the text is of type int, not a string")
    refused(path, [good, {"text": "\ud800", "label": 0}], "line 2: character 1 is half a surrogate pair")
    refused(path, [good, {"text": "worse", "label": 1}], "has one label only, '1'")
    refused(path, [good, bad, {"text": "Good!", "label": 0}], "line 3 has the text of line 1 .* and the other label")
    twice = [{"text": "good", "label": 0}, {"text": "bad", "label": 1}]
    refused(path, [good, bad, *twice], "remove one of them, and of 1 more such texts")
    refused(path, [good | {"pair": "p"}, bad], "pair 'p' has no negative row; add it, or call the column 'group'")
    refused(path, [good | {"split": "holdout"}, bad], "line 1: 'holdout' is no split; write train")
    refused(path, [good | {"span_start": 0}, bad], "has no column 'span_end'")
    refused(path, [good | {"span_start": 2, "span_end": 9}, bad], "line 1: span 2 to 9 is not in the text of 4")
    refused(path, [good | {"span_start": "a", "span_end": 9}, bad], "line 1: span_start and span_end are counts")
    refused(path, [good | {"span_start": 1, "span_end": None}, bad], "line 1: span_start and span_end are counts")


def test_one_text_may_differ_by_span(path: Path) -> None:
    rows = [
        {"text": "good and bad", "label": 1, "span_start": 0, "span_end": 4},
        {"text": "good and bad", "label": 0, "span_start": 9, "span_end": 12},
    ]
    examples = Examples.read(write(path, rows))
    assert examples.units == ("text goodandbad", "text goodandbad")


def test_repeated_texts_are_said(path: Path) -> None:
    rows = [{"text": "good", "label": 1}, {"text": "Good.", "label": 1}, {"text": "bad", "label": 0}]
    examples = Examples.read(write(path, rows))
    assert examples.notes == (f"{path}: rows that repeat an earlier text, and count as one with it: 1",)
    assert len(examples) == 3


def test_chats_are_examples_too(path: Path) -> None:
    other = [CHAT[0], {"role": "assistant", "content": "Dreadful."}]
    for column in ("messages", "text"):
        examples = Examples.read(write(path, [{column: CHAT, "label": 1}, {column: other, "label": 0}]))
        assert examples.kind == "chat"
        assert examples.texts == ("How was it?\nLovely.", "How was it?\nDreadful.")
    assert len(set(Examples.from_lists([CHAT], [other], paired=True).pairs or ())) == 1
    for wrong, message in [
        ("text", "not a chat"),
        ([], "not a chat"),
        (["text"], "a message is"),
        ([{"role": "me", "content": "x"}], "no role 'me'"),
        ([{"role": "user", "content": ""}], "the text is empty"),
        ([{"role": "user"}], "a message is"),
    ]:
        refused(path, [{"text": CHAT, "label": 1}, {"text": wrong, "label": 0}], f"line 2: {message}")


def test_lists_are_paired_only_when_told() -> None:
    assert Examples.from_lists(["a", "b"], ["c", "d", "e"]).pairs is None
    paired = Examples.from_lists(["a", "b"], ["c", "d"], paired=True, name="letters")
    assert (paired.inputs, paired.name) == (("a", "c", "b", "d"), "letters")
    turned = Examples.from_lists(["b", "a"], ["d", "c"], paired=True)
    assert turned.pairs == (*(paired.pairs or ())[2:], *(paired.pairs or ())[:2])  # by content, not by place
    with pytest.raises(ExamplesError, match="2 positives and 1 negatives make no pairs"):
        Examples.from_lists(["a", "b"], ["c"], paired=True)
    with pytest.raises(ExamplesError, match="a text was given where a list of texts is expected"):
        Examples.from_lists("good", ["bad"])
    with pytest.raises(ExamplesError, match="has no negative examples"):
        Examples.from_lists(["a"], [])
    with pytest.raises(ExamplesError, match="negative 2: the text is empty"):
        Examples.from_lists(["a"], ["b", ""])


def test_templates_give_pairs_grouped_by_suffix() -> None:
    personas = [("Be kind.", "Be cruel."), ("You are gentle.", "You are harsh.")]
    examples = Examples.from_templates(personas, ["The sea {persona}", "A door"])
    assert examples.inputs[:4] == (
        "Be kind. The sea {persona}",
        "Be cruel. The sea {persona}",
        "You are gentle. The sea {persona}",
        "You are harsh. The sea {persona}",
    )
    assert examples.pairs is not None
    assert examples.groups is not None
    assert [examples.pairs.count(pair) for pair in dict.fromkeys(examples.pairs)] == [2, 2, 2, 2]
    assert [examples.groups.count(group) for group in dict.fromkeys(examples.groups)] == [4, 4]
    chat = [{"role": "user", "content": "{persona}"}, {"role": "assistant", "content": "{suffix}"}]
    as_chat = Examples.from_templates(personas[:1], ["A door"], template=chat)
    assert as_chat.inputs[0][1] == {"role": "assistant", "content": "A door"}
    with pytest.raises(ExamplesError, match="give personas as pairs"):
        Examples.from_templates(["Be kind."], ["A door"])  # type: ignore[list-item]


def test_data_sets_are_read_as_files_are() -> None:
    import datasets
    import pandas as pd

    columns = {"sentence": ["a", "b", "c"], "label": [1, 0, 1]}
    for data in (datasets.Dataset.from_dict(columns), pd.DataFrame(columns), columns):
        examples = Examples.from_dataset(data, text_column="sentence", name="letters")
        assert (examples.inputs, examples.labels.tolist(), examples.name) == (
            ("a", "b", "c"),
            [True, False, True],
            "letters",
        )
    with pytest.raises(ExamplesError, match="letters, row 2: the text is empty"):
        Examples.from_dataset({"text": ["a", None], "label": [1, 0]}, name="letters")


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ExamplesError, match="1 groups for 4 inputs; give one for each input"):
        many(4, groups=("a",))
    with pytest.raises(ExamplesError, match="3 labels for 2 inputs"):
        Examples(("a", "b"), np.array([True, False, True]))


def test_labels_of_any_type_are_taken() -> None:
    for labels in (["yes", "no"], [1, 0], [[0, 1], [1, 0]]):
        assert Examples(("a", "b"), labels).labels.tolist() == [True, False]  # type: ignore[arg-type]


def test_a_subset_keeps_rows_whole() -> None:
    examples = many(6, groups=tuple("aabbcc"), extra={"source": tuple("uvwxyz")})
    part = examples.subset(np.array([4, 0]))
    assert (part.inputs, part.labels.tolist()) == (("text 4", "text 0"), [True, True])
    assert (part.groups, part.extra, part.pairs) == (("c", "a"), {"source": ("y", "u")}, None)


def test_the_digest_is_of_content_and_order() -> None:
    examples = many(6)
    assert examples.digest == many(6, name="other", extra={"source": tuple("uvwxyz")}).digest
    different = [
        many(7),
        many(6, groups=("a",) * 6),
        many(6, splits=("train",) * 6),
        examples.subset([1, 0, 2, 3, 4, 5]),
    ]
    assert len({examples.digest, *(other.digest for other in different)}) == 5


@given(st.permutations(range(6)))
@settings(max_examples=20)
def test_the_digest_of_rows_is_of_what_they_are_whatever_their_order(order: list[int]) -> None:
    examples = many(6)
    assert examples.digest_of(order) == examples.digest_of(range(6))
    assert examples.subset(order).digest_of(range(6)) == examples.digest_of(range(6))
    assert examples.digest_of(order[1:]) != examples.digest_of(order)
    flipped = Examples(examples.inputs, ~examples.labels)
    assert flipped.digest_of(order) != examples.digest_of(order)


def test_arrays_are_inputs_with_keys_and_digests() -> None:
    series = Examples((np.zeros(3), np.zeros(3), np.ones(3)), np.array([True, True, False]), kind="array")
    assert len(set(series.keys)) == 2
    assert len(series.digest) == 64
    with pytest.raises(ExamplesError, match="inputs of kind array have no text"):
        _ = series.texts


def test_eight_independent_examples_a_class_are_enough() -> None:
    assert require_enough(many(16)) == (8, 8)
    with pytest.raises(ExamplesError, match="7 independent negative examples .* a study needs 8 of each class"):
        require_enough(many(15))
    grouped = many(40, groups=tuple(str(row // 8) for row in range(40)))
    with pytest.raises(ExamplesError, match="5 independent positive examples"):
        require_enough(grouped)
    repeated = Examples(("Yes!", "yes") * 8 + tuple(f"no {i}" for i in range(16)), np.arange(32) < 16)
    with pytest.raises(ExamplesError, match="1 independent positive examples"):
        require_enough(repeated)
    with pytest.raises(ExamplesError, match="row 2: the text is empty"):
        require_enough(Examples(("a", ""), np.array([True, False])))


@pytest.mark.parametrize("name", ["../joy", "/joy", "joy\nful", " joy", "jo\\y", "joy/", "j" * 201, "joy\u202eyoj"])
def test_a_name_that_no_vector_may_have_is_refused_before_a_study(name: str) -> None:
    with pytest.raises(ExamplesError, match="concept's name has .*; rename the file, label or concept"):
        require_enough(many(16, name=name))
