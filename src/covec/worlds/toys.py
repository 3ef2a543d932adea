"""Two toy language models in which the truth is known: a direction that later layers read, and one that none reads.

Words come in pairs, `good3` and `bad3`, whose embeddings are equal but for the sign along a planted direction; block 0
carries that direction to the tokens that follow. Up to there both toys are the same, so the concept is as decodable in
one as in the other. In one of them block 1 turns the direction into another, which the head turns into the
probability of good and bad words. In the other no weight above block 0 has a component along it. All else is random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from covec.concepts.examples import Examples
from covec.models.text import TextModel

FILLERS = tuple(f"word{index}" for index in range(24))
GOOD = tuple(f"good{index}" for index in range(6))
BAD = tuple(f"bad{index}" for index in range(6))
WORDS, SHOWN = 10, 3  # words of a text, and how many of them show the concept
WIDTH, HEADS, BLOCKS = 64, 4, 2
PLANTED = 1.0  # how far a word of the concept lies along the direction; else embeddings have about unit length
CARRY, READ = 0.7, 2.0  # gains of the weights that carry the direction along the text, and of those that read it


@dataclass(frozen=True)
class Toy:
    """A toy model, texts with good and with bad words, neutral texts without either, and the planted direction."""

    model: TextModel
    examples: Examples
    neutral: tuple[str, ...]
    direction: Float[Tensor, "d"]


def toy(seed: int = 0, *, read: bool, texts: int = 96) -> Toy:
    """The toy of `seed` in which later layers `read` the planted direction, or do not.

    Parameters
    ----------
    texts
        Texts a class, and neutral texts.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, direction = _planted(read)
    rng = np.random.default_rng(seed)
    good, bad, neutral = (tuple(_texts(rng, words, texts)) for words in (GOOD, BAD, FILLERS))
    examples = Examples.from_lists(good, bad, name="good words")
    return Toy(TextModel(module, _tokenizer(), name=f"toy-{seed}"), examples, neutral, direction)


def _texts(rng: np.random.Generator, words: Sequence[str], count: int) -> Iterator[str]:
    """Texts of fillers, some of which are replaced by `words`, all different."""
    seen: set[str] = set()
    while len(seen) < count:
        text = rng.choice(FILLERS, WORDS)
        text[rng.choice(WORDS, SHOWN, replace=False)] = rng.choice(words, SHOWN)
        joined = " ".join(text)
        if joined not in seen:
            seen.add(joined)
            yield joined


def _planted(read: bool) -> tuple[LlamaForCausalLM, Float[Tensor, "d"]]:
    """A random Llama with the direction planted by hand."""
    vocabulary = _vocabulary()
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_hidden_layers=BLOCKS,
        num_attention_heads=HEADS,
        max_position_embeddings=64,
        initializer_range=WIDTH**-0.5,
        pad_token_id=vocabulary["<pad>"],
        bos_token_id=None,
        eos_token_id=vocabulary["<pad>"],
    )
    module = LlamaForCausalLM(config).eval()
    direction, answer = torch.linalg.qr(torch.randn(WIDTH, 2)).Q.T
    good, bad = ([vocabulary[word] for word in words] for words in (GOOD, BAD))
    with torch.no_grad():
        for reader in _readers(module):
            reader.weight -= torch.outer(reader.weight @ direction, direction)
        embedding, head = module.model.embed_tokens.weight, module.lm_head.weight
        embedding -= torch.outer(embedding @ direction, direction)
        embedding[bad] = embedding[good]
        embedding[good] += PLANTED * direction
        embedding[bad] -= PLANTED * direction
        _connect(module.model.layers[0].self_attn, direction, direction, CARRY)
        if read:
            _connect(module.model.layers[1].self_attn, direction, answer, READ)
        head[good] += answer
        head[bad] -= answer
    return module, direction


def _connect(attention: Any, source: Float[Tensor, "d"], target: Float[Tensor, "d"], gain: float) -> None:
    """Let the first value of the first head read `source` and write `target`."""
    attention.v_proj.weight[0] = gain * source
    attention.o_proj.weight[:, 0] = gain * target


def _readers(module: LlamaForCausalLM) -> Iterator[nn.Linear]:
    """All maps that read the residual stream."""
    for layer in module.model.layers:
        yield from (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj)
        yield from (layer.mlp.gate_proj, layer.mlp.up_proj)
    yield module.lm_head


def _vocabulary() -> dict[str, int]:
    return {word: index for index, word in enumerate(("<pad>", *FILLERS, *GOOD, *BAD))}


def _tokenizer() -> PreTrainedTokenizerFast:
    """One token a word."""
    tokenizer = Tokenizer(models.WordLevel(_vocabulary(), unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<pad>")
