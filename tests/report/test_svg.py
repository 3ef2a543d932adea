"""Figures as inline SVG that is harmless on a page and follows its colours."""

import re
from xml.etree import ElementTree

import pytest

from covec.report.svg import PALETTE, colour, drawing, inline, name_below


def drawn(text="AUROC", titles=None):
    with drawing(120) as (figure, (axis,)):
        axis.plot([0, 1, 2], [0.5, 0.7, 0.6], color=colour("accent"), gid="line", marker="o")
        axis.fill_between([0, 1, 2], 0, [0.5, 0.7, 0.6], color=colour("chance"), alpha=0.2)
        name_below(axis, text)
        return inline(figure, f"about {text}", titles)


def test_colours_are_variables_of_the_page():
    svg = drawn()
    assert set(re.findall(r"var\(--cv-([a-z0-9-]+)\)", svg)) >= {"accent", "chance", "muted", "rule"}
    assert "#0000" not in svg.replace("#000000", "")


@pytest.mark.parametrize("name", PALETTE)
def test_no_two_variables_share_a_sentinel(name):
    assert [other for other in PALETTE if colour(other) == colour(name)] == [name]


def test_nothing_reaches_out_of_the_figure():
    root = ElementTree.fromstring(drawn())
    assert not [
        element.tag for element in root.iter() if element.tag.rpartition("}")[2] in ("style", "script", "metadata")
    ]
    assert "font-family" not in drawn()
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    used = re.findall(r'(?:url\(#|href="#)([^)"]+)', drawn())
    assert set(ids) == set(used)
    assert len(set(ids)) == len(ids)


def test_two_figures_share_no_id():
    one, other = drawn("one"), drawn("other")
    assert not set(re.findall(r'id="([^"]+)"', one)) & set(re.findall(r'id="([^"]+)"', other))


def test_the_same_figure_is_the_same_bytes():
    assert drawn() == drawn()


def test_text_is_text_and_never_mathematics_or_markup():
    hostile = '$\\frac{a}{b}$ <script>x</script> & "quoted"'
    root = ElementTree.fromstring(drawn(hostile, {"line": hostile}))
    assert hostile in [element.text for element in root.iter("text")]
    assert root.get("aria-label") == f"about {hostile}"
    assert [element.text for element in root.iter("title")] == [hostile]
