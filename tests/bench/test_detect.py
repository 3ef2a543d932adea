"""The detection bench: its rows are what one gets by hand, and a run that was stopped goes on where it was."""

import json

import numpy as np
import pytest

from covec import bench
from covec.activations.sentences import SentenceEncoder
from covec.bench import _run
from covec.bench._subject import Trial
from covec.bench.result import CHOSEN, Row
from covec.detect._aggregator import aggregators
from covec.errors import CovecError, ExamplesError, FileError, ModelError
from covec.find import fit_together
from covec.find.mean_difference import MeanDifference
from covec.statistics.auroc import auroc, f1
from covec.statistics.figure import Figure

BASELINES = {"bag-of-words", "sentence-embeddings"}
VECTORS = {"mean-difference", "ridge", "random-direction", "wrong-concept"}


def keyed(rows):
    return {(row.concept, row.method, row.aggregator): row for row in rows}


def outcome(row):
    """What a row says, but for what it cost."""
    return {name: value for name, value in row.to_json().items() if name not in ("seconds", "memory")}


def test_every_finder_meets_every_aggregator_beside_controls_and_baselines(done, concepts):
    found = set(keyed(done.rows))
    wanted = {(name, method, one) for name in concepts for method in VECTORS for one in aggregators()}
    assert found == wanted | {(name, method, "") for name in concepts for method in BASELINES}
    assert "prompting" in " ".join(done.notes), "the tiny model reads too little for a question"


@pytest.mark.parametrize("aggregator", ["mean", "last"])
def test_a_row_is_what_one_gets_by_hand(done, concepts, small_model, aggregator):
    name, examples = next(iter(concepts.items()))
    row = keyed(done.rows)[name, "mean-difference", aggregator]
    trial = Trial.of(examples, 0)
    fitted = small_model.capture(
        [examples.inputs[one] for one in trial.train], row.site, row.position,
        spans=[examples.spans[one] for one in trial.train],
    )[row.site]  # fmt: skip
    labels = examples.labels[trial.train]
    fits = fit_together(
        {"": MeanDifference()}, fitted[None], labels, groups=[examples.units[one] for one in trial.train]
    )
    read = small_model.capture([examples.inputs[one] for one in trial.test], row.site, aggregator)[row.site]
    scores = fits[""].score(read[None])[0]
    truth = examples.labels[trial.test]
    assert row.auroc.value == pytest.approx(auroc(scores, truth), abs=1e-6)
    assert row.f1.value == f1(row.decisions.astype(float), truth, 0.5)
    called = np.sort(scores[row.decisions])
    assert not len(called) or (scores[~row.decisions] < called[0]).all(), "what fires scores above what does not"


def test_the_cell_is_the_best_on_validation(run, done):
    for site in ("resid.1", "resid.2"):
        alone = keyed(run(sites=site).rows)
        for key, row in keyed(done.rows).items():
            assert row.validation[0] >= alone[key].validation[0] - 1e-12


def test_adding_a_finder_adds_rows_and_runs_no_other_again(run, tmp_path):
    first = run(finders="mean-difference", out=tmp_path)
    both = run(finders="mean-difference,ridge", out=tmp_path)
    assert first.reused == 0
    assert both.reused == len(first.rows)
    assert set(keyed(both.rows)) - set(keyed(first.rows)) == {
        (name, "ridge", one) for name in both.concepts for one in aggregators()
    }
    assert all(keyed(both.rows)[key] == row for key, row in keyed(first.rows).items())


def test_what_was_stopped_goes_on_to_the_same_rows(run, done, tmp_path, monkeypatch):
    seen = []

    def stop(subject, name, scorer):
        seen.append(name)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return whole(subject, name, scorer)

    whole = _run.texts.row_of
    monkeypatch.setattr(_run.texts, "row_of", stop)
    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path)
    monkeypatch.setattr(_run.texts, "row_of", whole)
    after = run(out=tmp_path)
    assert 0 < after.reused < len(after.rows)
    assert [outcome(row) for row in after.rows] == [outcome(row) for row in done.rows]


def test_nothing_is_captured_where_all_is_there(run, tmp_path, monkeypatch):
    first = run(out=tmp_path)
    monkeypatch.setattr(_run, "captured", lambda *_, **__: pytest.fail("the model was run again"))
    again = run(out=tmp_path)
    assert again.rows == first.rows
    assert again.reused == len(first.rows)


@pytest.mark.parametrize("change", [{"seed": 1}, {"sites": "resid.1"}, {"position": "last"}])
def test_another_bench_takes_no_rows_of_this_one(run, tmp_path, change):
    run(finders="mean-difference", out=tmp_path)
    assert run(finders="mean-difference", out=tmp_path, **change).reused == 0


def test_a_damaged_file_is_run_again(run, tmp_path):
    first = run(finders="mean-difference", out=tmp_path)
    damaged, other = sorted((tmp_path / "rows").rglob("mean-difference.json"))
    damaged.write_text(damaged.read_text()[:-20])
    document = json.loads(other.read_text())
    document["rows"][0]["auroc"]["low"] = 2
    other.write_text(json.dumps(document))
    again = run(finders="mean-difference", out=tmp_path)
    assert again.reused == len(first.rows) - 2 * len(aggregators())
    assert [outcome(row) for row in again.rows] == [outcome(row) for row in first.rows]


def test_one_concept_alone_has_no_wrong_one_and_no_critical_difference(run, concepts):
    name = next(iter(concepts))
    alone = run(concepts={name: concepts[name]}, finders="mean-difference")
    assert "wrong-concept" not in alone.methods
    assert all(ranking.ranks.critical_difference is None for ranking in alone.rankings)


def test_the_paired_differences_are_of_the_same_rows(done):
    chosen = [one for one in done.differences if one.finder == CHOSEN]
    assert {one.rival for one in chosen} == set(aggregators()) - {"super-activators"}
    for one in chosen:
        gaps = [
            done.aggregators["super-activators"][place].f1.value - done.aggregators[one.rival][place].f1.value
            for place in range(len(done.concepts))
        ]
        assert one.overall.value == pytest.approx(np.mean(gaps))
        assert [figure.value for figure in one.concepts.values()] == pytest.approx(gaps)
        assert one.overall.low <= one.overall.value <= one.overall.high


def test_rows_are_read_back_as_they_were_written(done):
    for row in done.rows:
        assert Row.from_json(json.loads(json.dumps(row.to_json()))) == row


def test_costs_and_stability_are_told(done):
    for row in done.rows:
        assert row.seconds >= 0
        assert row.memory is None or row.memory >= 0
        assert (row.stability is None) == (row.kind != "finder")
        assert isinstance(row.f1, Figure)
        assert row.f1.null == pytest.approx(2 / 3)


def test_what_is_written_can_be_read(done, tmp_path):
    import pyarrow.parquet as pq

    done.write(tmp_path / "bench")
    table = pq.read_table(tmp_path / "bench" / "bench.parquet").to_pylist()
    assert len(table) == len(done.rows)
    assert table[0]["auroc"] == done.rows[0].auroc.value
    document = json.loads((tmp_path / "bench" / "bench.json").read_text())
    assert len(document["methods"]) == len(done.summaries)


def test_a_model_of_language_is_asked_and_an_easy_concept_is_found(smol, monkeypatch):
    def missing():
        raise ModelError("no model of sentences")

    monkeypatch.setattr(_run.texts, "SentenceEncoder", lambda *given: own(*given) if given else missing())
    own = SentenceEncoder
    whole = bench.packaged()["animals"]
    few = whole.subset([row for row in range(len(whole)) if row // 2 % 18 == 0])
    found = bench.detect(smol, {"animals": few}, sites="resid.12", finders="mean-difference", position="span/mean")
    rows = keyed(found.rows)
    assert ("animals", "prompting", "") in rows
    assert rows["animals", "mean-difference", "max"].auroc.value > 0.9
    assert any("smollm2-135m's last states" in note for note in found.notes)


def test_bad_input_is_told_in_one_line_before_any_work(run, concepts, tmp_path, monkeypatch):
    monkeypatch.setattr(_run, "captured", lambda *_, **__: pytest.fail("the model was run"))
    name, whole = next(iter(concepts.items()))
    few = whole.subset(range(8))
    taken = tmp_path / "file"
    taken.write_text("")
    for kind, options in (
        (CovecError, {"finders": "no-such-finder"}),
        (CovecError, {"sites": "resid.99"}),
        (CovecError, {"position": "content/none"}),
        (ExamplesError, {"concepts": {}}),
        (ExamplesError, {"concepts": {name: few}}),
        (FileError, {"out": taken}),
    ):
        with pytest.raises(kind) as caught:
            run(**options)
        assert "\n" not in str(caught.value)
