"""What a user did wrong, and the mend.

Every error a user can cause derives from `CovecError`, is one line long and says what is wrong, where, and how to mend
it. The command line prints that line and exits with 2; anything else is a fault of covec and keeps its traceback.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import islice

_LONGEST = 600  # characters; an error begins with what is wrong and ends with the mend
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """`text` in one line of bounded length that no terminal, log or encoding takes for anything but text.

    Line breaks become spaces. Other control characters, turns of the reading direction and the bytes of names that are
    no text are written as escapes: what errors quote comes from files and names of others.
    """
    line = _UNSEEN.sub(lambda found: repr(found[0])[1:-1], " ".join(filter(None, map(str.strip, text.splitlines()))))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 205]} ... {line[-200:]}"


def listed(names: Collection[str], most: int = 12) -> str:
    """`names` in quotes, long ones cut, the first `most` of them: for errors that say what there is."""
    shown = (repr(name if len(name) <= 30 else name[:27] + "...") for name in islice(names, most))
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown) + rest


class CovecError(Exception):
    """Base of all errors that a user can mend; one line, whatever it quotes."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class ExamplesError(CovecError, ValueError):
    """The examples cannot be read or do not carry what is asked of them; scikit-learn's tools expect a `ValueError`."""


class UnclearLabelsError(ExamplesError):
    """The labels do not say which of them is the concept."""


class ModelError(CovecError):
    """The model, a site or a position in it cannot be had."""


class FileError(CovecError):
    """A file that covec reads or writes is missing, damaged, foreign or cannot be written."""


class BudgetError(CovecError):
    """The work does not fit the memory or time that was allowed."""
