"""Warm is more of a concept and cool is less, wherever a concept is shown."""

import colorsys
import re
from xml.etree import ElementTree

import pytest

from covec import tints
from covec.cli import _colour
from covec.detect._html import coloured
from covec.report import effects, pages
from report.fabricated import study


def hue(red, green, blue):
    return colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)[0] * 360


def test_more_is_orange_and_less_is_blue():
    assert 20 < hue(*tints.MORE) < 45
    assert 200 < hue(*tints.LESS) < 240
    assert (tints.tint(0.4), tints.tint(-0.4)) == (tints.MORE, tints.LESS)


@pytest.mark.parametrize(("score", "expected"), [(1.0, tints.MORE), (-1.0, tints.LESS)])
def test_the_terminal_and_notebooks_agree(score, expected):
    shade = ",".join(map(str, expected))
    assert _colour._fine(score) == f"black on rgb({shade})"
    assert f"rgba({shade},".replace(",", ", ") in coloured("good", score)


def test_the_report_agrees():
    page = pages.page(study()).decode()
    for name, expected in (("more", tints.MORE), ("less", tints.LESS)):
        channels = " ".join(map(str, expected))
        assert f"--cv-{name}: rgb({channels});" in page
        assert f".cv-{name}6 {{ background: rgb({channels} / " in page
    assert page.index("less of the concept") < page.index('class="cv-less6"') < page.index('class="cv-more6"')


def test_the_steering_curve_agrees():
    svg = ElementTree.fromstring(effects.steering_curve(study()))
    marks = [(float(use.get("x")), use.get("style", "")) for use in svg.iter("use")]
    shown = {name: [x for x, style in marks if f"fill:var(--cv-{name})" in style] for name in ("less", "more")}
    assert max(shown["less"]) < min(shown["more"])
    assert len(shown["less"]) == len(shown["more"]) == 4


def test_nothing_else_is_shown_in_either():
    page = pages.page(study()).decode()
    palette = re.findall(r"--cv-([a-z0-9-]+): #([0-9a-f]{6})", page)
    pictures = {name: hue(*bytes.fromhex(code)) for name, code in palette if re.match(r"accent|test|heat", name)}
    assert len(pictures) == 12
    assert not [name for name, angle in pictures.items() if angle < 60 or 190 < angle < 245]
