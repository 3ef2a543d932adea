"""What a concept may be called."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from covec.errors import CovecError

_BREAKS = {"Cc", "Cs", "Zl", "Zp"}  # Unicode categories: control, lone surrogate, line and paragraph separator
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")  # after these, what is shown is not what is there


def name(value: Any) -> str:
    """A concept's name: one line that is harmless as a relative path, should somebody use it as one."""
    if not isinstance(value, str) or not 0 < len(value) <= 200 or value != value.strip():
        raise CovecError(f"a concept's name has 1 to 200 characters, no space at its ends: {str(value)[:50]!r}")
    breaks = not _BREAKS.isdisjoint(map(unicodedata.category, value))
    if breaks or _TURNS.search(value) or "\\" in value or any(step in ("", ".", "..") for step in value.split("/")):
        refused = "line break, turn of direction, backslash, outer or doubled /, or .."
        raise CovecError(f"a concept's name has no {refused}: {value[:50]!r}")
    return value
