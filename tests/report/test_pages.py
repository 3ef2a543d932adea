"""Reports and fragments as documents."""

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from jinja2 import UndefinedError

from covec.concepts.vector import ConceptVector
from covec.errors import FileError
from covec.measure.used import Used
from covec.report import pages, study_fragment, vector_fragment, write_study
from covec.statistics.figure import Figure
from covec.studies.result import VERDICTS, Illustrations
from report.fabricated import HOSTILE, hostile_studies, hostile_study, studies, study


@pytest.fixture(scope="module")
def one():
    return pages.page(study()).decode()


@pytest.fixture(scope="module")
def several():
    return pages.page(studies(("sentiment", "truth"))).decode()


@pytest.fixture(params=["one", "several"])
def page(request):
    return request.getfixturevalue(request.param)


class Outline(HTMLParser):
    """Tags with their attributes, headings, ids and links of a document."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.headings, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_data(self, data):
        self.text.append(data)

    def all(self, name):
        return [attrs[name] for _, attrs in self.tags if name in attrs]


def test_a_page_fetches_nothing(page):
    outline = Outline(page)
    assert not {"img", "link", "iframe", "object", "embed", "video", "audio", "base"} & {tag for tag, _ in outline.tags}
    assert not outline.all("src")
    assert all(link.startswith("#") for link in outline.all("href"))
    assert not re.search(r"@import|url\((?!#)", page)


def test_headings_follow_one_another(page):
    headings = Outline(page).headings
    assert headings.count(1) == 1
    assert headings[0] == 1
    assert all(below <= above + 1 for above, below in pairwise(headings))


def test_ids_are_unique_and_links_arrive(page):
    outline = Outline(page)
    ids = [attrs["id"] for tag, attrs in outline.tags if "id" in attrs and tag not in ("path", "clippath")]
    assert len(set(ids)) == len(ids)
    links = [attrs["href"][1:] for tag, attrs in outline.tags if tag == "a"]
    assert links
    assert set(links) <= set(ids)


def test_every_figure_says_what_it_shows(one):
    figures = [attrs for tag, attrs in Outline(one).tags if tag == "svg"]
    assert len(figures) == 7
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in figures)


def test_only_its_own_script_may_run(one):
    (script,) = re.findall(r"<script>(.*?)</script>", one, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in one


def test_the_verdict_comes_first_and_warnings_before_numbers():
    page = pages.page(study(warnings=("the classes differ in length",))).decode()
    order = [
        page.index(part) for part in ("Found, and the model uses it</p>", "the classes differ in length", "Test AUROC")
    ]
    assert order == sorted(order)


def test_the_same_study_is_the_same_page(one):
    assert pages.page(study()).decode() == one


@pytest.mark.parametrize("made", [hostile_study, hostile_studies])
def test_hostile_text_is_text(made):
    page = pages.page(made()).decode()
    outline = Outline(page)
    assert [tag for tag, _ in outline.tags].count("script") == 1
    assert "img" not in [tag for tag, _ in outline.tags]
    assert not [name for _, attrs in outline.tags for name in attrs if name.startswith("on")]
    assert HOSTILE in "".join(outline.text)
    assert "49" not in re.sub(r"<[^>]*>", "", page.partition("<main")[2].partition("lead")[0])


def test_hostile_text_is_text_in_a_notebook():
    for fragment in (study_fragment(hostile_study()), study_fragment(hostile_studies())):
        assert not {"script", "img"} & {tag for tag, _ in Outline(fragment).tags}
        assert HOSTILE in "".join(Outline(fragment).text)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_study_of_which_little_is_known_has_a_page(verdict):
    made = study(
        verdict=verdict,
        regime="nested",
        n={"rows": 30, "positive": 15, "negative": 15},
        p_sweep=None,
        stability=Figure(float("nan")),
        cue=Figure(float("nan")),
        used=Used(why="a quick study"),
        cells=(),
        illustrations=Illustrations(),
        settings={},
    )
    outline = Outline(pages.page(made).decode())
    assert "not tested: a quick study" in "".join(outline.text)
    assert not {"concept-0-where", "concept-0-tokens", "concept-0-steered", "concept-0-tried"} & set(outline.all("id"))


def test_one_report_stays_small(one):
    assert len(one.encode()) < 300_000


@pytest.mark.parametrize("limit", [250_000, 60_000])
def test_what_does_not_fit_is_left_out_and_said(monkeypatch, several, limit):
    assert "Parts are left out" not in several
    monkeypatch.setattr(pages, "LIMIT", limit)
    page = pages.page(studies(("sentiment", "truth")))
    assert len(page) < limit
    assert b"Parts are left out" in page
    assert page.count(b"Found, and the model uses it") >= 2


def test_a_lone_surrogate_can_be_written(tmp_path):
    write_study(study(concept="half \ud83d", cells=(), used=Used()), tmp_path / "report.html")
    assert b"half &#55357;" in (tmp_path / "report.html").read_bytes()


def test_a_report_is_written_whole_or_not_at_all(one, tmp_path):
    path = tmp_path / "out" / "report.html"
    write_study(study(), path)
    assert path.read_text(encoding="utf-8") == one
    with pytest.raises(UndefinedError):
        write_study(None, path)
    assert path.read_text(encoding="utf-8") == one
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(FileError, match="is a folder"):
        write_study(study(), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError):
        write_study(study(), tmp_path / "file" / "report.html")


def test_studies_and_vectors_draw_themselves(one, tmp_path):
    made = study()
    assert made._repr_html_() == study_fragment(made)
    assert made.best._repr_html_() == vector_fragment(made.best)
    made.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == one


def test_a_fragment_brings_its_style_and_nothing_else():
    fragment = study_fragment(study())
    outline = Outline(fragment)
    assert len(fragment) < 40_000
    assert [tag for tag, _ in outline.tags].count("svg") == 1
    classes = " ".join(outline.all("class")).split()
    assert all(name.startswith("cv") for name in classes)
    (style,) = re.findall(r"<style>(.*?)</style>", fragment, re.DOTALL)
    selectors = re.findall(r"^([^@{}\s][^{}]*)\{", style, re.MULTILINE)
    assert selectors
    assert all(".cv" in part for selector in selectors for part in selector.split(","))


def test_a_vector_of_several_sites_has_a_fragment():
    made = study().best
    parts = {f"resid.{block}": made.parts[made.site] for block in range(7)}
    assert "and 3 more" in vector_fragment(ConceptVector("many", parts, method="ridge"))


def test_the_key_names_the_null_only_where_it_is_drawn(one):
    told = "sweeps over shuffled labels"
    assert told in one
    bare = tuple(dataclasses.replace(cell, auroc=Figure(0.8)) for cell in study().cells)
    assert told not in pages.page(study(cells=bare, selected=bare[0])).decode()


def test_no_line_of_the_shell_recipe_is_broken_inside_an_option(one):
    assert "--concept sentiment \\\n  --prompt" in one


def test_several_concepts_show_p_corrected_for_their_number(one, several):
    assert several.count("Holm 0.0002") == 2
    assert "Holm" not in one
