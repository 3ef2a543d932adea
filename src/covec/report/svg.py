"""Matplotlib figures as inline SVG that follows the page: text stays text, colours are the page's CSS variables.

A figure is drawn in sentinel colours (`colour("accent")`), one for each variable of the page's palette. `inline` puts
the variables in their place, so that one picture serves light and dark, and takes out all that a page does not need:
Matplotlib's own style sheet (it would act on the whole page), ids, font names, excess digits.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PALETTE = (
    *("ink", "muted", "rule", "surface", "accent", "test", "more", "less", "other", "chance"),
    *(f"heat-{step}" for step in range(10)),
)
WIDTH = 360  # of every figure, in CSS pixels: a phone shows it as it is, a desktop two beside each other
FONT = 11

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "covec",  # the same figure, the same bytes
    "text.parse_math": False,
    "path.simplify": False,
    "axes.unicode_minus": True,
}


def colour(name: str) -> str:
    """The sentinel that stands for the CSS variable `--cv-name`."""
    return f"#{PALETTE.index(name) + 1:06x}"


@contextmanager
def drawing(
    height: float, rows: tuple[float, ...] = (1.0,), left: float = 44, top: float = 24
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A new figure of `height` pixels with one plain axes a row of relative height; `left` and `top` are margins."""
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
        grid = {"left": left / WIDTH, "right": 1 - 12 / WIDTH, "top": 1 - top / height, "bottom": 38 / height}
        axes = figure.subplots(len(rows), height_ratios=rows, squeeze=False, gridspec_kw={**grid, "hspace": 0.3})[:, 0]
        for axis in axes:
            _plain(axis)
        yield figure, list(axes)


def name_above(axis: Axes, name: str) -> None:
    """Write what the upright axis shows above it, where numbers of any length leave it room."""
    axis.set_title(name, loc="left", fontsize=FONT, color=colour("muted"), pad=7)


def name_below(axis: Axes, name: str) -> None:
    """Write what the level axis shows below it."""
    axis.set_xlabel(name, color=colour("muted"), fontsize=FONT)


def _plain(axis: Axes) -> None:
    """No frame, no ticks; quiet horizontal lines."""
    axis.set_facecolor("none")
    axis.spines[:].set_visible(False)
    axis.grid(axis="y", color=colour("rule"), linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(length=0, labelsize=FONT, labelcolor=colour("muted"), pad=4)


def inline(figure: Figure, label: str, titles: Mapping[str, str] | None = None) -> Markup:
    """The figure as an `<svg>` element.

    Parameters
    ----------
    figure
        Drawn in sentinel colours.
    label
        What it shows, in a sentence, for those who cannot see it.
    titles
        Text that appears over an artist, by the artist's gid.
    """
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    root = ElementTree.fromstring(drawn.getvalue())
    prefix = "cv" + hashlib.sha256(drawn.getvalue().encode()).hexdigest()[:8]
    _set_titles(root, titles or {})
    _rename_ids(root, prefix)
    for element in root.iter():
        _tidy(element)
    _flatten(root)
    root.attrib = {"viewBox": root.attrib["viewBox"], "class": "cv-plot", "role": "img", "aria-label": label}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _set_titles(root: ElementTree.Element, titles: Mapping[str, str]) -> None:
    for group in root.iter(f"{_SVG}g"):
        if (text := titles.get(group.get("id", ""))) is not None:
            title = ElementTree.Element("title")
            title.text = text
            group.insert(0, title)


def _rename_ids(root: ElementTree.Element, prefix: str) -> None:
    """Keep the ids that something points to, under names that no other figure of the page has."""
    names: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        return found[1] + names.setdefault(found[2], f"{prefix}-{len(names)}")

    for element in root.iter():
        for key in (_HREF, "clip-path"):
            if key in element.attrib:
                element.set(key, re.sub(r"(#)([^)]+)", renamed, element.attrib[key]))
    for element in root.iter():
        if (name := element.attrib.pop("id", None)) in names:
            element.set("id", names[name])


def _tidy(element: ElementTree.Element) -> None:
    element.tag = element.tag.removeprefix(_SVG)
    attributes = element.attrib
    if _HREF in attributes:
        attributes["href"] = attributes.pop(_HREF)
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    for key in ("d", "x", "y", "width", "height", "transform"):
        if key in attributes:
            attributes[key] = re.sub(r"\s+", " ", re.sub(r"-?\d+\.\d+", _short, attributes[key])).strip()
    if "style" in attributes:
        kept = (part.strip() for part in re.sub(r"#0000([0-9a-f]{2})", _variable, attributes["style"]).split(";"))
        attributes["style"] = ";".join(re.sub(r": ", ":", part) for part in kept if not part.startswith("font-family"))
    if element.tag != "text" and element.tag != "title":
        element.text = None
    element.tail = None


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _variable(sentinel: re.Match[str]) -> str:
    index = int(sentinel[1], 16) - 1
    return f"var(--cv-{PALETTE[index]})" if 0 <= index < len(PALETTE) else sentinel[0]


def _flatten(parent: ElementTree.Element) -> None:
    """Drop groups that say nothing, empty definitions, and the style sheet; titles move into what they name."""
    children: list[ElementTree.Element] = []
    for child in list(parent):
        _flatten(child)
        if child.tag in ("style", "metadata") or (child.tag in ("defs", "g") and not len(child)):
            continue
        bare = child.tag == "g" and not child.attrib
        if bare and len(child) == 2 and child[0].tag == "title":
            child[1].insert(0, child[0])
            children.append(child[1])
        elif bare and not any(inner.tag == "title" for inner in child):
            children.extend(child)
        else:
            children.append(child)
    parent[:] = children
