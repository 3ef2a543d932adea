"""Streams of inputs that tests share: endless ones, interrupted ones, and runs that are killed at random points."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from transformers import LlamaConfig, LlamaModel

from covec.models.text import TextModel

TEXTS = [f"The hotel was {'very ' * (row % 5)}clean on day {row}." for row in range(60)]
LABELS = [row % 3 == 0 for row in range(60)]
LENGTH = 250  # tokens of an endless text


class Counting:
    """A tokenizer without text: text `k` is ids that count up from an offset of its own."""

    is_fast, chat_template, bos_token = True, None, None
    bos_token_id = eos_token_id = pad_token_id = unk_token_id = 0
    all_special_ids: tuple[int, ...] = (0,)
    added_tokens_decoder: Mapping[int, Any] = MappingProxyType({})
    ids = tuple(1 + place % 31 + 31 * (place % 7) for place in range(31 * 7 + LENGTH))

    def __call__(self, texts: str | list[str], **_: Any) -> dict[str, Any]:
        rows = [list(self.ids[int(text) % (31 * 7) :][:LENGTH]) if text.isdecimal() else [1] for text in texts]
        return {"input_ids": rows, "offset_mapping": rows}

    def get_vocab(self) -> dict[str, int]:
        return {"0": 0}


def endless_model() -> TextModel:
    """One block of width 16: ten million tokens in some seconds."""
    config = LlamaConfig(
        hidden_size=16, num_attention_heads=1, head_dim=16, intermediate_size=16, num_hidden_layers=1, vocab_size=256,
        max_position_embeddings=LENGTH, bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    return TextModel(LlamaModel(config).eval(), Counting(), name="endless")


def endless(tokens: int, watch: Callable[[], object] = lambda: None) -> Iterator[str]:
    """Texts of so many tokens in all; `watch` is called now and then."""
    for number in range(tokens // LENGTH):
        if number % 97 == 0:
            watch()
        yield str(number)


def interrupting(after: int) -> Iterator[str]:
    """`TEXTS`, until someone presses Ctrl-C."""
    yield from TEXTS[:after]
    raise KeyboardInterrupt


def killed_and_resumed(work: Callable[[], object], seed: int) -> int:
    """Run `work` in processes that are killed at random points until one ends; how many were killed."""
    chance = random.Random(seed)
    for kills in itertools.count():
        child = os.fork()
        if not child:
            try:
                work()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        time.sleep(chance.uniform(0, 0.02 * (kills + 1)))  # one of them must come to an end
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            return kills
    raise AssertionError


def content(folder: Path) -> dict[str, bytes]:
    """All files of a folder but the drafts that a killed process left."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.startswith(".covec-")}
