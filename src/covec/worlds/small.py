"""The small transformers that go with worlds: one token a word, trained by `python -m covec.worlds.train`, shipped.

Their weights lie in `data/`, with their SHA-256 in `data/SHA256SUMS`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from jaxtyping import Bool, Int
from safetensors.torch import load, save
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from covec.errors import ModelError
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.writing import whole_file

DATA = Path(__file__).parent / "data"
SUMS = DATA / "SHA256SUMS"
Network = TypeVar("Network", bound=nn.Module)
PAD, UNKNOWN = "<pad>", "<unknown>"
Drawn = tuple[Int[Tensor, "n tokens"], Bool[Tensor, "n tokens"]]  # texts, and which of their tokens are to be predicted


def vocabulary(words: Sequence[str]) -> dict[str, int]:
    """The id of every word, behind those of the padding and of unknown words."""
    return {word: index for index, word in enumerate((PAD, UNKNOWN, *words))}


def transformer(words: Sequence[str], *, width: int, blocks: int, longest: int) -> LlamaForCausalLM:
    """A transformer over `words`, not trained, in evaluation mode."""
    config = LlamaConfig(
        vocab_size=len(vocabulary(words)),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=blocks,
        num_attention_heads=4,
        max_position_embeddings=longest,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


def tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """One token a word; words are divided by white space."""
    model = Tokenizer(models.WordLevel(vocabulary(words), unk_token=UNKNOWN))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=model, pad_token=PAD, unk_token=UNKNOWN)


def train(
    module: LlamaForCausalLM,
    draw: Callable[[], Drawn],
    *,
    steps: int,
    rate: float = 3e-3,
    decay: float = 0.1,
    progress: Progress = silent,
) -> float:
    """Train on texts as they are drawn, to predict the tokens that are marked; returns the last loss.

    The rate rises over a tenth of the steps and falls to nothing. The global random generator gives the numbers.
    """
    optimiser = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, pct_start=0.1)
    loss = torch.zeros(())
    with progress("training", steps) as bar:
        for _ in range(steps):
            ids, marks = draw()
            logits = module(ids[:, :-1], use_cache=False).logits
            loss = cross_entropy(logits[marks[:, 1:]], ids[:, 1:][marks[:, 1:]])
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            bar.advance(1)
    module.zero_grad()
    return float(loss.detach())


def store(name: str, module: nn.Module) -> Path:
    """Write the weights of `module` as those of the world `name`, and note their hash."""
    path = DATA / f"{name}.safetensors"
    with whole_file(path) as draft:
        draft.write_bytes(save({key: value.contiguous() for key, value in module.state_dict().items()}))
    known = {**_sums(), path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    with whole_file(SUMS) as draft:
        draft.write_text("".join(f"{value}  {file}\n" for file, value in sorted(known.items())), encoding="utf-8")
    return path


def shipped(name: str, module: LlamaForCausalLM, words: Sequence[str]) -> TextModel:
    """`module` with the shipped weights of the world `name`, as a model to read and edit: see `filled`."""
    return TextModel(filled(name, module), tokenizer(words), name=f"world-{name}")


def filled(name: str, module: Network) -> Network:
    """`module` with the shipped weights of the world `name`.

    Raises
    ------
    ModelError
        The file is missing or is not the one that was shipped.
    """
    path = DATA / f"{name}.safetensors"
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != _sums().get(path.name):
        raise ModelError(
            f"{path} is missing or damaged: install covec again, or run python -m covec.worlds.train {name}"
        )
    module.load_state_dict(load(content))
    return module


def _sums() -> dict[str, str]:
    """The hashes of the shipped files by their names."""
    lines = SUMS.read_text(encoding="utf-8").splitlines() if SUMS.is_file() else []
    return {name: value for value, _, name in (line.partition("  ") for line in lines)}
