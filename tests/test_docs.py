"""The documentation: the site builds without a warning and fetches nothing, and the pages say what the code says."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

import covec
from covec.cli import schemas
from covec.concepts import examples
from covec.detect import Detection
from covec.studies.result import VERDICTS

ROOT = Path(__file__).parents[1]
DOCS, SOURCE = ROOT / "docs", ROOT / "src" / "covec"
HOLE = "\0"  # where a text is filled in


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("docs") / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(
        build, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_in_the_site(site):
    pages = [page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")]
    assert not [page for page in pages if not (site / page).is_file()]


def test_the_site_fetches_nothing(site):
    fetched = re.compile(r"<(?:link|script|img|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>")
    found = {tag for page in site.rglob("*.html") for tag in fetched.findall(page.read_text(encoding="utf-8"))}
    assert not found


def told():
    """Every text in the source, with what is filled in left open."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


ERRORS = re.findall(r"^### `(.*)`$", (DOCS / "errors.md").read_text(encoding="utf-8"), re.M)


def test_every_error_that_is_explained_is_one_that_there_is():
    texts = set(told())
    found = {message: re.compile(".*".join(map(re.escape, message.split("..."))), re.S) for message in ERRORS}
    assert not [message for message, pattern in found.items() if not any(map(pattern.search, texts))]
    assert len(ERRORS) > 30


def test_every_table_is_as_the_code_has_it(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    tables = importlib.import_module("tables")
    stale = [page.name for page in DOCS.rglob("*.md") if tables.written(text := page.read_text("utf-8")) != text]
    assert not stale, "run `make docs`"


def test_the_reference_has_every_public_name():
    listed = re.findall(r"^::: covec\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted(set(covec.__all__) - {"__version__"})


def choices(command, key):
    """Every value that the schema of a command allows somewhere for `key`."""

    def found(part):
        for name, value in part.items() if isinstance(part, dict) else ():
            if name == key and "enum" in value:
                yield from value["enum"]
            yield from found(value)
        for value in part if isinstance(part, list) else ():
            yield from found(value)

    return set(found(schemas.load(command)))


@pytest.mark.parametrize(
    ("page", "header", "there_are"),
    [
        ("docs/trust.md", "verdict", set(VERDICTS)),
        ("README.md", "verdict", set(VERDICTS)),
        ("docs/measure.md", "verdict", choices("study", "verdict") - set(VERDICTS)),
        ("docs/catalog.md", "status", choices("systems", "status")),
        ("docs/detect.md", "field", {field.name for field in fields(Detection)} - {"text", "concept"}),
    ],
)
def test_a_table_written_by_hand_has_what_there_is(page, header, there_are):
    rows = re.search(rf"^\| {header} \|.*\n\| --- .*\n((?:\|.*\n)+)", (ROOT / page).read_text(encoding="utf-8"), re.M)[
        1
    ]
    told = [name for row in rows.splitlines() for name in re.findall(r"`([\w -]+)`", row.split("|")[1])]
    assert set(told) == there_are


def test_columns_of_examples_are_those_that_are_read():
    page = (DOCS / "study.md").read_text(encoding="utf-8")
    assert not [name for name in examples._USED if f"`{name}`" not in page]


def test_every_command_of_make_is_told_and_those_that_are_told_are_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split())
    assert phony == set(re.findall(r"^([a-z-]+):.*## ", makefile, re.M))
    pages = "\n".join(page.read_text(encoding="utf-8") for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
    assert set(re.findall(r"(?:^\$ |`)make ([a-z-]+)", pages, re.M)) <= phony


def test_the_citation_is_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = dict(re.findall(r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M))
    assert (citation["title"], citation["version"], citation["license"]) == (
        project["name"], project["version"], project["license"]
    )  # fmt: skip
