"""Tables from a path: one file, a folder with `positive.txt` and `negative.txt`, or a folder of several concepts."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from covec.concepts._tables import ENDINGS, Table, decode, read_bytes, read_table
from covec.errors import ExamplesError

_CLASSES = ("positive", "negative")


def tables(path: Path, text_column: str | None = None, label_column: str | None = None) -> list[Table]:
    """One table a concept, in the order of their names.

    Raises
    ------
    ExamplesError
        There is nothing at `path` that holds examples.
    """
    if not os.path.isdir(path):
        return [read_table(path, text_column, label_column)]
    try:
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise ExamplesError(f"cannot read {path}: {error.strerror}; check that you may open the folder") from None
    names = {entry.name for entry in entries}
    if names & {f"{name}.txt" for name in _CLASSES}:
        return [_two_lists(path)]
    found: list[Table] = []
    skipped: list[str] = []
    for entry in entries:
        if entry.is_dir() and (entry / "positive.txt").exists():
            found.append(_two_lists(entry))
        elif entry.suffix.lower() in ENDINGS:
            found.append(read_table(entry, text_column, label_column))
        else:
            skipped.append(entry.name)
    if not found:
        has = ", ".join(sorted(names)[:6]) or "nothing"
        wanted = f"positive.txt and negative.txt, or a file a concept ({', '.join(ENDINGS)})"
        raise ExamplesError(f"folder {path} has no examples: it has {has}; it needs {wanted}")
    if skipped:
        note = f"{path}: skipped, as no examples: {', '.join(map(repr, skipped))}"
        found[0] = replace(found[0], notes=(note, *found[0].notes))
    return found


def _two_lists(folder: Path) -> Table:
    texts: list[str] = []
    labels: list[bool] = []
    places: list[str] = []
    for name in _CLASSES:
        path = folder / f"{name}.txt"
        lines = decode(path, read_bytes(path)).replace("\r\n", "\n").split("\n")
        kept = [(number + 1, line.strip()) for number, line in enumerate(lines) if line.strip()]
        texts += [line for _, line in kept]
        labels += [name == "positive"] * len(kept)
        places += [f"{path}, line {number}" for number, _ in kept]
    return Table(folder.resolve().name, str(folder), {"text": texts, "label": labels}, places)
