"""Tokens coloured by their score."""

import pytest

from covec.cli import _colour
from covec.detect import Detection, TokenScore

FOUND = Detection(
    "So warm.",
    "warmth",
    0.8,
    0.9,
    True,
    (TokenScore("So", 0, 2, None), TokenScore(" warm", 2, 7, 1.2), TokenScore(".", 7, 8, -0.5)),
)


def test_without_a_terminal_the_text_is_plain():
    assert _colour.line(FOUND) == "warmth  +0.80   90%  yes  So warm."


@pytest.mark.parametrize(
    ("system", "warm", "cold"),
    [("truecolor", "48;2;230;125;30m", "48;2;158;190;242m"), ("standard", "43m", "46m")],
)
def test_at_a_terminal_scores_have_colours(monkeypatch, system, warm, cold):
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("rich.console.Console._detect_color_system", lambda _: _system(system))
    line = _colour.line(FOUND)
    assert f"{warm} warm\x1b[0m" in line
    assert f"{cold}.\x1b[0m" in line


def test_a_terminal_is_shown_what_it_would_otherwise_obey():
    text = "clear\x1b[2J \x07\x7f\x9b tab\t\ncaf\u00e9"
    shown = _colour.line(Detection(text, "warmth", 0.8, 0.9, True, (TokenScore("clear\x1b", 0, 6, 1.0),)))
    assert "clear\u241b[2J \u2407\u2421\ufffd tab" in shown
    assert not set("\x1b\x07\x7f\x9b") & set(shown)


def _system(name):
    from rich.console import COLOR_SYSTEMS

    return COLOR_SYSTEMS[name]
