"""Special tokens: none too many, and none taken for content."""

from __future__ import annotations

from typing import Any

from covec.checks.doctor._patient import Failed, Patient

_CHAT = [{"role": "user", "content": "Who is it?"}]


def bos(patient: Patient) -> str:
    """Plain text is read as the tokenizer has it, a chat has one BOS at most, and no special token is content."""
    tokenizer = patient.model.tokenizer
    read = [list(item.ids) for item in patient.model.tokenize(patient.texts)]
    for text, ids, own in zip(patient.texts, read, patient.ids, strict=True):
        if own[:2] == [tokenizer.bos_token_id] * 2:
            raise Failed(f"the tokenizer begins {text!r} with two {tokenizer.bos_token}")
        if ids != own:
            raise Failed(f"{text!r} is read as {ids}, the tokenizer makes {own} of it")
    content = _content(patient, tokenizer)
    chat = _chat(patient, tokenizer) if getattr(tokenizer, "chat_template", None) else "no chat template"
    first = "no BOS" if read[0][0] != tokenizer.bos_token_id else f"one {tokenizer.bos_token}"
    return f"plain texts begin with {first}, as the tokenizer has it; {chat}; {content} content tokens, none special"


def _chat(patient: Patient, tokenizer: Any) -> str:
    rendered = tokenizer.apply_chat_template(_CHAT, tokenize=False)
    ids = list(patient.model.tokenize([_CHAT])[0].ids)
    if tokenizer.bos_token_id is None:
        return "a chat has no BOS"
    found, written = ids.count(tokenizer.bos_token_id), rendered.count(tokenizer.bos_token)
    if ids[:2] == [tokenizer.bos_token_id] * 2 or found > max(1, written):
        raise Failed(f"a chat is read with {found} {tokenizer.bos_token}, its template writes {written}")
    begins = "one" if ids[0] == tokenizer.bos_token_id else "no"
    return f"a chat begins with {begins} BOS"


def _content(patient: Patient, tokenizer: Any) -> int:
    """The number of tokens that `content` selects, also around special tokens amid the text."""
    special = {getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad", "cls", "sep")} - {None}
    words = [tokenizer.convert_ids_to_tokens(token) for token in sorted(special)]
    texts = [*patient.texts[1:4], *(f"The hotel {word} was clean." for word in words)]
    found = patient.model.capture(texts, "embed", "content/none")
    if found.tokens is None or found.offsets is None:
        raise Failed("a capture of content does not say which tokens it holds")
    for index, text in enumerate(texts):
        own = tokenizer(text)["input_ids"]
        for place in found.tokens[int(found.offsets[index]) : int(found.offsets[index + 1])].tolist():
            if own[place] in special:
                raise Failed(f"content of {text!r} holds {tokenizer.decode([own[place]])!r} at token {place}")
    return len(found.tokens)
