"""`covec demo`: study, scores, steered texts and where the report lies, in this order."""

import pytest

import covec
from covec.cli import _options, demo


class FakeStudy:
    """A study that found the vector of the tests."""

    def __init__(self, best):
        self.best = best

    def write(self, folder):
        (folder / "report.html").write_text("a report")

    def __str__(self):
        return "verdict: found"


@pytest.fixture
def found(model, vector, monkeypatch):
    monkeypatch.setattr(_options, "DEFAULT_MODEL", "tiny")
    monkeypatch.setitem(vars(covec), "study", lambda model, examples, progress: FakeStudy(vector))
    monkeypatch.setitem(vars(covec), "Study", FakeStudy)


def test_the_demo_tells_the_whole_story(run, found, tmp_path):
    ran = run("demo", "--out", tmp_path / "demo")
    assert ran.code == 0
    story = ["1. Find", "verdict: found", "2. See", *demo.TEXTS, "3. Steer", "4. Read on", "report.html"]
    places = [ran.out.index(words) for words in story]
    assert places == sorted(places)
    assert ran.out.count("\n-3.0  ") == ran.out.count("\n+3.0  ") == len(demo.PROMPTS)
    assert (tmp_path / "demo" / "report.html").read_text() == "a report"


def test_an_unwritable_place_is_refused(run, found, tmp_path):
    (tmp_path / "file").write_text("")
    ran = run("demo", "--out", tmp_path / "file")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
