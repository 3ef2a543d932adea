"""Corpora: every format reads alike, a killed run goes on, and nothing else is mixed in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from filelock import FileLock

from covec.concepts.vector import ConceptVector
from covec.detect import _corpus, detect_file
from covec.errors import CovecError, ExamplesError, FileError, ModelError
from covec.models.text import TextModel
from covec.progress import silent
from progresses import Stopping
from tiny import tiny_model

TEXTS = [f"{'water ' * (row % 4)}boils, at {row} degrees" for row in range(25)]


def jsonl(path: Path, texts: list[Any] = TEXTS, column: str = "text") -> Path:
    path.write_text("".join(json.dumps({"n": 1, column: text}) + "\n" for text in texts), encoding="utf-8")
    return path


def table(path: Path, **options: Any) -> Path:
    frame = pd.DataFrame({"n": 1, "text": TEXTS})
    {".csv": frame.to_csv, ".tsv": lambda p, **_: frame.to_csv(p, sep="\t", index=False), ".parquet": frame.to_parquet}[
        path.suffix
    ](path, index=False)
    return path


WRITERS: dict[str, Callable[[Path], Path]] = {
    "a.jsonl": jsonl,
    "a.csv": table,
    "a.tsv": table,
    "a.parquet": table,
    "a.txt": lambda path: (path.write_text("\n".join([*TEXTS, "", ""]), encoding="utf-8"), path)[1],
}


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_corpus, "SHARD_ROWS", 4)


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_what_detect_gives(
    llama: TextModel, seven: ConceptVector, other: ConceptVector, tmp_path: Path, name: str
) -> None:
    vectors = [replace(seven, aggregator="max", calibration=(4.0, 0.0)), other]
    out = tmp_path / "made" / "out.parquet"
    done = detect_file(llama, vectors, WRITERS[name](tmp_path / name), out)
    found = pd.read_parquet(out)
    expected = llama.detect(vectors, TEXTS)
    assert found["row"].tolist() == [row for row in range(25) for _ in range(2)]
    assert found["concept"].tolist() == ["seven", "other"] * 25
    assert found["text"].tolist() == [text for text in TEXTS for _ in range(2)]
    assert found["score"].tolist() == pytest.approx([one.score for one in expected], abs=1e-3)
    assert found["fires"].tolist() == [one.fires for one in expected]
    assert found["probability"].isna().tolist() == [False, True] * 25
    assert done.rows == 25
    assert done.fires == {name: int(found["fires"][found["concept"] == name].sum()) for name in ("seven", "other")}
    assert sorted(path.name for path in out.parent.iterdir()) == ["out.parquet"]


def test_the_highest_content_token_is_named(llama: TextModel, seven: ConceptVector, tmp_path: Path) -> None:
    detect_file(llama, seven, jsonl(tmp_path / "a.jsonl"), tmp_path / "o.parquet", keep_text=False)
    found = pd.read_parquet(tmp_path / "o.parquet")
    assert "text" not in found
    row = found.loc[17]
    assert (row["token"], TEXTS[17][row["start"] : row["end"]]) == ("7", "7")
    assert row["token_score"] == pytest.approx(0.5, abs=1e-4)


def interrupted(after: int, *arguments: Any) -> None:
    """A run that is killed in a process of its own, as by a power cut."""
    child = os.fork()
    if not child:
        detect_file(*arguments, progress=Stopping(after, kill=True))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_killed_run_goes_on_and_ends_like_an_uninterrupted_one(
    llama: TextModel, seven: ConceptVector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, out = jsonl(tmp_path / "a.jsonl"), tmp_path / "o.parquet"
    detect_file(llama, seven, corpus, tmp_path / "whole.parquet")
    interrupted(9, llama, seven, corpus, out)
    assert not out.exists()
    with pytest.raises(KeyboardInterrupt):
        detect_file(llama, seven, corpus, out, progress=Stopping(18))
    read: list[str] = []
    tokenize = TextModel.tokenize
    monkeypatch.setattr(
        TextModel, "tokenize", lambda self, given, **o: (read.extend(given), tokenize(self, given, **o))[1]
    )
    done = detect_file(llama, seven, corpus, out)
    assert done.resumed == 20
    assert read == TEXTS[20:]
    assert done.rows == 25
    pd.testing.assert_frame_equal(pd.read_parquet(out), pd.read_parquet(tmp_path / "whole.parquet"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "o.parquet", "whole.parquet"]


def test_a_run_goes_on_with_nothing_else(llama: TextModel, seven: ConceptVector, tmp_path: Path) -> None:
    corpus, out = jsonl(tmp_path / "a.jsonl"), tmp_path / "o.parquet"
    with pytest.raises(KeyboardInterrupt):
        detect_file(llama, seven, corpus, out, progress=Stopping(5))
    stranger = TextModel(*tiny_model("llama", seed=1))
    with pytest.raises(FileError, match="the vectors changed"):
        detect_file(llama, replace(seven, threshold=0.1), corpus, out)
    with pytest.raises(FileError, match="the model changed"):
        detect_file(stranger, seven, corpus, out, force=True)
    with pytest.raises(FileError, match="the choice of columns changed"):
        detect_file(llama, seven, corpus, out, keep_text=False)
    jsonl(corpus, [*TEXTS[:-1], "another"])
    with pytest.raises(FileError, match="the corpus changed"):
        detect_file(llama, seven, corpus, out)
    jsonl(corpus)
    next(iter(sorted((tmp_path / "o.parquet.parts").glob("*.parquet")))).unlink()
    with pytest.raises(FileError, match="lacks the shard that begins with row 0"):
        detect_file(llama, seven, corpus, out)
    assert not out.exists()


def test_a_run_goes_on_with_the_same_template(llama: TextModel, seven: ConceptVector, tmp_path: Path) -> None:
    corpus, out = jsonl(tmp_path / "a.jsonl"), tmp_path / "o.parquet"
    with pytest.raises(KeyboardInterrupt):
        detect_file(llama, seven, corpus, out, progress=Stopping(5))
    network, tokenizer = tiny_model("llama")
    tokenizer.chat_template = "{% for message in messages %}<{{ message.content }}>{% endfor %}"
    with pytest.raises(FileError, match="the tokenizer changed"):
        detect_file(TextModel(network, tokenizer), seven, corpus, out, force=True)


def test_edits_are_not_mixed_into_a_corpus(llama: TextModel, seven: ConceptVector, tmp_path: Path) -> None:
    """A run that is taken up again outside of the scope would go on as another model."""
    with llama.edit(seven.add(5)), pytest.raises(ModelError, match="edits are in force"):
        detect_file(llama, seven, jsonl(tmp_path / "a.jsonl"), tmp_path / "o.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


def test_a_corpus_that_grows_while_it_is_read_is_refused(
    llama: TextModel, seven: ConceptVector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = jsonl(tmp_path / "a.jsonl")
    tokenize = TextModel.tokenize

    def growing(self: TextModel, given: Any, **options: Any) -> Any:
        jsonl(path, [*TEXTS, "another"])
        return tokenize(self, given, **options)

    monkeypatch.setattr(TextModel, "tokenize", growing)
    with pytest.raises(ExamplesError, match="changed while it was read"):
        detect_file(llama, seven, path, tmp_path / "o.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


@pytest.mark.parametrize("fault", ["another's", "misplaced", "damaged", "cut"])
def test_a_part_that_is_not_its_own_is_refused(
    llama: TextModel, seven: ConceptVector, tmp_path: Path, fault: str
) -> None:
    corpus, outs = jsonl(tmp_path / "a.jsonl"), (tmp_path / "o.parquet", tmp_path / "other.parquet")
    for out, vector in zip(outs, (seven, replace(seven, threshold=0.1)), strict=True):
        with pytest.raises(KeyboardInterrupt):
            detect_file(llama, vector, corpus, out, progress=Stopping(11))
    own, others = (sorted(Path(f"{out}.parts").glob("*.parquet")) for out in outs)
    data = bytearray({"another's": others[0], "misplaced": own[1]}.get(fault, own[0]).read_bytes())
    data[20] ^= fault == "damaged"
    own[0].write_bytes(data[:-9] if fault == "cut" else data)
    with pytest.raises(FileError, match="begin anew") as told:
        detect_file(llama, seven, corpus, outs[0])
    assert "\n" not in str(told.value)
    assert not outs[0].exists()


def test_what_a_corpus_to_mend_takes_back_is_its_own(llama: TextModel, seven: ConceptVector, tmp_path: Path) -> None:
    """Others may have written beside it since, into a folder that this run made."""
    corpus = jsonl(tmp_path / "a.jsonl", ["a", "a b " * 200])

    def beside(*_: Any) -> Any:
        (tmp_path / "made").mkdir(exist_ok=True)
        (tmp_path / "made" / "beside").write_text("done")
        return silent("")

    with pytest.raises(ExamplesError):
        detect_file(llama, seven, corpus, tmp_path / "made" / "o.parquet", progress=beside)
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["beside"]


def test_two_runs_at_once_are_refused(llama: TextModel, seven: ConceptVector, tmp_path: Path) -> None:
    parts = tmp_path / "o.parquet.parts"
    parts.mkdir()
    with FileLock(parts / "lock"), pytest.raises(FileError, match="another run"):
        detect_file(llama, seven, jsonl(tmp_path / "a.jsonl"), tmp_path / "o.parquet")


def test_long_texts_make_small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_corpus, "SHARD_CHARACTERS", 10)
    placed = [(f"line {number}", text) for number, text in enumerate(("a" * 6, "b" * 6, *"cdefg"), 1)]
    chunks = list(_corpus._chunks(iter(placed), 1))
    assert [list(zip(*chunk, strict=True)) for chunk in chunks] == [placed[1:5], placed[5:]]


BAD: dict[str, tuple[str | bytes, str]] = {
    "empty.jsonl": ("", "no rows"),
    "half.jsonl": ('{"text": "a"}\n{"text": "b', "line 2 is not JSON"),
    "list.jsonl": ("[1]\n", "line 1 is not an object"),
    "column.jsonl": (
        '{"words": "a"}\n',
        "line 1 has no column 'text' or 'messages'; it has 'words'; name one with --text-column",
    ),
    "blank.jsonl": ('{"text": "a"}\n{"text": " "}\n', "line 2: the text is empty"),
    "null.jsonl": ('{"text": null}\n', "line 1: the text is empty"),
    "latin.txt": ("a\nKöln\n".encode("latin-1"), "line 2 is not UTF-8"),
    "zero.txt": (b"a\nb\0c\n", "line 2: a zero byte"),
    "zero.csv": (b"text\na\nb\0c\n", "line 3: a zero byte"),
    "latin.csv": ("text\nKöln\n".encode("latin-1"), "not UTF-8"),
    "ragged.csv": ("text,n\na,1\nb\n", "line 3: 1 fields where the header has 2"),
    "open.csv": ('text\n"a\n', "mend it"),
    "none.csv": ("", "is empty"),
    "cut.parquet": (b"PAR1xxxx", "no Parquet file"),
    "a.docx": ("a", "ending in"),
    "number.jsonl": ('{"text": 3}\n', "give a string"),
    "long.jsonl": (json.dumps({"text": "a b " * 200}) + "\n", "the model reads 128"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_corpora_are_told_in_one_line_and_leave_nothing(
    llama: TextModel, seven: ConceptVector, tmp_path: Path, name: str
) -> None:
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ExamplesError, match=message) as told:
        detect_file(llama, seven, tmp_path / name, tmp_path / "new" / "o.parquet")
    assert "\n" not in str(told.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_places_that_cannot_be_written_or_read_are_refused(
    llama: TextModel, seven: ConceptVector, tmp_path: Path
) -> None:
    corpus = jsonl(tmp_path / "a.jsonl")
    with pytest.raises(FileError, match="is a folder"):
        detect_file(llama, seven, corpus, tmp_path)
    with pytest.raises(FileError, match="cannot write"):
        detect_file(llama, seven, corpus, corpus / "o.parquet")
    with pytest.raises(ExamplesError, match="no file"):
        detect_file(llama, seven, tmp_path / "missing.jsonl", tmp_path / "o.parquet")
    with pytest.raises(ExamplesError, match="no columns"):
        detect_file(llama, seven, WRITERS["a.txt"](tmp_path / "a.txt"), tmp_path / "o.parquet", text_column="text")


def test_other_columns_and_chats_can_be_named(llama: TextModel, other: ConceptVector, tmp_path: Path) -> None:
    chats = [[{"role": "user", "content": text}] for text in TEXTS[:5]]
    detect_file(llama, other, jsonl(tmp_path / "a.jsonl", chats, "messages"), tmp_path / "o.parquet")
    assert pd.read_parquet(tmp_path / "o.parquet")["score"].tolist() == pytest.approx(
        [found.score for found in llama.detect(other, chats)], abs=1e-3
    )
    detect_file(llama, other, jsonl(tmp_path / "b.jsonl", column="words"), tmp_path / "p.parquet", text_column="words")
    assert len(pd.read_parquet(tmp_path / "p.parquet")) == 25
    with pytest.raises(CovecError, match="'title'"):
        detect_file(llama, other, tmp_path / "b.jsonl", tmp_path / "q.parquet", text_column="title")


def test_no_special_token_is_the_highest(llama: TextModel, seven: ConceptVector, tmp_path: Path) -> None:
    """Of a chat the marks of the template may score highest, and say nothing."""
    chats = [[{"role": "user", "content": text}] for text in ("The hotel was clean", "No.", "ice")]
    rows = llama.capture(chats, seven.site, "last")[seven.site].mean(0)  # every chat ends with a mark
    marks = ConceptVector.from_direction("mark", seven.site, rows, rows, -rows, model=llama.describe())
    detect_file(llama, marks, jsonl(tmp_path / "a.jsonl", chats, "messages"), tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert any(
        max(one.tokens, key=lambda token: token.score or 0).token == "<eos>" for one in llama.detect(marks, chats)
    )
    assert not set(found["token"]) & set(llama.tokenizer.all_special_tokens)
