"""`covec detect`: what the Python API says, in one document, one table or one Parquet file."""

import json

import pytest

TEXTS = ("The hotel was clean.", "Water boils at 100 degrees.")


def words(texts=TEXTS):
    return [word for text in texts for word in ("--text", text)]


def test_texts_are_scored_token_by_token(run, model, vector, vector_file):
    results = run("detect", vector_file, "--model", "tiny", *words(), "--json").document["results"]
    assert results == json.loads(json.dumps(model.detect(vector, list(TEXTS)).to_json()))["results"]
    assert [row["text"] for row in results] == list(TEXTS)
    for row in results:
        assert all(row["text"][token["start"] : token["end"]] == token["token"] for token in row["tokens"][1:])


def test_a_bank_is_read_whole_or_by_concept(run, model, bank_file):
    both = run("detect", bank_file, *words(), "--json").document["results"]
    assert [row["concept"] for row in both] == ["warmth", "cold"] * 2
    one = run("detect", bank_file, *words(), "--concept", "cold", "--json").document["results"]
    assert [row["concept"] for row in one] == ["cold"] * 2
    assert [row["score"] for row in one] == pytest.approx([row["score"] for row in both[1::2]], abs=1e-5)


def test_without_json_a_line_a_text(run, model, vector_file):
    lines = run("detect", vector_file, *words()).out.splitlines()
    assert [line.startswith("warmth") and line.endswith(text) for line, text in zip(lines, TEXTS, strict=True)] == [
        True
    ] * 2


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"said": text}) + "\n" for text in TEXTS * 3))
    return path


def test_a_corpus_goes_to_parquet(run, model, bank_file, corpus, tmp_path):
    import pyarrow.parquet as pq

    out = tmp_path / "scores.parquet"
    ran = run("detect", bank_file, "--file", corpus, "--text-column", "said", "--out", out, "--json")
    assert (ran.document["path"], ran.document["rows"], ran.document["resumed"]) == (str(out), 6, 0)
    table = pq.read_table(out).to_pydict()
    assert table["row"] == [row for row in range(6) for _ in range(2)]
    assert sum(table["fires"]) == sum(ran.document["fires"].values())


def test_a_corpus_without_out_is_printed(run, model, vector_file, corpus):
    results = run("detect", vector_file, "--file", corpus, "--text-column", "said", "--json").document["results"]
    assert [row["text"] for row in results] == list(TEXTS * 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--text or a corpus with --file"),
        (["--text", "a", "--file", "b.txt"], "--text or a corpus with --file"),
        (["--text", "a", "--out", "b.parquet"], "--out is for a corpus"),
        (["--text", "a", "--text-column", "b"], "--text-column is for a corpus"),
        (["--file", "missing.txt"], "missing.txt"),
        (["--text", ""], "empty"),
        (["--text", "water " * 200], "128"),
        (["--text", "a", "--batch-tokens", "0"], "--batch-tokens"),
        (["--text", "a", "--concept", "hot"], "no concept 'hot'"),
    ],
)
def test_bad_input_is_one_line(run, model, vector_file, arguments, said):
    ran = run("detect", vector_file, *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


@pytest.mark.parametrize("kept", [True, False])
def test_what_is_wrong_with_a_corpus_is_told_by_its_line(run, model, vector_file, tmp_path, kept):
    corpus, out = tmp_path / "corpus.txt", ["--out", tmp_path / "scores.parquet"] if kept else []
    corpus.write_text(f"short\n\n{'water ' * 200}\n")
    ran = run("detect", vector_file, "--file", corpus, *out)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "corpus.txt, line 3 has " in ran.err
    corpus.write_text("\n")
    assert "corpus.txt has no rows" in run("detect", vector_file, "--file", corpus, *out).err
    wrong = tmp_path / "corpus.csv"
    wrong.write_text("sentence,label\nIt rains.,1\n")
    said = run("detect", vector_file, "--file", wrong, *out).err
    assert said.endswith(
        "has no column 'text' or 'messages'; it has 'sentence', 'label'; name one with --text-column\n"
    )


def test_a_place_that_cannot_be_written_is_refused(run, model, vector_file, corpus, tmp_path):
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "scores.parquet"
    ran = run("detect", vector_file, "--file", corpus, "--text-column", "said", "--out", out)
    assert (ran.code, ran.err.count("\n")) == (2, 1)


def test_a_corpus_is_not_written_over(run, bank_file, corpus):
    for out in (corpus, bank_file):
        before = out.read_bytes()
        ran = run("detect", bank_file, "--file", corpus, "--text-column", "said", "--out", out)
        assert (ran.code, "is what is read" in ran.err) == (2, True)
        assert out.read_bytes() == before


def test_rules_say_what_follows_from_several_vectors(run, bank_file, tmp_path):
    """The proofs of each text stand below its lines, and agree with what its vectors say."""
    rules = tmp_path / "weather.rules"
    rules.write_text("warmth and not cold -> summer\nnot summer -> winter\n")
    ran = run("detect", bank_file, "--text", "a b", "--text", "c d", "--rules", rules, "--json")
    assert [one["text"] for one in ran.document["reasoned"]] == ["a b", "c d"]
    for row, one in enumerate(ran.document["reasoned"]):
        holds = {each["concept"]: each["holds"] for each in one["propositions"]}
        assert holds["summer"] != holds["winter"]
        assert holds["summer"] == (holds["warmth"] and not holds["cold"])
        fires = {each["concept"]: each["fires"] for each in ran.document["results"][2 * row : 2 * row + 2]}
        assert fires == {name: holds[name] for name in fires}
    lines = run("detect", bank_file, "--text", "a b", "--text", "c d", "--rules", rules).out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == 2 * ["warmth", "cold", "summer", "winter"]
    assert run("detect", bank_file, "--text", "a b", "--json").document["reasoned"] == []


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("heat -> summer", "line 1: 'heat' has neither a vector nor a rule"),
        ("a -> b\nb -> a", "rules run in a circle"),
        ("", "there is no rule"),
        ("warmth summer", "expected '->'"),
    ],
)
def test_wrong_rules_are_one_line(run, bank_file, tmp_path, rules, words):
    file = tmp_path / "wrong.rules"
    file.write_text(rules)
    ran = run("detect", bank_file, "--text", "a b", "--rules", file)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err


def test_rules_are_not_for_a_corpus_that_is_written(run, bank_file, tmp_path):
    (tmp_path / "texts.txt").write_text("a b\n")
    out = tmp_path / "scores.parquet"
    ran = run("detect", bank_file, "--file", tmp_path / "texts.txt", "--out", out, "--rules", tmp_path / "texts.txt")
    assert (ran.code, out.exists()) == (2, False)
    assert "--rules are for texts that are printed" in ran.err


def test_scores_are_not_written_under_the_name_of_another_format(run, bank_file, corpus, tmp_path):
    out = tmp_path / "scores.csv"
    ran = run("detect", bank_file, "--file", corpus, "--text-column", "said", "--out", out)
    assert (ran.code, out.exists()) == (2, False)
    assert "--out is written as Parquet, and not as .csv: name it scores.parquet" in ran.err
