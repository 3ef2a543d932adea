"""The bench of steering: rows are what one gets by hand, doses are equal, and a stopped run goes on where it was."""

import json
import math

import numpy as np
import pytest

from covec.bench import steering
from covec.bench.steering import _judge as judging
from covec.bench.steering._ways import _shuffled, ways
from covec.bench.steering.result import Comparison, Row, SteeringBench
from covec.edits.divergence import Drift
from covec.errors import CovecError, ExamplesError, FileError
from covec.statistics.figure import Figure

PROMPTS = ("The meeting was", "My brother said", "In the kitchen", "The old clock", "At the end of")
DOSES = (0.05, 0.2)
NULLS = {"shuffled-labels", "wrong-concept", "random-direction"}


def encode(texts):
    import torch

    rows = torch.tensor([[len(text), text.count("e"), text.count("a"), 1.0] for text in texts])
    return torch.nn.functional.normalize(rows, dim=1)


@pytest.fixture(scope="module")
def bench(small_model, concepts, tmp_path_factory):
    def run(**options):
        given = {"methods": ["style-vectors"], "doses": DOSES, "prompts": PROMPTS, "max_new_tokens": 4, **options}
        return steering.steer(small_model, concepts, encode=encode, **given)

    run.folder = tmp_path_factory.mktemp("bench") / "out"
    return run


@pytest.fixture(scope="module")
def done(bench):
    return bench(out=bench.folder)


def test_every_way_has_a_row_a_concept_and_dose(done, concepts):
    assert set(done.methods) == {"unsteered", "style-vectors", "addition", *NULLS, "prompting"}
    assert all("few-shot-prompting" in note for note in done.notes), "the tiny model reads too little for examples"
    assert done.notes
    for concept in concepts:
        for method, kind in done.methods.items():
            wanted = [row.wanted for row in done.curve(concept, method)]
            assert wanted == (list(DOSES) if kind in ("method", "null") else [None])


def test_doses_are_equal_and_texts_are_what_the_edits_write(done, small_model, concepts):
    name = next(iter(concepts))
    subject = steering._subject.subjects(small_model, concepts, 0, 0)[name]
    (addition,) = (way for way in ways([], True) if way.name == "addition")
    family = addition.learn(subject)
    for row in done.curve(name, "addition"):
        assert row.nats == pytest.approx(row.wanted, rel=0.1)
        texts = small_model.generate(list(PROMPTS), edits=[family(row.strength)] * len(PROMPTS), max_new_tokens=4)
        assert list(row.texts) == texts
        drift = Drift(small_model, judging.neutral_texts()[:16])
        assert drift.value(family(row.strength)) == pytest.approx(row.nats, rel=1e-3)


def test_the_unsteered_text_is_no_strain(done):
    for row in done.rows:
        if row.method == "unsteered":
            assert row.strain == pytest.approx([1.0] * len(PROMPTS), abs=1e-5)
            assert (row.fluency <= 1).all()


def test_the_score_is_the_harmonic_mean_text_by_text(done):
    row = done.rows[3]
    parts = [np.array(row.presence), row.fluency, np.array(row.relevance)]
    for place, score in enumerate(row.scores):
        own = [float(part[place]) for part in parts]
        assert score == pytest.approx(0 if 0 in own else 3 / sum(1 / one for one in own))


def test_a_stopped_run_goes_on_and_a_finished_one_is_not_run_again(done, bench, monkeypatch):
    again = bench(out=bench.folder)
    assert again.reused == len(done.rows)
    assert [row.to_json() for row in again.rows] == [row.to_json() for row in done.rows]
    next((bench.folder / "rows").rglob("addition.json")).write_text("{")
    mended = bench(out=bench.folder)
    assert mended.reused == len(done.rows) - len(DOSES)


def test_it_writes_a_page_a_document_and_a_table(done, tmp_path):
    import pyarrow.parquet as pq

    done.write(tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "bench.parquet")
    assert table.num_rows == len(done.rows) * len(PROMPTS)
    assert json.loads((tmp_path / "out" / "bench.json").read_text())["bench"] == "steer"
    page = (tmp_path / "out" / "bench.html").read_text()
    assert page.count("<svg") == 1 + 2 * len(done.concepts)
    assert "http" not in page.replace("http-equiv", "")


def test_a_method_that_cannot_learn_a_concept_is_skipped_and_told(small_model, concepts):
    found = steering.steer(
        small_model, concepts, methods=["scav"], doses=(0.1,), prompts=PROMPTS, max_new_tokens=2, encode=encode
    )
    skipped = [note for note in found.notes if "scav" in note]
    assert len(skipped) + len({row.concept for row in found.rows if row.method == "scav"}) >= len(concepts)


def test_bad_input_is_refused_before_any_work(bench, tmp_path):
    for options, words in (
        ({"methods": ["none-such"]}, "none-such"),
        ({"doses": ()}, "doses"),
        ({"doses": (0.1, math.nan)}, "doses"),
        ({"doses": (0.0,)}, "doses"),
    ):
        with pytest.raises(CovecError, match=words):
            bench(**options)
    with pytest.raises(ExamplesError, match="prompts"):
        bench(prompts=PROMPTS[:2])
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError):
        bench(out=tmp_path / "file")


def test_repetition_and_relevance_in_exact_cases():
    assert judging.repetition("a b c d") == 0
    assert judging.repetition("a b c a b c") == pytest.approx(1 / 4)
    assert judging.repetition("") == 0
    prompts, texts = np.eye(3), np.array([[1.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    assert judging.relevance(texts, prompts, [0, 1]) == pytest.approx([1.0, 0.5])
    assert judging.relevance(texts, prompts, [2, 1])[0] == 0


def test_shuffled_labels_swap_half_of_the_pairs():
    labels, pairs = np.tile([True, False], 10), np.repeat(np.arange(10), 2)
    found = _shuffled(labels, pairs, 0)
    assert (found != labels).sum() == 10
    assert all(found[2 * pair] != found[2 * pair + 1] for pair in range(10))
    assert _shuffled(labels, None, 0).sum() == 10


def test_questions_have_endings_that_differ_from_their_first_token_on(smol):
    for opening, *endings in judging.questions():
        first = {smol.tokenizer(f" {one}", add_special_tokens=False).input_ids[0] for one in endings}
        assert len(first) == 4, opening


def row(method, kind, wanted, presence):
    count = len(presence)
    return Row(
        "c", method, kind, wanted, wanted, wanted, tuple(presence), {}, (1.0,) * count, (0.0,) * count,
        (1.0,) * count, 1.0, ("text",) * count, 0.0,
    )  # fmt: skip


def test_what_is_chosen_on_one_half_is_judged_on_the_other():
    rows = (
        row("unsteered", "plain", None, [0.1] * 4),
        row("addition", "method", 0.1, [0.9, 0.2, 0.9, 0.2]),
        row("addition", "method", 0.3, [0.3, 0.8, 0.3, 0.8]),
        row("shuffled-labels", "null", 0.1, [0.1] * 4),
        row("shuffled-labels", "null", 0.3, [0.2] * 4),
    )
    made = SteeringBench({}, ("a", "b", "c", "d"), rows, {"doses": [0.1, 0.3]}, (), 0.0, 0)
    assert made.crossed(made.curve("c", "addition"), "presence") == pytest.approx([0.3, 0.2, 0.3, 0.2])
    (overall, one) = made.comparisons
    assert (overall.concept, one.concept) == ("", "c")
    assert overall.presence.value == pytest.approx(np.mean([0.3 - 0.2, 0.2 - 0.1]))


def test_a_verdict_says_which_side_of_zero_the_interval_is():
    def verdict(low, high):
        figure = Figure((low + high) / 2, low, high)
        return Comparison("prompting", "", figure, figure).verdict

    assert [verdict(0.1, 0.2), verdict(-0.2, -0.1), verdict(-0.1, 0.1)] == ["better", "worse", "no different"]
