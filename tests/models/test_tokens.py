"""From texts and chats to ids: nothing added, nothing twice, every part at its place."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from covec.errors import ExamplesError
from covec.models.positions import Position, mask
from covec.models.text import TextModel
from covec.models.tokens import TokenTable, special_ids, tokenize
from tiny import tiny_tokenizer

TEXTS = ["The hotel was clean.", "x", " spaces  and\nlines ", "Köln 🙂", "a <eos> b"]
CHAT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Is it clean?"}]
ANSWERED = [*CHAT, {"role": "assistant", "content": "It was."}]


@pytest.mark.parametrize("bos", ["none", "zero", "one"])
def test_texts_are_tokenised_as_the_tokenizer_does(bos: Any) -> None:
    tokenizer = tiny_tokenizer(bos)
    for text, found in zip(TEXTS, tokenize(tokenizer, TEXTS), strict=True):
        assert list(found.ids) == tokenizer(text).input_ids
        assert found.text == text
        assert found.layout.length == found.layout.prompt == len(found.ids) == found.layout.last + 1
        start, end = found.offsets[-1]
        assert text[start:end] in tokenizer.decode(found.ids)


@pytest.mark.parametrize("bos", ["none", "zero", "one"])
def test_content_holds_no_special_token_whatever_its_id(bos: Any) -> None:
    tokenizer = tiny_tokenizer(bos)
    special = set(tokenizer.all_special_ids)
    packed = "one<eos><bos>two<pad>three" if bos != "none" else "one<eos>two<pad>three"
    for found in tokenize(tokenizer, [packed, "plain", *TEXTS]):
        content = mask(Position("content"), found.layout)
        ids = np.array(found.ids)
        assert not set(ids[content]) & special
        assert set(ids[~content][1:]) <= special


@pytest.mark.parametrize("bos", ["none", "zero", "one"])
def test_chats_have_one_bos_at_most_and_no_token_added(bos: Any) -> None:
    tokenizer = tiny_tokenizer(bos)
    found = tokenize(tokenizer, [CHAT])[0]
    assert list(found.ids) == tokenizer.apply_chat_template(CHAT, return_dict=False)
    assert found.text == tokenizer.apply_chat_template(CHAT, tokenize=False)
    assert list(found.ids).count(tokenizer.bos_token_id) == (bos != "none")


def test_a_rendered_chat_gets_no_second_bos_and_a_warning_each_time() -> None:
    tokenizer = tiny_tokenizer("one")
    rendered = tokenizer.apply_chat_template(CHAT, tokenize=False)
    for _ in range(2):
        with pytest.warns(UserWarning, match="2 texts already begin with <bos>"):
            found = tokenize(tokenizer, [rendered, rendered, "plain"])
        assert found[0].ids == tokenize(tokenizer, [CHAT])[0].ids
        assert len(found[0].ids) == len(found[0].offsets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tokenize(tokenizer, ["plain", CHAT])


def test_last_is_the_templates_last_token_and_with_a_reply_its_header() -> None:
    tokenizer = tiny_tokenizer("one")
    read, reply = (tokenize(tokenizer, [CHAT], reply=reply)[0] for reply in (False, True))
    assert tokenizer.decode(read.ids[read.layout.last]) == "<eos>"
    assert tokenizer.decode(reply.ids[reply.layout.last]) == "<assistant>"
    assert list(reply.ids) == tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)


def test_an_answer_is_what_the_assistant_said() -> None:
    tokenizer = tiny_tokenizer("one")
    found = tokenize(tokenizer, [ANSWERED])[0]
    assert found.layout.answer is not None
    start, end = found.layout.answer
    assert tokenizer.decode(found.ids[start:end]) == "It was."
    assert found.layout.prompt == start
    assert tokenizer.decode(found.ids[start - 1]) == "<assistant>"


@pytest.mark.parametrize(("span", "expected"), [((4, 9), "hotel"), ((5, 6), "ho"), ((0, 20), "The hotel was clean.")])
def test_spans_cover_the_tokens_they_touch(span: tuple[int, int], expected: str) -> None:
    tokenizer = tiny_tokenizer("one")
    found = tokenize(tokenizer, [TEXTS[0]], spans=[span])[0]
    assert found.layout.span is not None
    start, end = found.layout.span
    assert tokenizer.decode(found.ids[start:end]).strip() == expected


@pytest.mark.parametrize("offsets", [True, False])
def test_a_table_gives_back_what_was_put_in(offsets: bool) -> None:
    spans = [(0, 3), None, (2, 8), (0, 4), None, None]
    items = [*tokenize(tiny_tokenizer("one"), [*TEXTS, ANSWERED], spans=spans, offsets=offsets)]
    table = TokenTable()
    for item in items:
        table.append(item)
    assert len(table) == len(items)
    for there, item in zip(table, items, strict=True):
        assert (there.ids, there.offsets, there.text) == (item.ids, item.offsets, item.text)
        assert there.layout.special.tolist() == item.layout.special.tolist()
        assert (there.layout.prompt, there.layout.last) == (item.layout.prompt, item.layout.last)
        assert (there.layout.answer, there.layout.span) == (item.layout.answer, item.layout.span)
    assert [item.ids for item in table[1:3]] == [items[1].ids, items[2].ids]
    assert table[-1].ids == items[-1].ids
    with pytest.raises(IndexError):
        table[len(items)]


@pytest.mark.parametrize("span", [(20, 25), (3, 3)])
def test_a_span_that_covers_nothing_is_refused(span: tuple[int, int]) -> None:
    with pytest.raises(ExamplesError, match="covers no token"):
        tokenize(tiny_tokenizer(), [TEXTS[0]], spans=[span])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "input 2 is empty"),
        (3, "input 2 is int: give a string or a list of messages"),
        (None, "input 2 is NoneType"),
        ([], "input 2 is list"),
        ([{"role": "user"}], "input 2 is list"),
        ("a b c d e f g", "input 2 has .* tokens, the model reads 4: shorten or split the text"),
    ],
)
def test_what_cannot_be_read_is_told_by_its_place(given: Any, message: str) -> None:
    with pytest.raises(ExamplesError, match=message):
        tokenize(tiny_tokenizer(), ["ok", given], context=4)


def test_chats_need_a_template() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(ExamplesError, match="no chat template"):
        tokenize(tokenizer, [CHAT])


def test_an_unknown_token_of_its_own_is_content() -> None:
    tokenizer = tiny_tokenizer("one")
    tokenizer.unk_token = "x"
    assert tokenizer.unk_token_id not in special_ids(tokenizer)
    tokenizer.unk_token = "<eos>"
    assert tokenizer.unk_token_id in special_ids(tokenizer)


def test_the_embedded_model_adds_nothing_to_texts_and_one_turn_each_to_chats(smol: TextModel) -> None:
    text = "The hotel was clean."
    plain, chat = smol.tokenize([text, CHAT])
    assert list(plain.ids) == smol.tokenizer(text).input_ids
    assert mask(Position("content"), plain.layout).tolist() == [False] + [True] * (len(plain.ids) - 1)
    assert list(chat.ids) == smol.tokenizer.apply_chat_template(CHAT, return_dict=False)


def test_a_reply_alone_is_an_answer() -> None:
    tokenizer = tiny_tokenizer("one")
    found = tokenize(tokenizer, [[{"role": "assistant", "content": "It was."}]])[0]
    assert found.layout.answer is not None
    assert tokenizer.decode(found.ids[slice(*found.layout.answer)]) == "It was."


def test_what_a_chat_template_refuses_is_told_in_one_line() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{{ raise_exception('no system\\nhere') }}"
    with pytest.raises(ExamplesError, match="takes no such messages: no system here"):
        tokenize(tokenizer, [CHAT])


def test_one_text_is_no_list_of_its_characters() -> None:
    with pytest.raises(ExamplesError, match=r"no list of inputs: give several, or \[text\]"):
        tokenize(tiny_tokenizer(), "The hotel")


@pytest.mark.parametrize("spans", [[(0, 3)], [(0, 3), None, None]])
def test_one_span_an_input(spans: list[Any]) -> None:
    with pytest.raises(ExamplesError, match="spans for 2 inputs"):
        tokenize(tiny_tokenizer(), ["The hotel", "ice"], spans=spans)


@pytest.mark.parametrize("given", ["\ud83d hi", [{"role": "user", "content": "hi \ude42"}]])
def test_half_a_character_is_refused_in_one_line(given: Any) -> None:
    """JSON may hold the half of an emoji that was cut through; tokenizers end on it."""
    with pytest.raises(ExamplesError, match="input 2 holds half a character"):
        tokenize(tiny_tokenizer(), ["The hotel \U0001f642", given])


def test_a_role_that_no_template_knows_is_refused() -> None:
    """Templates write some as they are and leave others out, so that a slip would change what is read."""
    with pytest.raises(ExamplesError, match="input 2 has no role 'usr': use one of system, user"):
        tokenize(tiny_tokenizer(), ["The hotel", [{"role": "usr", "content": "hi"}]])


OPENING = "{{ '<assistant>' + 'think: ' }}"
SAYING = "{{ message['content'] }}"
TEMPLATES = {  # how a template writes a turn, and how it opens a reply
    "usual": (SAYING, "{{ '<assistant>' }}"),
    "thinking opened": (SAYING, OPENING),
    "thoughts left out": ("{{ message['content'].split('</think>')[-1] }}", OPENING),
    "nothing opened": (SAYING, ""),
    "space before": ("{{ ' ' + message['content'] }}", "{{ '<assistant>' }}"),
    "a line after": (SAYING, "{{ '<assistant>' }}"),
}


@pytest.mark.parametrize(
    "reply", ["It was.", "think of it", "yes<eos>no <user> maybe", "<system>call()", "a</think>It was."]
)
@pytest.mark.parametrize("template", TEMPLATES)
def test_an_answer_is_told_whatever_a_template_makes_of_a_reply(template: str, reply: str) -> None:
    """The prompt never holds any of the reply, and the answer all of it that the template keeps, closings left out."""
    turn, opening = TEMPLATES[template]
    tokenizer = tiny_tokenizer("one")
    after = "{{ '\n' }}" if template == "a line after" else ""
    tokenizer.chat_template = (
        "{% for message in messages %}{{ '<' + message['role'] + '>' }}"
        + turn
        + "{{ eos_token }}"
        + after
        + "{% endfor %}"
        "{% if add_generation_prompt %}" + opening + "{% endif %}"
    )
    chat = [{"role": "user", "content": "was the hotel clean?"}, {"role": "assistant", "content": reply}]
    found = tokenize(tokenizer, [chat])[0]
    assert found.layout.answer is not None
    start, end = found.layout.answer
    kept = reply.split("</think>")[-1] if template == "thoughts left out" else reply
    said = found.text[found.offsets[start][0] : found.offsets[end - 1][1]]
    assert said.removeprefix("<assistant>").strip() == kept
    assert found.layout.prompt == start
    assert "clean?" in found.text[: found.offsets[start][0]]


@pytest.mark.parametrize("content", ["", " "])
def test_an_empty_reply_is_no_answer(content: str) -> None:
    chat = [*CHAT, {"role": "assistant", "content": content}]
    assert tokenize(tiny_tokenizer("one"), [chat])[0].layout.answer is None
