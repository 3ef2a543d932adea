"""Files in every format, read alike; and every way in which one can be wrong, told in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.activations import corpus
from covec.concepts._tables import Table, read_table, table_of
from covec.concepts.examples import read_concepts
from covec.delimited import DELIMITERS
from covec.errors import ExamplesError

ROWS: list[dict[str, Any]] = [
    {"text": 'She said "yes", twice.', "label": "1"},
    {"text": "a comma, a; semicolon", "label": "0"},
    {"text": "it 's\tnot", "label": "1"},
    {"text": "\u2028 separators\x0b and caf\u00e9", "label": "0"},
]


def delimited(rows: list[dict[str, Any]], delimiter: str) -> str:
    import csv
    import io

    page = io.StringIO(newline="")
    writer = csv.DictWriter(page, fieldnames=list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return page.getvalue()


def write(folder: Path, ending: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"data{ending}"
    if ending == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    elif ending in (".jsonl", ".ndjson"):
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    elif ending == ".json":
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    else:
        path.write_bytes(delimited(rows, "," if ending == ".csv" else "\t").encode())
    return path


@pytest.mark.parametrize("ending", [".jsonl", ".ndjson", ".json", ".csv", ".parquet"])
def test_every_format_gives_the_same_table(tmp_path: Path, ending: str) -> None:
    table = read_table(write(tmp_path, ending, ROWS))
    assert table.columns == {name: [row[name] for row in ROWS] for name in ("text", "label")}
    assert len(table.places) == 4
    assert table.name == "data"


@pytest.mark.parametrize("ending", [".jsonl", ".json"])
@pytest.mark.parametrize("content", ["lines", "list"])
def test_json_is_known_by_its_content(tmp_path: Path, ending: str, content: str) -> None:
    path = write(tmp_path, ".json" if content == "list" else ".jsonl", ROWS).rename(tmp_path / f"other{ending}")
    assert read_table(path).columns["text"] == [row["text"] for row in ROWS]


def test_a_byte_order_mark_and_other_line_ends_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"\xef\xbb\xbftext,label\r\ngood,1\r\n\r\nbad,0\r\n")
    table = read_table(path)
    assert table.columns == {"text": ["good", "bad"], "label": ["1", "0"]}
    assert table.places == [f"{path}, line 2", f"{path}, line 4"]


def test_quotes_in_tabs_are_literal(tmp_path: Path) -> None:
    path = tmp_path / "data.tsv"
    path.write_text('text\tlabel\n"Yes," he said\t1\nso "good"\t1\n"\t0\nleft" open\t0\n', encoding="utf-8")
    assert read_table(path).columns["text"] == ['"Yes," he said', 'so "good"', '"', 'left" open']


def test_tabs_with_proper_quoting_are_unquoted(tmp_path: Path) -> None:
    path = tmp_path / "data.tsv"
    path.write_text('text\tlabel\n"a ""b"" c"\t1\n"two\nlines"\t0\nplain\t1\n', encoding="utf-8")
    table = read_table(path)
    assert table.columns["text"] == ['a "b" c', "two\nlines", "plain"]
    assert table.places[2] == f"{path}, line 5"


@pytest.mark.parametrize("first", ["text", "label"])
def test_two_plain_columns_need_no_header(tmp_path: Path, first: str) -> None:
    path = tmp_path / "data.tsv"
    rows = [("one long string of cliches", "0"), ("it 's a charming", "1"), ('quite "good"', "1")]
    path.write_text("".join("\t".join(row if first == "text" else row[::-1]) + "\n" for row in rows), encoding="utf-8")
    table = read_table(path)
    assert (table.columns["text"], table.columns["label"]) == tuple(map(list, zip(*rows, strict=True)))
    number = 1 if first == "text" else 2
    assert table.notes == (f"{path} has no header: column {number} is read as text, column {3 - number} as label",)


def test_a_header_with_other_names_is_a_header(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("review,sentiment\ngood,pos\nbad,neg\nfine,pos\n", encoding="utf-8")
    assert list(read_table(path).columns) == ["review", "sentiment"]


def test_columns_can_be_numbered(tmp_path: Path) -> None:
    path = tmp_path / "data.tsv"
    path.write_text("good\t3\tx1\nbad\t4,5\tx2\n", encoding="utf-8")
    assert read_table(path, "1", "2").columns == {"1": ["good", "bad"], "2": ["3", "4,5"], "3": ["x1", "x2"]}


def test_another_separator_is_noticed_and_said(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("text;label\ngood, very;1\nbad;0\n", encoding="utf-8")
    table = read_table(path)
    assert table.columns == {"text": ["good, very", "bad"], "label": ["1", "0"]}
    assert "';'" in table.notes[0]


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text("ab\"'\t;, \n", min_size=1).map(lambda text: f"x{text}"), min_size=1, max_size=4),
    ending=st.sampled_from([".csv", ".tsv"]),
    delimiter=st.sampled_from([None, ";"]),
    literal=st.booleans(),
)
def test_a_corpus_and_a_table_are_the_same_texts(tmp_path_factory, texts, ending, delimiter, literal) -> None:
    """Whoever studies a file and then detects in it must look at the same texts."""
    path = tmp_path_factory.mktemp("same") / f"data{ending}"
    if literal:
        texts = [text.replace("\t", " ").replace("\n", " ") for text in texts]
        path.write_text("text\tother\n" + "".join(f"{text}\t1\n" for text in texts), encoding="utf-8", newline="")
    else:
        rows = [{"text": text, "other": 1} for text in texts]
        path.write_bytes(delimited(rows, delimiter or (DELIMITERS[ending])).encode())
    assert outcome(lambda: list(corpus.placed_texts(path))) == outcome(lambda: placed_cells(read_table(path, "text")))


def placed_cells(table: Table) -> list[tuple[str, str]]:
    return list(zip(table.places, table.columns["text"], strict=True))


def outcome(read: Callable[[], Any]) -> Any:
    """What is read, or that nothing is."""
    try:
        return read()
    except ExamplesError:
        return None


@pytest.mark.parametrize("header", ["Text,text,label", "text,Text,label"])
def test_the_exact_name_of_a_column_comes_before_its_other_spellings(tmp_path: Path, header: str) -> None:
    path = tmp_path / "data.csv"
    names = header.split(",")
    path.write_text(header + "\n" + ",".join("right" if name == "text" else "wrong" for name in names) + "\n")
    assert read_table(path).find("text") == "text"
    assert list(corpus.texts(path)) == ["right"]


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_a_corpus_of_pairs_is_what_a_study_of_them_reads(tmp_path: Path, ending: str) -> None:
    rows = [{"positive": f"good {row}", "negative": f"bad {row}", "group": f"g{row}"} for row in range(12)]
    path = write(tmp_path, ending, rows)
    ((_, examples),) = read_concepts(path).items()
    placed = list(corpus.placed_texts(path))
    assert tuple(text for _, text in placed) == examples.inputs
    assert tuple(place for place, _ in placed) == examples.places
    assert list(corpus.texts(path, "negative")) == [row["negative"] for row in rows]


def test_a_column_that_stands_twice_is_refused_by_both_readers(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("text,text,label\na,b,1\n")
    for read in (read_table, lambda path: list(corpus.texts(path))):
        with pytest.raises(ExamplesError, match="two columns called 'text'"):
            read(path)


def test_columns_are_found_whatever_their_case() -> None:
    table = Table("t", "t", {"Text ": ["a"], "LABEL": [1]}, ["t, row 1"])
    assert table.find("text", "messages") == "Text "
    assert table.find("label") == "LABEL"
    assert table.find("group") is None


DAMAGE = [
    b"",
    b'"',
    b",",
    b"\t",
    b"\n",
    b"\r",
    b"{",
    b"]",
    b"NaN",
    b"1e999",
    b"\x00",
    b"\xff",
    b"\\ud800",
    b"text",
    b"-",
]
BROKEN = {
    "missing.csv": (None, "no file .*; check the path"),
    "missing": (None, "no file .*; check the path"),
    "empty.csv": (b"", "is empty"),
    "mark.json": (b"\xef\xbb\xbf", "is empty"),
    "mark.csv": (b"\xef\xbb\xbf\n", "is empty"),
    "blank.jsonl": (b"\n \n", "is empty"),
    "header.csv": (b"text,label\n", "has no rows"),
    "list.json": (b"[]", "has no rows"),
    "image.png": (b"\x89PNG", "does not read files ending in .png; use one of .jsonl"),
    "noending": (b"x", "does not read files without an ending"),
    "texts.txt": (b"good\nbad\n", "does not read files ending in .txt"),
    "latin.csv": ("text,label\nfine,1\ncaf\u00e9,1\n".encode("latin-1"), "line 3: byte 0xe9 is not UTF-8"),
    "utf16.csv": ("text,label\nfine,1\n".encode("utf-16"), "is in UTF-16, not UTF-8"),
    "utf16be.csv": ("text,label\n".encode("utf-16-be"), "line 1: a zero byte"),
    "cut.jsonl": (b'{"text": "a", "label": 1}\n{"text": "b", "la', "cut.jsonl, line 2 is not JSON"),
    "cut.json": (b'[{"text": "a"},\n {"text": "b"', "cut.json, line 2 is not JSON"),
    "cutmark.jsonl": ('{"text": "caf\u00e9'.encode()[:-1], "line 1: byte 0xc3 is not UTF-8"),
    "cut.csv": (b'text,label\n"good",1\n"half a te', "line 3: a quote is opened and not closed"),
    "short.csv": (b"text,label\ngood,1\nbad\n", "line 3: 1 fields where the first row has 2"),
    "wide.tsv": (b"text\tlabel\na\tb\t1\n", "line 2: 3 fields where the first row has 2"),
    "quote.csv": (b'text,label\n"Yes," he said,1\n', "line 2: ',' expected after"),
    "twice.csv": (b"text,label,text\na,1,b\n", "two columns called 'text'"),
    "scalars.json": (b'["a", "b"]', "row 1 is not an object; write rows as"),
    "scalar.jsonl": (b'{"text": "a"}\n3\n', "line 2 is not an object"),
    "pretty.json": (b'{\n "a": 1\n}', "one object over many lines"),
    "deep.json": (b"[" * 200_000, "nested too deeply|is not JSON"),
    "cut.parquet": (b"PAR1\x15\x04", "is no Parquet file, or is cut short"),
    "text.parquet": (b"text,label\ngood,1\n", "is no Parquet file, or is cut short"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, name: str) -> None:
    content, message = BROKEN[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ExamplesError, match=message) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_a_parquet_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path, ".parquet", ROWS).read_bytes()
    path = tmp_path / "cut.parquet"
    for end in range(1, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:end])
        with pytest.raises(ExamplesError, match="cut short"):
            read_table(path)


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".csv", ".tsv", ".parquet"])
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path: Path, ending: str) -> None:
    whole = write(
        tmp_path, ending, [row | {"span_start": 0, "span_end": "1", "pair": None} for row in ROWS]
    ).read_bytes()
    path = tmp_path / f"damaged{ending}"

    @given(st.integers(0, len(whole)), st.integers(0, 30), st.sampled_from(DAMAGE), st.booleans())
    @settings(max_examples=120, database=None)
    def check(start: int, length: int, new: bytes, each_class: bool) -> None:
        path.write_bytes(whole[:start] + new + whole[start + length :])
        problem = ""
        try:
            assert read_concepts(path, each_class=each_class)
        except ExamplesError as error:
            problem = str(error)
        assert "\n" not in problem
        assert not problem or str(path) in problem

    check()


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.stat", refuse)
    with pytest.raises(ExamplesError, match=r"cannot read .*: Permission denied; check"):
        read_table(tmp_path / "data.csv")


def test_tables_in_memory_are_read_alike() -> None:
    import datasets
    import pandas as pd

    columns = {"text": ["a", "b"], "label": [1, 0]}
    frame = pd.DataFrame(columns)
    rows = frame.to_dict("records")
    for data in (columns, frame, rows, datasets.Dataset.from_dict(columns)):
        table = table_of(data, "data")
        assert table.columns == columns
        assert table.places == ["data, row 1", "data, row 2"]


def test_names_of_classes_replace_their_numbers_where_they_say_more() -> None:
    import datasets

    def labels(names: list[str], values: list[int]) -> list[Any]:
        features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
        data = datasets.Dataset.from_dict({"text": ["a"] * len(values), "label": values}, features=features)
        return table_of(data, "data").columns["label"]

    assert labels(["joy", "anger", "fear"], [2, 0]) == ["fear", "joy"]
    assert labels(["negative", "positive"], [1, 0]) == ["positive", "negative"]
    assert labels(["no_hate", "hate"], [1, 0]) == [1, 0]


def test_what_is_no_table_is_refused() -> None:
    import datasets

    with pytest.raises(ExamplesError, match=r"has splits \(train\); pass one of them"):
        table_of(datasets.DatasetDict({"train": datasets.Dataset.from_dict({"text": ["a"]})}), "data")
    for nothing in ("text", 3, ["a"], []):
        with pytest.raises(ExamplesError, match="is no table"):
            table_of(nothing, "data")
    for uneven in ({}, {"text": ["a"], "label": []}, {"text": []}):
        with pytest.raises(ExamplesError, match="no rows, or columns of unequal length"):
            table_of(uneven, "data")
