"""Progress as tests need it: one that remembers what it was told, one that stops the work."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext


class Remembered:
    """Keeps what was announced in `told`, and every step in `steps`."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float | None]] = []
        self.steps: list[float] = []

    def __call__(self, description: str, total: float | None = None) -> AbstractContextManager[Remembered]:
        self.told.append((description, total))
        return nullcontext(self)

    def advance(self, n: float = 1) -> None:
        self.steps.append(n)


class Stopping:
    """Interrupts the work after so many units, or kills its process."""

    def __init__(self, after: int, *, kill: bool = False) -> None:
        self.left, self.kill = after, kill

    def __call__(self, description: str, total: float | None = None) -> AbstractContextManager[Stopping]:
        return nullcontext(self)

    def advance(self, n: float = 1) -> None:
        self.left -= int(n)
        if self.left <= 0:
            if self.kill:
                os._exit(9)
            raise KeyboardInterrupt
