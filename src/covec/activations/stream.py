"""Streams of inputs, read a window at a time: what is kept in memory does not grow with the stream.

A window is as many inputs as keep its rows within a budget, so that inside it identical inputs run once and the rest
is sorted by length. Where windows begin follows from the inputs, the sites and the position alone, not from where a
run was interrupted: a run that goes on reads the same windows, and the same bits come out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int

from covec.activations.capture import read_rows, selected
from covec.activations.corpus import Texts
from covec.activations.rows import Activations
from covec.errors import ExamplesError, FileError, ModelError
from covec.models.batching import TOKEN_BUDGET
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Input, Span, Tokenized, TokenTable
from covec.progress import Bar, Progress, silent

Label = bool | int | str
Labels = Iterable[Label] | Mapping[str, Iterable[Label]]  # one label an input; by name where there are several sets

WINDOW_BYTES = 256 << 20  # of float32 rows, all sites together
WINDOW_TOKENS = 1 << 15  # so that little is lost with a run that is killed
_AT_ONCE = 256  # inputs tokenised at once


@dataclass(frozen=True)
class Window:
    """Consecutive inputs of a stream and what the model shows for them.

    Parameters
    ----------
    inputs
        Indices of its inputs in the stream.
    activations
        Their rows; without sites where the position selects no token of any of them.
    labels
        For every label set one label an input.
    seen
        Digest of the stream from its beginning to the end of this window: inputs, spans and labels.
    read
        Number of tokens of its inputs.
    """

    inputs: Sequence[int]
    activations: Activations
    labels: dict[str, list[Label]]
    seen: str
    read: int

    @property
    def row_labels(self) -> dict[str, np.ndarray]:
        """For every label set one label a row."""
        offsets = self.activations.offsets
        counts = 1 if offsets is None else offsets.diff().numpy()
        return {name: np.repeat(np.asarray(labels), counts) for name, labels in self.labels.items()}

    def take(self, places: Int[np.ndarray, "k"]) -> Window:
        """Some of its inputs alone, by their place in the window."""
        labels = {name: [several[place] for place in places] for name, several in self.labels.items()}
        inputs = [self.inputs[place] for place in places]
        return replace(self, inputs=inputs, activations=self.activations.take(places), labels=labels)


class Done(NamedTuple):
    """What an earlier run has read of a stream: so many inputs of that digest, kept in `place`; whether it was all."""

    inputs: int = 0
    seen: str = hashlib.sha256().hexdigest()
    complete: bool = False
    place: Path = Path()


def stream(
    model: TextModel,
    inputs: Iterable[Input],
    sites: str | Site | Sequence[str | Site],
    position: str | Position,
    *,
    labels: Labels | None = None,
    spans: Iterable[Span | None] | None = None,
    done: Done | None = None,
    batch_tokens: int = TOKEN_BUDGET,
    progress: Progress = silent,
) -> Iterator[Window]:
    """The windows of a stream that follow what is `done`.

    Parameters
    ----------
    inputs
        Texts or chats; any iterable, of which no copy is kept.
    sites, position
        As in `covec.activations.capture.capture`.
    labels
        One label (bool, int or str) an input, or several such label sets by name.
    spans
        Character range of every input, where the position is `span`.

    Raises
    ------
    ExamplesError
        At the first input that cannot be read, and where labels or spans are fewer or more than inputs.
    ModelError
        The position selects nothing in an input that must give a row, or a number overflows.
    FileError
        The stream does not begin with what was done, or goes on after it where that was all.
    """
    addresses, chosen, done = model.select(sites), Position.parse(position), done or Done()
    if isinstance(inputs, str):
        raise ExamplesError("a text was given where a stream of texts is expected; write [text]")
    total = len(inputs) if isinstance(inputs, Sized) else None
    records, digest = _records(inputs, labels, spans), hashlib.sha256()
    with progress(f"reading {'inputs' if total is None else f'{total} inputs'}", total) as bar:
        first = _skip(records, digest, done)
        bar.advance(first)
        width = model.width * 4 * len(addresses)
        for piece, table, rows, read in _pieces(model, records, chosen, WINDOW_BYTES // width):
            for record in piece:
                digest.update(record.content())
            if rows:
                some = read_rows(
                    model, table, addresses, [chosen], batch_tokens=batch_tokens, progress=_Share(bar, len(piece))
                )
                activations = some[chosen]
                _check_finite(activations, piece[0].place, piece[-1].place)
            else:
                activations = Activations(
                    {}, chosen, torch.zeros(len(piece) + 1, dtype=torch.long), torch.zeros(0).long()
                )
                bar.advance(len(piece))
            named = {name: [record.labels[name] for record in piece] for name in piece[0].labels}
            yield Window(range(first, first + len(piece)), activations, named, digest.hexdigest(), read)
            first += len(piece)
    if not first:
        raise ExamplesError("there are no inputs to read; give at least one")


class _Record(NamedTuple):
    """One input and what goes with it."""

    place: str
    input: Input
    span: Span | None
    labels: dict[str, Label]

    def content(self) -> bytes:
        return json.dumps([self.input, self.span, self.labels], default=repr).encode() + b"\n"


_ENDED: Any = object()


def _records(inputs: Iterable[Input], labels: Labels | None, spans: Iterable[Span | None] | None) -> Iterator[_Record]:
    """The inputs with their labels and spans, which must be as many."""
    sets = dict(labels) if isinstance(labels, Mapping) else {} if labels is None else {"": labels}
    placed = inputs.placed() if isinstance(inputs, Texts) else ((f"input {n}", one) for n, one in enumerate(inputs, 1))
    columns: dict[str, Iterable[Any]] = {"inputs": placed} | {f"labels {name}".strip(): sets[name] for name in sets}
    columns |= {} if spans is None else {"spans": spans}
    kinds: dict[str, type] = {}
    for index, row in enumerate(zip_longest(*columns.values(), fillvalue=_ENDED)):
        if _ENDED in row:
            ended = list(columns)[row.index(_ENDED)]
            other = next(name for name, value in zip(columns, row, strict=True) if value is not _ENDED)
            raise ExamplesError(f"the {ended} end after {index}, the {other} go on: give one for each input")
        place, one = row[0]
        marks = dict(zip(sets, (_plain(label, place) for label in row[1 : 1 + len(sets)]), strict=True))
        for name, label in marks.items():
            if type(label) is not kinds.setdefault(name, type(label)):
                own, before = type(label).__name__, kinds[name].__name__
                raise ExamplesError(
                    f"{place} has a label of type {own}, those before {before}: give labels of one type"
                )
        yield _Record(place, one, None if spans is None else row[-1], marks)


def _plain(label: Any, place: str) -> Label:
    """A label as Python's own type; whole numbers are integers, others name no class."""
    label = label.item() if hasattr(label, "item") else label
    label = int(label) if isinstance(label, float) and label.is_integer() else label
    if not isinstance(label, bool | int | str):
        shown = repr(label) if isinstance(label, float) else f"a {type(label).__name__}"
        raise ExamplesError(f"the label of {place} is {shown}: a label is a bool, an integer or a name")
    return label


def _skip(records: Iterator[_Record], digest: Any, done: Done) -> int:
    """Pass over what was done before, and see that it is the same."""
    count = 0
    for record in islice(records, done.inputs):
        digest.update(record.content())
        count += 1
    changed = count < done.inputs or digest.hexdigest() != done.seen
    if changed or (done.complete and next(records, None) is not None):
        what = f"first {done.inputs} inputs" if changed else f"inputs (there were {done.inputs}, now there are more)"
        raise FileError(f"the {what} changed since {done.place} was begun: delete it, or write to another folder")
    return count


def _pieces(
    model: TextModel, records: Iterator[_Record], position: Position, most_rows: int
) -> Iterator[tuple[list[_Record], TokenTable, int, int]]:
    """The inputs of every window: their records, tokens, and the numbers of rows and of tokens that come of them."""
    piece, table, rows, tokens = list[_Record](), TokenTable(), 0, 0
    for record, item in _tokenized(model, records):
        count = selected(position, item.layout, record.place)
        count = count if position.pool == "none" else 1
        if piece and (rows + count > most_rows or tokens + len(item.ids) > WINDOW_TOKENS):
            yield piece, table, rows, tokens
            piece, table, rows, tokens = [], TokenTable(), 0, 0
        piece.append(record)
        table.append(item)
        rows, tokens = rows + count, tokens + len(item.ids)
    if piece:
        yield piece, table, rows, tokens


def _tokenized(model: TextModel, records: Iterator[_Record]) -> Iterator[tuple[_Record, Tokenized]]:
    while some := list(islice(records, _AT_ONCE)):
        places, inputs, spans, _ = zip(*some, strict=True)
        yield from zip(some, model.tokenize(inputs, spans=spans, offsets=False, places=places), strict=True)


def _check_finite(activations: Activations, first: str, last: str) -> None:
    for site, rows in activations.rows.items():
        # A sum is thirty times as fast, and NaN and infinities always show in it.
        if not torch.isfinite(rows.sum()) and not torch.isfinite(rows).all():
            raise ModelError(f"{site} has NaN or infinite numbers, from {first} to {last}: load the model in float32")


@dataclass(frozen=True)
class _Share:
    """The progress of one window as its share of the whole: so many inputs."""

    bar: Bar
    inputs: int

    def __call__(self, description: str, total: float | None = None) -> AbstractContextManager[Bar]:
        return nullcontext(_Part(self.bar, self.inputs / (total or 1)))


@dataclass(frozen=True)
class _Part:
    bar: Bar
    scale: float

    def advance(self, n: float = 1) -> None:
        self.bar.advance(n * self.scale)
