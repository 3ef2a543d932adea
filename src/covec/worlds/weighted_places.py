"""Texts of words with known weights at places with known gains, and a small transformer that adds up their products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from covec.models.text import TextModel

PLACES = 8
GAINS = tuple(0.7**place for place in range(PLACES))  # skewed: the first place counts twelve times as much as the last
WEIGHTS = {f"word{index}": 0.1 * (index + 1) for index in range(12)}
BLANK, YES, NO = "blank", "yes", "no"  # a word of no weight, and the two whose logits differ by the sum
_VOCABULARY = ("<pad>", "<start>", "<end>", BLANK, YES, NO, *WEIGHTS)
_WIDTH = 48


@dataclass(frozen=True)
class World:
    """The model, and texts of `PLACES` different words each.

    After a text the log-probabilities of `yes` and `no` differ by the sum of the words' weights times the places'
    gains, up to what the training left: `error` is the mean square of that, as a share of the sum's variance.
    """

    model: TextModel
    texts: tuple[str, ...]
    error: float


def world(steps: int = 1500, texts: int = 12, seed: int = 0) -> World:
    """Train the transformer, a few seconds a thousand steps, on random texts in some of whose places blanks stand."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, error = _trained(steps)
    rng = np.random.default_rng(seed)
    written = tuple(" ".join(rng.choice(list(WEIGHTS), PLACES, replace=False)) for _ in range(texts))
    return World(TextModel(module.eval(), _tokenizer(), name="weighted-places"), written, error)


def _trained(steps: int) -> tuple[GPT2LMHeadModel, float]:
    config = GPT2Config(
        vocab_size=len(_VOCABULARY),
        n_embd=_WIDTH,
        n_head=4,
        n_layer=2,
        n_positions=PLACES + 2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    module = GPT2LMHeadModel(config)
    optimiser = torch.optim.Adam(module.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    for _ in range(steps):
        ids = _drawn(128)
        loss = (_difference(module, ids) - _truth(ids)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        ids = _drawn(512)
        truth = _truth(ids)
        error = float((_difference(module, ids) - truth).square().mean() / truth.var())
    module.zero_grad()
    return module, error


def _drawn(count: int) -> Int[Tensor, "n tokens"]:
    """Random texts, between their marks; three words in ten are blank."""
    words = torch.randint(_VOCABULARY.index(NO) + 1, len(_VOCABULARY), (count, PLACES))
    words = torch.where(torch.rand(count, PLACES) < 0.3, _VOCABULARY.index(BLANK), words)
    return torch.cat([torch.full((count, 1), 1), words, torch.full((count, 1), 2)], 1)


def _truth(ids: Int[Tensor, "n tokens"]) -> Float[Tensor, "n"]:
    weights = torch.tensor([WEIGHTS.get(word, 0.0) for word in _VOCABULARY])
    return weights[ids[:, 1:-1]] @ torch.tensor(GAINS)


def _difference(module: GPT2LMHeadModel, ids: Int[Tensor, "n tokens"]) -> Float[Tensor, "n"]:
    logits = module(ids, use_cache=False).logits[:, -1]
    return logits[:, _VOCABULARY.index(YES)] - logits[:, _VOCABULARY.index(NO)]


def _tokenizer() -> PreTrainedTokenizerFast:
    """One token a word, between a mark of the start and one of the end."""
    vocabulary = {word: index for index, word in enumerate(_VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", 1), ("<end>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<start>", eos_token="<end>", pad_token="<pad>"
    )
