"""Progress bars on stderr: only at a terminal, and only for work that takes over two seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock, Timer
from typing import TYPE_CHECKING

from covec.progress import Bar, Progress, silent

if TYPE_CHECKING:
    from rich.progress import Progress as Display
    from rich.progress import ProgressColumn, Task, TaskID

PATIENCE = 2.0  # seconds


def bars() -> Progress:
    """The progress that a command passes to the library."""
    return _Bars() if sys.stderr.isatty() else silent


class _Bars:
    """Bars one below the other in one display, which exists while a bar is visible."""

    def __init__(self) -> None:
        self.display: Display | None = None
        self.visible = 0
        self.lock = RLock()

    @contextmanager
    def __call__(self, description: str, total: float | None = None) -> Iterator[Bar]:
        bar = _Bar(self, description, total)
        timer = Timer(PATIENCE, bar.show)
        timer.daemon = True
        timer.start()
        try:
            yield bar
        finally:
            timer.cancel()
            bar.close()

    def add(self, description: str, total: float | None, done: float) -> TaskID:
        if self.display is None:
            from rich.console import Console
            from rich.progress import Progress as Display

            columns = (*Display.get_default_columns(), _rate())
            self.display = Display(*columns, console=Console(stderr=True), transient=True)
            self.display.start()
        self.visible += 1
        return self.display.add_task(description, total=total, completed=int(done))

    def remove(self, task: TaskID) -> None:
        if self.display is None:
            return
        self.display.remove_task(task)
        self.visible -= 1
        if not self.visible:
            self.display.stop()
            self.display = None


def _rate() -> ProgressColumn:
    """A column that says how many units a second are done."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.1f}/s" if task.speed else "", style="progress.data.speed")

    return Rate()


class _Bar:
    def __init__(self, bars: _Bars, description: str, total: float | None) -> None:
        self.bars, self.description, self.total = bars, description, total
        self.done, self.closed = 0.0, False
        self.task: TaskID | None = None

    def show(self) -> None:
        with self.bars.lock:
            if not self.closed:
                self.task = self.bars.add(self.description, self.total, self.done)

    def advance(self, n: float = 1) -> None:
        with self.bars.lock:
            self.done += n
            if self.task is not None and self.bars.display is not None:
                self.bars.display.update(self.task, completed=self.done)

    def close(self) -> None:
        with self.bars.lock:
            self.closed = True
            if self.task is not None:
                self.bars.remove(self.task)
