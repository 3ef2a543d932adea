"""What examples must be before any work begins: texts that can be read, both classes, and no contradiction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covec.errors import ExamplesError
from covec.models.tokens import ROLES
from covec.reading import is_blank
from covec.statistics.splits import near_duplicate_key


def check_inputs(inputs: Sequence[Any], kind: str, places: Sequence[str]) -> None:
    """Raise `ExamplesError` at the first input that is empty or is not of the kind."""
    if kind not in ("text", "chat"):
        return
    for value, place in zip(inputs, places, strict=True):
        if kind == "text":
            _check_text(value, place)
        elif not isinstance(value, list | tuple) or not value:
            raise ExamplesError(f"{place}: not a chat; every input is a list of messages where one is")
        else:
            for message in value:
                _check_message(message, place)


def check_classes(labels: NDArray[np.bool_], source: str) -> None:
    """Raise `ExamplesError` where a class has no row."""
    if len(labels) == 0 or labels.all() or not labels.any():
        missing = "examples" if len(labels) == 0 else "negative examples" if labels.all() else "positive examples"
        raise ExamplesError(f"{source} has no {missing}; a concept needs both classes")


def check_contradictions(keys: Sequence[Any], labels: NDArray[np.bool_], places: Sequence[str]) -> None:
    """Raise `ExamplesError` where equal keys have both labels."""
    first: dict[Any, int] = {}
    clashes: list[tuple[int, int]] = []
    for row, key in enumerate(keys):
        other = first.setdefault(key, row)
        if labels[other] != labels[row]:
            clashes.append((other, row))
    if clashes:
        other, row = clashes[0]
        more = f", and of {len(clashes) - 1} more such texts" if len(clashes) > 1 else ""
        (file, _, _), (other_file, _, line) = (places[index].rpartition(", ") for index in (row, other))
        same = f"has the text of {line if file == other_file else places[other]} (but for case and punctuation)"
        raise ExamplesError(f"{places[row]} {same} and the other label; remove one of them{more}")


def check_pairs(pairs: Sequence[str | None] | None, labels: NDArray[np.bool_], source: str) -> None:
    """Raise `ExamplesError` where a pair lacks a class."""
    classes: dict[str, set[bool]] = {}
    for pair, label in zip(pairs or (), labels.tolist(), strict=False):
        if pair is not None:
            classes.setdefault(pair, set()).add(label)
    if broken := next((pair for pair, held in classes.items() if len(held) < 2), None):
        missing = "negative" if True in classes[broken] else "positive"
        raise ExamplesError(
            f"{source}: pair {broken!r} has no {missing} row; add it, or call the column 'group' if these are no pairs"
        )


def check_spans(
    spans: Sequence[tuple[int, int] | None] | None, inputs: Sequence[Any], kind: str, places: Sequence[str]
) -> None:
    """Raise `ExamplesError` where a span is not a range of characters in its text."""
    for span, value, place in zip(spans or (), inputs, places, strict=False):
        if span is None:
            continue
        if kind != "text":
            raise ExamplesError(f"{place}: spans are ranges of characters in a text; inputs of kind {kind} take none")
        start, end = span
        if not 0 <= start < end <= len(value):
            raise ExamplesError(f"{place}: span {start} to {end} is not in the text of {len(value)} characters")


def text_of(value: Any) -> str:
    """The text of an input: itself, or what all messages of a chat say."""
    return value if isinstance(value, str) else "\n".join(message["content"] for message in value)


def key_of(value: Any) -> str:
    """The near-duplicate key of a text or chat; in chats the roles count too."""
    if isinstance(value, str):
        return near_duplicate_key(value)
    return "\n".join(f"{message['role']} {near_duplicate_key(message['content'])}" for message in value)


def content_of(value: Any) -> bytes:
    """What an input is made of: JSON of texts and chats, shape and numbers of arrays."""
    if isinstance(value, str | list | tuple):
        return json.dumps(value).encode()
    array = np.asarray(value)
    return f"{array.dtype} {array.shape} ".encode() + array.tobytes()


def identity(*inputs: Any) -> str:
    """An id of some inputs that depends on their content alone, so that the order of rows moves no pair."""
    return hashlib.sha256(b"\0".join(map(content_of, inputs))).hexdigest()[:16]


def _check_text(value: Any, place: str) -> None:
    if is_blank(value):
        raise ExamplesError(f"{place}: the text is empty; fill it in, or remove the row")
    if not isinstance(value, str):
        raise ExamplesError(
            f"{place}: the text is of type {type(value).__name__}, not a string; name the column of texts"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        broken = f"character {error.start + 1} is half a surrogate pair"
        raise ExamplesError(f"{place}: {broken}; save the text as UTF-8") from None


def _check_message(message: Any, place: str) -> None:
    if not isinstance(message, dict) or not {"role", "content"} <= set(message):
        raise ExamplesError(f'{place}: a message is {{"role": "user", "content": "..."}}, not {str(message)[:40]!r}')
    if message["role"] not in ROLES:
        raise ExamplesError(f"{place}: no role {message['role']!r}; use one of {', '.join(ROLES)}")
    if message["role"] != "system" or message["content"] != "":
        _check_text(message["content"], place)
