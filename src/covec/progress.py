"""How long work says how far it is, without knowing who watches.

Library code takes `progress: Progress = silent` and writes::

    with progress("reading activations", total) as bar:
        bar.advance(len(batch))

The command line passes a function that draws bars; everyone else sees nothing.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Bar(Protocol):
    """One piece of work under way."""

    def advance(self, n: float = 1) -> None:
        """Tell that `n` more units are done."""


class Progress(Protocol):
    """Announces a piece of work of `total` units (None where nobody knows)."""

    def __call__(self, description: str, total: float | None = None) -> AbstractContextManager[Bar]: ...


class _SilentBar:
    def advance(self, n: float = 1) -> None:
        pass


def silent(description: str, total: float | None = None) -> AbstractContextManager[Bar]:
    """The progress nobody watches; the default everywhere."""
    return nullcontext(_SilentBar())
