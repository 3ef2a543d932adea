"""From inputs to token ids with their places in the text."""

from __future__ import annotations

import re
import warnings
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any, overload

import numpy as np
from jinja2 import TemplateError

from covec.errors import ExamplesError
from covec.models.positions import Layout

Input = str | Sequence[dict[str, str]]
Span = tuple[int, int]

ROLES = ("system", "user", "assistant", "tool", "developer")
_HALF = re.compile("[\ud800-\udfff]")
_AT_ONCE = 256  # texts: the tokenizer's own records are many times their ids, and would fragment the memory


@dataclass(frozen=True, slots=True)
class Tokenized:
    """One input as the model reads it: `ids` [tokens], character `offsets` into `text`, and its layout."""

    ids: tuple[int, ...]
    offsets: tuple[Span, ...]
    layout: Layout
    text: str


class TokenTable(Sequence[Tokenized]):
    """Tokenised inputs in a few flat arrays: a corpus weighs some bytes a token, not some objects.

    An item is made when it is asked for.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._starts, self._ids, self._special, self._offsets = array("q", [0]), array("i"), array("b"), array("i")
        self._layouts = array("i")  # prompt, last, answer and span, -1 where there is none

    def append(self, item: Tokenized) -> None:
        """Add `item` at the end; all have offsets, or none has."""
        layout = item.layout
        self._texts.append(item.text)
        self._ids.extend(item.ids)
        self._special.frombytes(layout.special.tobytes())
        self._offsets.extend(end for span in item.offsets for end in span)
        self._starts.append(len(self._ids))
        self._layouts.extend((layout.prompt, layout.last, *(layout.answer or _NOWHERE), *(layout.span or _NOWHERE)))

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> Tokenized: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tokenized]: ...
    def __getitem__(self, index: int | slice) -> Tokenized | list[Tokenized]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        start, end = self._starts[place : place + 2]
        flat = self._offsets[2 * start : 2 * end]
        prompt, last, *spans = self._layouts[6 * place : 6 * place + 6]
        answer, span = ((first, after) if first >= 0 else None for first, after in (spans[:2], spans[2:]))
        special = np.array(self._special[start:end], dtype=bool)
        return Tokenized(
            tuple(self._ids[start:end]),
            tuple(zip(flat[::2], flat[1::2], strict=True)),
            Layout(special, prompt, last, answer, span),
            self._texts[place],
        )


_NOWHERE = (-1, -1)


def tokenize(
    tokenizer: Any,
    inputs: Sequence[Input],
    *,
    spans: Sequence[Span | None] | None = None,
    context: int | None = None,
    reply: bool = False,
    offsets: bool = True,
    places: Sequence[str] | None = None,
) -> TokenTable:
    """Tokenise texts exactly as `tokenizer(text)` does, and chats by the chat template with no token added.

    With `reply` a chat ends with the header of the assistant's turn, and `last` means the prompt's last token. With
    `offsets=False` the character offsets, which weigh most, are left out of the result. Errors name an
    input by its entry in `places`, such as a line of a file.

    Raises
    ------
    ExamplesError
        Where an input is empty, of another type, or longer than `context` tokens.
    """

    def place(index: int) -> str:
        return f"input {index + 1}" if places is None else places[index]

    if isinstance(inputs, str):
        raise ExamplesError("a text is no list of inputs: give several, or [text]")
    inputs, spans = list(inputs), None if spans is None else list(spans)  # a table's column is indexed by its labels
    if spans is not None and len(spans) != len(inputs):
        raise ExamplesError(f"{len(spans)} spans for {len(inputs)} inputs: give one each, None where there is none")
    texts, chats = [], []
    for index, given in enumerate(inputs):
        if not isinstance(given, str) and not _is_chat(given):
            raise ExamplesError(f"{place(index)} is {type(given).__name__}: give a string or a list of messages")
        if not isinstance(given, str) and not all(isinstance(turn["content"], str | None) for turn in given):
            raise ExamplesError(f"{place(index)} holds more than text: give the content of every message as a string")
        if unknown := [] if isinstance(given, str) else [one["role"] for one in given if one["role"] not in ROLES]:
            raise ExamplesError(f"{place(index)} has no role {unknown[0]!r}: use one of {', '.join(ROLES)}")
        chats.append(not isinstance(given, str))
        texts.append(given if isinstance(given, str) else _render(tokenizer, given, reply))
        if _HALF.search(texts[-1]):
            raise ExamplesError(
                f"{place(index)} holds half a character (a lone surrogate, as of an emoji cut through): mend it"
            )
    special = special_ids(tokenizer)
    found = TokenTable()
    for index, (text, (ids, ranges)) in enumerate(zip(texts, _encode(tokenizer, texts, chats), strict=True)):
        if not ids:
            raise ExamplesError(f"{place(index)} is empty: it has no token to read")
        if context is not None and len(ids) > context:
            raise ExamplesError(
                f"{place(index)} has {len(ids)} tokens, the model reads {context}: shorten or split the text"
            )
        given = inputs[index]
        prompt, answer = len(ids), None
        if not isinstance(given, str) and given[-1]["role"] == "assistant":
            prompt, answer = _answer(text, _reply(tokenizer, given, text), ranges, ids, special)
        shown = None if spans is None else spans[index]
        span = None if shown is None else _token_span(ranges, shown)
        marks = np.fromiter((token in special for token in ids), bool, len(ids))
        layout = Layout(marks, prompt, len(ids) - 1, answer, span)
        found.append(Tokenized(tuple(ids), tuple(ranges) if offsets else (), layout, text))
    return found


def one_or_several(inputs: Input | Sequence[Input]) -> tuple[list[Input], bool]:
    """The inputs in a list, and whether it was one: a text, or a chat."""
    several = [inputs] if isinstance(inputs, str) else list(inputs)
    if several and isinstance(several[0], dict):
        return [several], True  # type: ignore[list-item]
    return several, isinstance(inputs, str)  # type: ignore[return-value]


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Ids that are no content: all special tokens but an unknown-token of its own.

    Those of chat templates, too, which some tokenizers mark as special and name nowhere (Llama 3's headers).
    """
    marked = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    ids = {*tokenizer.all_special_ids, *marked}
    if tokenizer.unk_token_id not in (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id):
        ids.discard(tokenizer.unk_token_id)
    return frozenset(ids)


def _is_chat(given: Any) -> bool:
    return (
        isinstance(given, Sequence)
        and len(given) > 0
        and all(isinstance(message, dict) and {"role", "content"} <= message.keys() for message in given)
    )


def _render(tokenizer: Any, messages: Input, reply: bool) -> str:
    if not getattr(tokenizer, "chat_template", None):
        raise ExamplesError("this model has no chat template: give plain text instead of messages")
    ends = messages[-1]["role"] != "assistant" and reply  # type: ignore[index]
    try:
        return str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=ends))
    except TemplateError as error:
        raise ExamplesError(f"the chat template takes no such messages: {' '.join(str(error).split())}") from error


def _reply(tokenizer: Any, messages: Input, text: str) -> Span:
    """The characters of `text` that are the assistant's last reply.

    It begins where the template would let a reply begin. Templates may open one with more than a header (`<think>`):
    then it begins with what is said, or, where that was shortened, where the two part.
    """
    said = (messages[-1]["content"] or "").strip()  # type: ignore[index]
    if len(messages) == 1:
        start = max(0, text.rfind(said))
        return start, start + len(said)
    opened = _render(tokenizer, messages[:-1], True)
    start = _shared(text, opened)
    usual = start == len(opened)
    before = start if usual else _shared(text, _render(tokenizer, messages[:-1], False))
    found = text.find(said, before) if said else -1
    if found < 0:
        return start, len(text)
    return start if usual else found, found + len(said)


def _shared(one: str, other: str) -> int:
    """The number of characters with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _encode(
    tokenizer: Any, texts: Sequence[str], chats: Sequence[bool]
) -> Iterator[tuple[Sequence[int], Sequence[Span]]]:
    """Ids and offsets of every text, a few at a time; what begins with two BOS loses one."""
    bos, twice = tokenizer.bos_token_id, 0
    for chat, run in groupby(range(len(texts)), key=chats.__getitem__):
        rows = list(run)
        for some in (rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)):
            batch = tokenizer(
                [texts[row] for row in some],
                add_special_tokens=not chat,
                return_offsets_mapping=True,
                return_attention_mask=False,
                verbose=False,
            )
            for ids, offsets in zip(batch["input_ids"], batch["offset_mapping"], strict=True):
                again = int(bos is not None and ids[:2] == [bos, bos])
                twice += again
                yield ids[again:], offsets[again:]
    if twice:
        already = "1 text already begins" if twice == 1 else f"{twice} texts already begin"
        warnings.warn(f"{already} with {tokenizer.bos_token}: no second one was added", stacklevel=4)


def _answer(
    text: str, reply: Span, offsets: Sequence[Span], ids: Sequence[int], special: frozenset[int]
) -> tuple[int, Span | None]:
    """Number of prompt tokens and the token range of the assistant's last reply, what closes it left out."""
    first = next((index for index, (start, _) in enumerate(offsets) if start >= reply[0]), len(ids))
    last = next((index for index, (start, _) in enumerate(offsets) if start >= reply[1]), len(ids))
    while last > first and (ids[last - 1] in special or not text[slice(*offsets[last - 1])].strip()):
        last -= 1
    return first, (first, last) if last > first else None


def _token_span(offsets: Sequence[Span], span: Span) -> Span:
    inside = [index for index, (start, end) in enumerate(offsets) if start < span[1] and end > span[0] and end > start]
    if not inside:
        raise ExamplesError(f"the span {span[0]}:{span[1]} covers no token of its text")
    return inside[0], inside[-1] + 1
