"""Tables and bars."""

import io
import subprocess
import sys
import time
from pathlib import Path

import pytest

from covec.cli import _progress
from covec.cli._output import show, table, working
from covec.progress import silent


def test_columns_are_aligned():
    text = table(("name", "n"), [("a", 5), ("longer", 123)])
    assert text.splitlines() == ["name      n", "a         5", "longer  123"]


def test_a_document_is_strict_json(capsys):
    show({"x": [1, None, "é"]}, True, lambda: "text")
    assert capsys.readouterr().out.replace("\n", "").replace(" ", "") == '{"x":[1,null,"é"]}'
    with pytest.raises(ValueError, match="JSON"):
        show({"x": float("nan")}, True, lambda: "text")


def test_while_working_prints_go_to_stderr(capsys):
    with working():
        print("noise")
    print("result")
    assert capsys.readouterr() == ("result\n", "noise\n")


def test_no_bars_without_a_terminal():
    assert _progress.bars() is silent
    with silent("work", 3) as bar:
        assert bar.advance(3) is None


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_appear_for_long_work_only(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    bars = _progress.bars()
    with bars("short work", 2) as bar:
        bar.advance()
    assert terminal.getvalue() == ""
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    with bars("long work", 2) as bar, bars("work within", None):
        bar.advance()
        deadline = time.monotonic() + 10
        while bars.visible < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "long work" in terminal.getvalue()
    assert (bars.display, bars.visible) == (None, 0)


@pytest.mark.parametrize("where", [">&-", "> /dev/full"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk needs Linux's /dev/full")
def test_a_result_that_cannot_be_printed_is_told_in_one_line(where):
    program = "from covec.cli import main; main(['systems', '--json'])"
    command = ["sh", "-c", f'"$0" -c "$1" {where}', sys.executable, program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: the result cannot be printed")
    assert ended.stderr.count("\n") == 1
