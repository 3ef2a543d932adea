"""The page of a bench: whole, self-contained, and with every number it should have."""

from __future__ import annotations

import re

import numpy as np
import pytest

from covec.bench.result import DetectionBench, Row
from covec.report import bench as report
from covec.report import words
from covec.statistics.figure import Figure
from pages import Text

CONCEPTS = ("food", "<script>alert(1)</script>", "times")
ROWS = 30


def made(concepts=CONCEPTS) -> DetectionBench:
    rng = np.random.default_rng(0)
    labels = np.arange(ROWS) % 2 == 0

    def row(concept, method, kind, aggregator="") -> Row:
        value = float(rng.uniform(0.5, 1))
        fires = np.where(rng.random(ROWS) < value, labels, ~labels)
        place = {"site": "resid.3", "position": "last/none"} if aggregator else {}
        return Row(
            concept, method, kind, Figure(value, value - 0.05, min(1, value + 0.05), 0.5, ROWS),
            Figure(value, null=0.67), (value, value), 0.5, None if kind == "text" else 3.2,
            "".join("01"[int(one)] for one in fires), aggregator, **place,
            stability=Figure(0.7, null=0.1) if kind == "finder" else None,
        )  # fmt: skip

    rows = [
        row(concept, method, kind, aggregator)
        for concept in concepts
        for method, kind in (("ridge", "finder"), ("mean-difference", "finder"), ("random-direction", "control"))
        for aggregator in ("last", "max", "mean", "super-activators")
    ]
    rows += [row(concept, "bag-of-words", "text") for concept in concepts]
    model = {"name": "tiny<b>", "architecture": "X", "blocks": 4, "width": 32, "dtype": "float32"}
    sizes = {name: {"train": 60, "validation": 20, "test": ROWS} for name in concepts}
    settings = {"sites": ["resid.3"], "positions": ["last/none"], "seed": 0, "versions": {"covec": "1"}}
    return DetectionBench(model, tuple(rows), dict.fromkeys(concepts, (labels, None)), sizes, settings, ("a note",))


@pytest.fixture(scope="module")
def page() -> str:
    return report.page(made()).decode()


def test_it_is_whole_and_fetches_nothing(page):
    reader = Text()
    reader.feed(page)
    assert not reader.open
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page)
    assert "default-src 'none'" in page


def test_what_users_named_is_text(page):
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "tiny&lt;b&gt;" in page


def test_every_method_stands_on_it_with_its_rank_and_the_critical_difference(page):
    bench = made()
    for one in bench.summaries:
        assert f"<td>{one.method}</td><td>{one.aggregator}</td>" in page
    assert page.count("Critical difference") == 2
    assert "SuperActivators against the other aggregators" in page
    for gain in bench.differences:
        assert f"<td>{gain.finder}</td>" in page
        assert f">less {gain.rival}</th>" in page
        assert words.interval(gain.overall) in page


def test_one_concept_alone_says_that_it_tells_no_differences():
    page = report.page(made(("food",))).decode()
    assert "One concept says nothing of differences" in page


def test_it_is_written_whole(tmp_path):
    report.write_bench(made(), tmp_path / "bench.html")
    assert (tmp_path / "bench.html").read_bytes() == report.page(made())
