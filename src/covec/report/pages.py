"""Reports as one HTML file each, and the fragments that notebooks show."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from covec import tints
from covec.concepts.vector import ConceptVector
from covec.report import provenance, sweep, tables, tokens, words
from covec.report.cosines import matrices
from covec.report.view import Detail, Pictures, View
from covec.studies.result import Studies, Study
from covec.writing import whole_file

LIMIT = 2_000_000  # bytes of a report

# The first that keeps a report within the limit is taken.
DETAILS = (
    Detail(cells=2000, texts=16, tokens=400, prompts=6),
    Detail(cells=120, texts=8, tokens=160, prompts=3),
    Detail(cells=20, texts=4, tokens=60, prompts=1),
    Detail(cells=20, texts=2, tokens=40, prompts=1, plots=False),
    Detail(cells=0, texts=0, tokens=0, prompts=0, plots=False),
)

_FILTERS: tuple[Callable[..., Any], ...] = (
    words.number, words.value, words.interval, words.upper, words.null, words.chance, words.strength, words.place,
    words.reading, words.measured, words.use, words.brief, words.summed_up, words.chosen, words.text_score,
    words.probability, tables.bars, tables.label, tables.missed, tables.rank, tables.shortened,
)  # fmt: skip


def write_study(study: Study | Studies, path: str | Path) -> None:
    """Write the report of one or several studies to `path`, whole or not at all.

    Raises
    ------
    FileError
        `path` cannot be written.
    """
    with whole_file(path) as draft:
        draft.write_bytes(page(study))


def page(study: Study | Studies) -> bytes:
    """The report as one HTML document of less than 2 MB that fetches nothing and runs no script but its own."""
    several = study if isinstance(study, Studies) else None
    pictures = _pictures(study)
    written = b""
    for detail in DETAILS:
        text = (
            environment()
            .get_template("page.html")
            .render(
                views=_views(pictures, detail),
                studies=several,
                matrices=[] if several is None else matrices(several.cosines),
                shortened=detail is not DETAILS[0],
                script_digest=digest("script.js"),
            )
        )
        written = text.encode("utf-8", "xmlcharrefreplace")  # a lone surrogate has no bytes
        if len(written) < LIMIT:
            break
    return written


def study_fragment(study: Study | Studies) -> str:
    """What a notebook shows of a study: verdict, key numbers, layer curve."""
    return environment().get_template("fragment.html").render(views=_views(_pictures(study), DETAILS[0]))


def vector_fragment(vector: ConceptVector) -> str:
    """What a notebook shows of a concept vector: where it is, how good it is, where it comes from."""
    return environment().get_template("vector.html").render(vector=vector, facts=provenance.facts(vector))


def _pictures(study: Study | Studies) -> list[Pictures]:
    return [Pictures(one) for one in (study.values() if isinstance(study, Studies) else [study])]


def _views(pictures: list[Pictures], detail: Detail) -> list[View]:
    return [View(one, detail, f"concept-{index}") for index, one in enumerate(pictures)]


@cache
def environment() -> Environment:
    """Templates with every value escaped: texts, names and options come from anywhere."""
    environment = Environment(
        loader=PackageLoader("covec.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({function.__name__: function for function in _FILTERS})
    environment.globals.update(token_levels=tokens.LEVELS, heat_levels=sweep.LEVELS, tints=tints)
    return environment


@cache
def digest(name: str) -> str:
    """The digest by which the page's policy lets its one script run, and no other."""
    source = environment().get_template(name).render()
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
