"""What a measure is tried on: arguments of which the answer is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Trial:
    """Arguments with which a measure's answer is known, and arguments that it has to refuse.

    Parameters
    ----------
    given
        Its arguments by name.
    wrong
        By what is wrong: the arguments that stand in place of these, and make the whole nothing that can be measured.
    """

    given: Mapping[str, Any]
    wrong: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
