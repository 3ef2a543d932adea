"""K-2, K-4: special tokens are no content, by whatever id, and nothing is begun twice."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import AddedToken

from covec.models.text import TextModel
from laws.given import CHAT, add, vector
from tiny import tiny_model

PACKED = "one two<eos><bos>three four<pad>five<eos>"


def rows_by_id(model: TextModel, given: Any, ids: list[int], position: str) -> list[int]:
    """The ids of the tokens whose rows are captured of one input."""
    rows = model.capture([given], "resid.0", position)
    assert rows.tokens is not None
    return [ids[token] for token in rows.tokens.tolist()]


@pytest.mark.parametrize("bos", ["zero", "one"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_no_row_of_a_special_token_is_content_in_a_packed_text(family: str, bos: Any) -> None:
    """The BOS has the id 0 or 1 and stands in the middle, too."""
    model = TextModel(*tiny_model(family, bos=bos))
    special = set(model.tokenizer.convert_tokens_to_ids(["<bos>", "<eos>", "<pad>"]))  # GPT-2 pads with nothing
    ids = model.tokenizer(PACKED).input_ids
    assert model.tokenizer.bos_token_id == (0 if bos == "zero" else 1)
    assert ids.count(model.tokenizer.bos_token_id) == 2
    read = rows_by_id(model, PACKED, ids, "content/none")
    assert read == [token for token in ids if token not in special]
    kept = model.capture([PACKED], "resid.0", "all")["resid.0"][[token not in special for token in ids]]
    assert torch.allclose(model.capture([PACKED], "resid.0", "mean")["resid.0"][0], kept.mean(0), atol=1e-5)


@pytest.mark.parametrize("bos", ["zero", "one"])
def test_edits_and_scores_leave_special_tokens_out(bos: Any) -> None:
    model = TextModel(*tiny_model("llama", bos=bos))
    ids = np.array(model.tokenizer(PACKED).input_ids)
    special = np.isin(ids, model.tokenizer.all_special_ids)
    plain = model.capture([PACKED], "resid.1", "all")["resid.1"]
    with model.edit(add(model)):
        edited = model.capture([PACKED], "resid.1", "all")["resid.1"]
        by_hand = model.tokenizer(PACKED, return_tensors="pt")
        with torch.no_grad():
            hidden: list[torch.Tensor] = []
            handle = model.anatomy.blocks[1].register_forward_hook(lambda _, args, output: hidden.append(output[0]))
            model.module(**by_hand)
            handle.remove()
    changed = (edited != plain).any(1).numpy()
    assert changed.tolist() == (~special).tolist()
    assert torch.allclose(hidden[0].reshape(edited.shape), edited, atol=1e-4)
    concept = vector(model, aggregator="mean")
    scores = concept.score(plain[torch.from_numpy(~special)])
    assert model.detect(concept, PACKED).score == pytest.approx(float(scores.mean()), abs=1e-4)


def test_marks_of_a_chat_template_are_special_also_where_the_tokenizer_names_them_nowhere() -> None:
    """Llama 3 marks its headers as special tokens without listing them among its own."""
    module, tokenizer = tiny_model("llama")
    tokenizer.add_tokens([AddedToken("<header>", special=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    module.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    tokenizer.chat_template = "{% for m in messages %}<header>{{ m['role'] }}<tool>{{ m['content'] }}{% endfor %}"
    header, tool = tokenizer.convert_tokens_to_ids(["<header>", "<tool>"])
    assert header not in tokenizer.all_special_ids
    model = TextModel(module, tokenizer)
    ids = tokenizer.apply_chat_template(CHAT, return_dict=False)
    read = rows_by_id(model, CHAT, ids, "content/none")
    assert header not in read
    assert read.count(tool) == 2


def test_the_embedded_model_reads_no_mark_of_its_template(smol: TextModel) -> None:
    ids = smol.tokenizer.apply_chat_template(CHAT, return_dict=False)
    special = set(smol.tokenizer.all_special_ids)
    read = rows_by_id(smol, CHAT, ids, "content/none")
    assert read == [token for token in ids[1:] if token not in special]
    assert "<|im_start|>" not in smol.tokenizer.decode(read)


@pytest.mark.parametrize("bos", ["none", "zero", "one"])
def test_a_chat_has_one_bos_and_its_text_gets_no_second(bos: Any) -> None:
    """As captured, counted by id: the chat, and what the template makes of it."""
    model = TextModel(*tiny_model("llama", bos=bos))
    text = model.tokenizer.apply_chat_template(CHAT, tokenize=False)
    ids = model.tokenizer.apply_chat_template(CHAT, return_dict=False)
    rows = model.capture([CHAT], "resid.1", "all")["resid.1"]
    assert ids.count(model.tokenizer.bos_token_id) == (bos != "none")
    assert len(rows) == len(ids)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        again = model.capture([text], "resid.1", "all")["resid.1"]
    assert torch.allclose(again, rows, atol=1e-5)
    assert [str(one.message) for one in told if "no second one" in str(one.message)] == (
        ["1 text already begins with <bos>: no second one was added"] if bos != "none" else []
    )


def test_the_embedded_models_chats_are_tokenised_once(smol: TextModel) -> None:
    text = smol.tokenizer.apply_chat_template(CHAT, tokenize=False)
    ids = smol.tokenizer.apply_chat_template(CHAT, return_dict=False)
    rows = smol.capture([CHAT, text], "resid.2", "all")
    assert [len(rows.of(index, "resid.2")) for index in range(2)] == [len(ids), len(ids)]
    assert torch.equal(rows.of(0, "resid.2"), rows.of(1, "resid.2"))
