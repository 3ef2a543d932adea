"""Examples: inputs with labels, from files, folders, lists, templates and data sets.

A concept is given by what has it and what lacks it. Everything that can be wrong with examples is told in one line
before any work begins: the file, the row and the mend.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covec.concepts import _checks, _columns
from covec.concepts._folders import tables
from covec.concepts._labels import Labels
from covec.concepts._names import name as check_name
from covec.concepts._tables import Table, table_of
from covec.errors import CovecError, ExamplesError
from covec.statistics.splits import REFUSED_UNDER, independent_groups, units

_PER_ROW = ("groups", "pairs", "spans", "masks", "splits", "places")
_USED = ("text", "messages", "label", "group", "pair", "span_start", "span_end", "split", "concept")
_SLOT = re.compile(r"\{(persona|suffix)\}")


@dataclass(frozen=True, eq=False, repr=False)
class Examples:
    """A concept's positives and negatives; every sequence has one entry an input [n].

    Parameters
    ----------
    inputs
        Texts (`kind="text"`), or chats as lists of `{"role": ..., "content": ...}` (`kind="chat"`).
    labels
        True where the concept is there. Integers, strings, one-hot rows and categories are read as such where their
        names say which class is positive.
    groups, pairs
        Ids of what must not straddle a split; a pair holds positives and negatives that differ in little else.
    spans
        Character ranges `(start, end)` that show the concept.
    splits
        `train`, `validation` or `test`, where the user chose.
    places
        Where each input stands, such as a line of a file, for errors.
    extra
        Further columns.
    notes
        What reading guessed, in sentences to print.
    """

    inputs: tuple[Any, ...]
    labels: NDArray[np.bool_]
    kind: str = "text"
    groups: tuple[str | None, ...] | None = None
    pairs: tuple[str | None, ...] | None = None
    spans: tuple[tuple[int, int] | None, ...] | None = None
    masks: tuple[Any, ...] | None = None
    splits: tuple[str, ...] | None = None
    places: tuple[str, ...] | None = None
    extra: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    name: str = "examples"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in _PER_ROW}
        fields: dict[str, Any] = {name: tuple(column) for name, column in columns.items() if column is not None}
        fields |= {"inputs": tuple(self.inputs), "labels": self.labels}
        if not (isinstance(self.labels, np.ndarray) and self.labels.dtype == bool):
            fields["labels"] = Labels.parse(self.labels).binary(self.name)
        for name, column in {**fields, **self.extra}.items():
            if len(column) != len(fields["inputs"]):
                counts = f"{len(column)} {name} for {len(fields['inputs'])} inputs"
                raise ExamplesError(f"{self.name}: {counts}; give one for each input")
        if self.kind == "text" and fields["inputs"] and isinstance(fields["inputs"][0], list | tuple):
            fields["kind"] = "chat"
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        return f"Examples({self.name!r}, {len(self)} {self.kind}s, {int(self.labels.sum())} positive)"

    @property
    def positive(self) -> tuple[Any, ...]:
        """The inputs that have the concept."""
        return tuple(value for value, label in zip(self.inputs, self.labels, strict=True) if label)

    @property
    def negative(self) -> tuple[Any, ...]:
        """The inputs that lack it."""
        return tuple(value for value, label in zip(self.inputs, self.labels, strict=True) if not label)

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of every input [n]; of a chat what all its messages say. Other kinds raise `ExamplesError`."""
        if self.kind not in ("text", "chat"):
            raise ExamplesError(f"{self.name}: inputs of kind {self.kind} have no text; give texts or chats")
        return tuple(map(_checks.text_of, self.inputs))

    def column(self, name: str) -> tuple[Any, ...] | None:
        """The column `name`, one of the fields or a further one [n]; None where there is none."""
        found = getattr(self, name) if name in ("inputs", *_PER_ROW) else self.extra.get(name)
        return None if found is None else tuple(found)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The near-duplicate key of every input [n]; inputs that are no text have a digest of their content."""
        if self.kind in ("text", "chat"):
            return tuple(map(_checks.key_of, self.inputs))
        return tuple(hashlib.sha256(_checks.content_of(value)).hexdigest() for value in self.inputs)

    @cached_property
    def units(self) -> tuple[str | None, ...]:
        """What must not straddle a split, by row [n]; None where the row is left out (see `statistics.splits`)."""
        return tuple(units(self.keys, groups=self.groups, pairs=self.pairs))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all rows in their order: inputs, labels, groups, pairs, spans and splits."""
        whole = hashlib.sha256()
        for value in self.inputs:
            whole.update(hashlib.sha256(_checks.content_of(value)).digest())
        for column in (self.labels.tolist(), self.groups, self.pairs, self.spans, self.splits):
            whole.update(json.dumps(column).encode())
        return whole.hexdigest()

    def describe(self) -> dict[str, Any]:
        """What a vector found in them keeps of them: name, digest and number of rows."""
        return {"name": self.name, "digest": self.digest, "n": len(self)}

    def digest_of(self, rows: Sequence[int] | NDArray[np.intp]) -> str:
        """SHA-256 of the inputs and labels of `rows`, whatever their order: what a look at them is counted by."""
        each = [_checks.content_of(self.inputs[row]) + (b"+" if self.labels[row] else b"-") for row in rows]
        return hashlib.sha256(b"".join(sorted(hashlib.sha256(row).digest() for row in each))).hexdigest()

    def subset(self, rows: Sequence[int] | NDArray[np.intp]) -> Examples:
        """The examples at `rows`, in that order; they may be of one class."""
        rows = [int(row) for row in rows]
        columns = {name: getattr(self, name) for name in ("inputs", *_PER_ROW)}
        chosen: dict[str, Any] = {
            name: None if column is None else tuple(column[row] for row in rows) for name, column in columns.items()
        }
        extra = {name: tuple(column[row] for row in rows) for name, column in self.extra.items()}
        return replace(self, labels=self.labels[rows], extra=extra, **chosen)

    def check(self) -> Examples:
        """Itself; raises `ExamplesError` where an input is empty, a class missing, or a text has both labels."""
        places = self.places or [f"{self.name}, row {row + 1}" for row in range(len(self))]
        _checks.check_inputs(self.inputs, self.kind, places)
        _checks.check_classes(self.labels, self.name)
        _checks.check_spans(self.spans, self.inputs, self.kind, places)
        # One text may show the concept in one span and lack it in another.
        keys = list(zip(self.keys, self.spans or [None] * len(self), strict=True))
        _checks.check_contradictions(keys, self.labels, places)
        _checks.check_pairs(self.pairs, self.labels, self.name)
        return self

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        text_column: str | None = None,
        label_column: str | None = None,
        positive: str | None = None,
        name: str | None = None,
    ) -> Examples:
        """The one concept in a file or folder; parameters and errors as in `read_concepts`."""
        concepts = read_concepts(path, text_column=text_column, label_column=label_column, positive=positive)
        return _only(concepts, str(path), name)

    @classmethod
    def from_lists(
        cls, positive: Sequence[Any], negative: Sequence[Any], *, paired: bool = False, name: str = "examples"
    ) -> Examples:
        """Examples from two lists of texts or chats.

        Parameters
        ----------
        paired
            Whether `positive[i]` and `negative[i]` differ in the concept and little else.

        Raises
        ------
        ExamplesError
            The lists do not fit together, or hold what `check` refuses.
        """
        if isinstance(positive, str) or isinstance(negative, str):
            raise ExamplesError(f"{name}: a text was given where a list of texts is expected; write [text]")
        if not paired:
            places = [
                f"{kind} {i + 1}"
                for kind, of in (("positive", positive), ("negative", negative))
                for i in range(len(of))
            ]
            labels = np.repeat([True, False], [len(positive), len(negative)])
            return cls((*positive, *negative), labels, places=tuple(places), name=name).check()
        if len(positive) != len(negative):
            raise ExamplesError(f"{name}: {len(positive)} positives and {len(negative)} negatives make no pairs")
        inputs = [value for pair in zip(positive, negative, strict=True) for value in pair]
        places = [f"{kind} {i + 1}" for i in range(len(positive)) for kind in ("positive", "negative")]
        pairs = tuple(_checks.identity(*pair) for pair in zip(positive, negative, strict=True) for _ in range(2))
        labels = np.arange(len(inputs)) % 2 == 0
        return cls(tuple(inputs), labels, pairs=pairs, places=tuple(places), name=name).check()

    @classmethod
    def from_templates(
        cls,
        personas: Sequence[tuple[str, str]],
        suffixes: Sequence[str],
        *,
        template: str | Sequence[Mapping[str, str]] = "{persona} {suffix}",
        name: str = "contrast",
    ) -> Examples:
        """Contrast prompts: every pair of personas before every suffix, one pair of rows each.

        Parameters
        ----------
        personas
            Pairs (one that has the concept, one that lacks it), such as `("Act happy.", "Act sad.")`.
        suffixes
            What follows the persona. Rows of one suffix are one group: a vector is tested on suffixes it has not seen.
        template
            A text, or the messages of a chat, with `{persona}` and `{suffix}` in it.

        References
        ----------
        Zou et al. 2023, Representation Engineering, section 3.1.
        """
        if isinstance(suffixes, str) or any(isinstance(pair, str) or len(pair) != 2 for pair in personas):
            raise ExamplesError(f"{name}: give personas as pairs (positive, negative), and suffixes as a list")
        rows = [(suffix, pair) for suffix in suffixes for pair in personas]
        filled = [tuple(_filled(template, persona, suffix) for persona in pair) for suffix, pair in rows]
        return cls(
            tuple(value for pair in filled for value in pair),
            np.arange(2 * len(rows)) % 2 == 0,
            groups=tuple(_checks.identity(suffix) for suffix, _ in rows for _ in range(2)),
            pairs=tuple(_checks.identity(*pair) for pair in filled for _ in range(2)),
            name=name,
        ).check()

    @classmethod
    def from_dataset(
        cls,
        data: Any,
        *,
        text_column: str | None = None,
        label_column: str | None = None,
        positive: str | None = None,
        name: str = "dataset",
    ) -> Examples:
        """Examples from a `datasets.Dataset`, a DataFrame, a mapping of columns or a list of dictionaries.

        Columns, parameters and errors as in `read_concepts`.
        """
        concepts = _concepts(table_of(data, name), text_column, label_column, positive, each_class=False)
        return _only(concepts, name, name)


def read_concepts(
    path: str | Path,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    positive: str | None = None,
    each_class: bool = False,
) -> dict[str, Examples]:
    """All concepts in a file or folder, by name.

    A file is JSON (objects in a list, or one a line), CSV, TSV or Parquet, with columns `text` and `label`, or
    `positive` and `negative` (each row a pair); `group`, `pair`, `span_start`, `span_end` and `split` are optional. A
    column `concept` makes several concepts. A folder holds `positive.txt` and `negative.txt`, or a file a concept.

    Parameters
    ----------
    text_column, label_column
        The columns' names, where they are others; numbers from 1 for a file without a header.
    positive
        The label that is the concept, against all others.
    each_class
        One concept a label, against all others.

    Raises
    ------
    ExamplesError
        One line naming file, row and mend.
    """
    if positive is not None and each_class:
        raise ExamplesError("--positive takes one label and --each-class all of them; give one of the two")
    found: dict[str, Examples] = {}
    several = tables(Path(path), text_column, label_column)
    for table in several:
        concepts = _concepts(table, text_column, label_column, positive, each_class)
        for name, examples in concepts.items():
            name = f"{table.name}-{name}" if len(several) > 1 and name != table.name else name
            if name in found:
                raise ExamplesError(f"{path} has two concepts called {name!r}; rename a file")
            found[name] = replace(examples, name=name)
    return found


def require_enough(examples: Examples) -> tuple[int, int]:
    """The numbers of independent positives and negatives; fewer than 8 of a class raise `ExamplesError`.

    Independent are groups or pairs where there are any, else different texts. A name that no vector may have is refused
    too, while there is nothing to lose.
    """
    try:
        check_name(examples.name)
    except CovecError as error:
        raise ExamplesError(f"{error}; rename the file, label or concept that it comes from") from None
    counts = independent_groups(examples.check().units, examples.labels)
    for count, name in zip(counts, ("positive", "negative"), strict=True):
        if count < REFUSED_UNDER:
            few = f"{examples.name} has {count} independent {name} examples (groups, pairs or different texts)"
            raise ExamplesError(f"{few}; a study needs {REFUSED_UNDER} of each class and better 50: add examples")
    return counts


def _concepts(
    table: Table, text_column: str | None, label_column: str | None, positive: str | None, each_class: bool
) -> dict[str, Examples]:
    table = table if text_column or label_column else _columns.unpaired(table)
    text, label, table = _columns.text_and_label(table, text_column, label_column)
    concept = table.find("concept")
    names = _columns.ids(table, "concept") if concept not in (text, label) else None
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(names or [table.name] * len(table.places)):
        if name is None:
            raise ExamplesError(f"{table.places[row]}: the concept is missing; fill it in, or remove the row")
        rows_of.setdefault(name, []).append(row)
    found: dict[str, Examples] = {}
    for name, rows in rows_of.items():
        alone = len(rows_of) == 1
        part = table if alone else table.take(rows, name)
        source = table.source if alone else f"{table.source}, concept {name!r},"
        labels = Labels.parse(part.columns[label], part.places)
        for class_name, mask in labels.concepts(source, positive, each_class).items():
            called = "-".join(filter(None, ["" if alone and class_name else name, class_name]))
            if called in found:
                raise ExamplesError(f"{table.source}: two concepts are called {called!r}; rename a concept or label")
            found[called] = _built(part, text, label, mask, called, source)
    return found


def _built(table: Table, text: str, label: str, labels: NDArray[np.bool_], name: str, source: str) -> Examples:
    used = {text, label, *(table.find(column) for column in _USED)}
    examples = Examples(
        tuple(table.columns[text]),
        labels,
        groups=_columns.ids(table, "group"),
        pairs=_columns.ids(table, "pair"),
        spans=_columns.spans(table),
        splits=_columns.splits(table),
        places=tuple(table.places),
        extra={column: tuple(values) for column, values in table.columns.items() if column not in used},
        name=source,
        notes=table.notes,
    ).check()
    repeated = len(examples) - len(set(examples.keys))
    notes = (f"{source}: rows that repeat an earlier text, and count as one with it: {repeated}",) if repeated else ()
    return replace(examples, name=name, notes=(*table.notes, *notes))


def _only(concepts: dict[str, Examples], source: str, name: str | None) -> Examples:
    if len(concepts) > 1:
        names = ", ".join(map(repr, concepts))
        raise ExamplesError(f"{source} has {len(concepts)} concepts ({names}); read them with covec.read_concepts")
    (examples,) = concepts.values()
    return replace(examples, name=name or examples.name)


def _filled(template: str | Sequence[Mapping[str, str]], persona: str, suffix: str) -> Any:
    if not isinstance(template, str):
        return [{**message, "content": _filled(message["content"], persona, suffix)} for message in template]
    return _SLOT.sub(lambda slot: persona if slot[1] == "persona" else suffix, template)
