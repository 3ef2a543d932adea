"""An error is one line, whatever it quotes."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covec.errors import CovecError, ExamplesError, FileError, listed, one_line

ANY = st.text(st.characters(codec=None), max_size=2000)


@given(ANY)
def test_any_text_becomes_one_line_that_prints_anywhere(text):
    line = str(CovecError(text))
    assert len(line) <= 600
    assert len(line.splitlines()) <= 1
    line.encode()
    assert line == one_line(line) == str(CovecError(line))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("cannot write a.txt: no room", "cannot write a.txt: no room"),
        ("first\n  second\r\n\u2028third ", "first second third"),
        ("clear\x1b[2J", "clear\\x1b[2J"),
        ("joy\u202etxt.exe", "joy\\u202etxt.exe"),
        ("no text: \udcff", "no text: \\udcff"),
        ("two  spaces, caf\u00e9 \U0001f600", "two  spaces, caf\u00e9 \U0001f600"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text, line):
    assert str(FileError(text)) == line


def test_a_long_line_keeps_what_is_wrong_and_the_mend():
    line = str(ExamplesError("a.csv, line 3: " + "9" * 5000 + "; remove the row"))
    assert line.startswith("a.csv, line 3: 999")
    assert line.endswith("999; remove the row")
    assert len(line) == 600


def test_a_copy_says_the_same():
    error = copy.copy(FileError("no\nfile"))
    assert (type(error), str(error)) == (FileError, "no file")


def test_names_are_listed_in_quotes_and_not_all_of_many():
    assert listed([]) == ""
    assert listed({"a": 1, "b c": 2}) == "'a', 'b c'"
    assert listed(["x" * 40]) == repr("x" * 27 + "...")
    assert listed([str(number) for number in range(20)], 3) == "'0', '1', '2' and 17 more"
