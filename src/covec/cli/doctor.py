"""`covec doctor`: the engine's laws, run on the user's own model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from covec.cli import _options as options
from covec.cli._loading import load
from covec.cli._output import show, working
from covec.cli._progress import bars

if TYPE_CHECKING:
    from covec.checks.doctor import Diagnosis


_WIDE = 160  # characters, where stdout is no terminal: a line a check


def doctor(
    model: options.Model = options.DEFAULT_MODEL,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    json: options.Json = False,
) -> None:
    """Run the engine's laws on a model: does covec read and edit it rightly?"""
    with working():
        import covec

        found = covec.doctor(load(model, device=device, dtype=dtype), progress=bars())
    show(found.to_json(), json, lambda: _table(found))
    if not found.passed:
        raise typer.Exit(1)


def _table(found: Diagnosis) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("check", "", "what was found", box=box.SIMPLE_HEAD, title=found.headline, title_justify="left")
    for check in found.checks:
        outcome = Text("passed", "green") if check.passed else Text("FAILED", "bold red")
        table.add_row(check.name, outcome, Text(check.detail))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()).strip("\n")
