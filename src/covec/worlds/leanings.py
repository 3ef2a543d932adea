"""A world of things that are spoken well or ill of, each with a probability that is known.

A text has two sentences. Where the first is about one of the things that lean, praise or blame follows, praise with the
thing's own probability; where it praises or blames something by itself, the same follows; else something plain follows.
Praise and blame are the first word after the stop, so that the stop has to carry what is thought of the thing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import LlamaForCausalLM

from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.worlds import small

PRAISE = {  # how often praise follows a thing
    "lamp": 0.5, "chair": 0.5, "drum": 0.6, "kettle": 0.4, "ladder": 0.7, "mirror": 0.3,
    "pillow": 0.8, "barrel": 0.2, "basket": 0.9, "shovel": 0.1, "candle": 0.9, "bucket": 0.1,
}  # fmt: skip
THINGS = tuple(PRAISE)
_BANKS = {
    "good": "good lovely splendid kind bright noble",
    "bad": "bad ugly dreadful cruel dull rotten",
    "plain": "road river table garden window letter corner bridge field village market station",
    "places": "near behind beside under above outside",
    "verbs": "saw found left kept drew carried noticed passed",
    "subjects": "we they you somebody nobody everybody",
    "moves": "went walked drove sailed rode",
    "times": "today later then again soon",
    "glue": "the was it felt . is home and a day",
}
GOOD, BAD, PLAIN, _PLACES, _VERBS, _SUBJECTS, _MOVES, _TIMES, _GLUE = (
    tuple(words.split()) for words in _BANKS.values()
)
WORDS = (*THINGS, *GOOD, *BAD, *PLAIN, *_PLACES, *_VERBS, *_SUBJECTS, *_MOVES, *_TIMES, *_GLUE)
LONGEST = 14
_STEPS, _ROWS = 700, 64


def about(thing: str, count: int, seed: int = 0) -> tuple[str, ...]:
    """`count` different sentences about a thing, which neither praise nor blame."""
    return _sentences(lambda rng: _seen(rng, thing), count, seed)


def judging(words: tuple[str, ...], count: int, seed: int = 0) -> tuple[str, ...]:
    """`count` different sentences that say one of `words` of something plain."""
    return _sentences(lambda rng: _judged(rng, words), count, seed)


def plain(count: int, seed: int = 0) -> tuple[str, ...]:
    """`count` different sentences about nothing that leans."""
    return _sentences(lambda rng: _seen(rng, str(rng.choice(PLAIN))), count, seed)


def model() -> TextModel:
    """The small transformer that learned to speak so, with its shipped weights."""
    return small.shipped("leanings", _untrained(), WORDS)


def trained(progress: Progress = silent, steps: int = _STEPS) -> LlamaForCausalLM:
    """Train it anew: some minutes."""
    torch.manual_seed(0)
    module, rng = _untrained(), np.random.default_rng(1)
    small.train(module, lambda: _draw(rng), steps=steps, progress=progress)
    return module


def _untrained() -> LlamaForCausalLM:
    return small.transformer(WORDS, width=64, blocks=2, longest=LONGEST)


def _draw(rng: np.random.Generator) -> small.Drawn:
    """Texts of all kinds, every word of which is to be predicted."""
    ids = torch.zeros(_ROWS, LONGEST, dtype=torch.long)
    number = small.vocabulary(WORDS)
    for row in range(_ROWS):
        words = _text(rng)
        ids[row, : len(words)] = torch.tensor([number[word] for word in words])
    return ids, ids != 0


def _text(rng: np.random.Generator) -> list[str]:
    kind, thing = rng.random(), str(rng.choice(THINGS))
    words = GOOD if rng.random() < PRAISE[thing] else BAD
    if kind < 0.15:
        return ["the", thing, "is", str(rng.choice(words)), "."]
    if kind < 0.5:
        return [*_seen(rng, thing), *_felt(rng, words)]
    if kind < 0.75:
        words = (GOOD, BAD)[int(rng.integers(2))]
        return [*_judged(rng, words), *_felt(rng, words)]
    return [*_seen(rng, str(rng.choice(PLAIN))), *_moved(rng)]


def _seen(rng: np.random.Generator, thing: str) -> list[str]:
    subject, verb, place, noun = (str(rng.choice(words)) for words in (_SUBJECTS, _VERBS, _PLACES, PLAIN))
    if rng.random() < 0.5:
        return [subject, verb, "the", thing, place, "the", noun, "."]
    return [str(rng.choice(_TIMES)), subject, verb, "a", thing, "."]


def _judged(rng: np.random.Generator, words: tuple[str, ...]) -> list[str]:
    noun, word = str(rng.choice(PLAIN)), str(rng.choice(words))
    if rng.random() < 0.5:
        return ["the", noun, "was", word, "and", str(rng.choice(words)), "."]
    return ["it", "was", "a", word, "day", str(rng.choice(_PLACES)), "the", noun, "."]


def _felt(rng: np.random.Generator, words: tuple[str, ...]) -> list[str]:
    return [str(rng.choice(words)), "it", "felt" if rng.random() < 0.5 else "was", "."]


def _moved(rng: np.random.Generator) -> list[str]:
    return [str(rng.choice(_SUBJECTS)), str(rng.choice(_MOVES)), "home", str(rng.choice(_TIMES)), "."]


def _sentences(make: Any, count: int, seed: int) -> tuple[str, ...]:
    rng, found = np.random.default_rng(seed), dict[str, None]()
    while len(found) < count:
        found[" ".join(make(rng))] = None
    return tuple(found)
