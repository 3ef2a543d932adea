"""Random soft prompts: embeddings of noise behind a prompt, the null of every prompt and vector that was learned.

"From Noise to Diversity: Random Embedding Injection in LLM Reasoning", arXiv:2605.11936, of which no more than the
abstract could be had. Each draw is new, and as large as the entries of the model's own table of embeddings are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb

import torch
from jaxtyping import Float, Int
from torch import Tensor

from covec.activations.split import Split
from covec.errors import ExamplesError
from covec.models.batching import TOKEN_BUDGET, pack, pad
from covec.models.text import TextModel
from covec.models.tokens import Tokenized

LENGTH = 8  # vectors of a draw
QUESTIONS = (
    "Name a good breakfast.",
    "Tell me something about the sea.",
    "How do I clean a window?",
    "Write a line about winter.",
    "What is a bridge for?",
    "Give me an idea for a birthday present.",
    "Why is the sky blue?",
    "Recommend a game for two people.",
    "What makes a good teacher?",
    "Describe a busy street.",
)
CHATS = tuple([{"role": "user", "content": question}] for question in QUESTIONS)


@dataclass(frozen=True)
class Continued:
    """Greedy continuations: their tokens, and the log-probabilities of all tokens at each step."""

    tokens: Int[Tensor, "rows steps"]
    chances: Float[Tensor, "rows steps v"]

    @property
    def entropies(self) -> Float[Tensor, "rows steps"]:
        """Entropy of what may come next, in nats."""
        return entropy(self.chances)

    def mixture(self) -> Float[Tensor, "steps"]:
        """Entropy of the mean over all rows of what may come next, in nats."""
        return entropy(self.chances.logsumexp(0) - torch.tensor(float(len(self.chances))).log())


def entropy(chances: Float[Tensor, "*rows v"]) -> Float[Tensor, "*rows"]:
    """Of log-probabilities, in nats."""
    return -(chances.exp() * chances.clamp_min(-1e9)).sum(-1)


def noise(model: TextModel, draws: int, length: int = LENGTH, seed: int = 0) -> Float[Tensor, "draws length d"]:
    """Independent normal vectors with the mean and the variance of all entries of the table of embeddings."""
    if draws < 1 or length < 1:
        raise ExamplesError(f"{draws} draws of {length} vectors are none: give one at least")
    table = model.module.get_input_embeddings().weight.detach().float()  # type: ignore[operator]
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(draws, length, table.shape[1], generator=generator)
    return float(table.mean()) + float(table.std()) * normal


def continued(
    model: TextModel, prompt: Tokenized, vectors: Float[Tensor, "rows length d"] | None = None, steps: int = 8
) -> Continued:
    """The greedy continuation of a prompt behind which each row of vectors stands in turn, of itself for None.

    What is added takes places of its own in the sequence, so that positions count it.
    """
    split, behind = Split(model, "embed"), 0 if vectors is None else vectors.shape[1]
    ids = [[*prompt.ids, *[model.pad_id] * behind] for _ in range(1 if vectors is None else len(vectors))]
    first, chances = len(prompt.ids), []

    def put(stream: Tensor) -> Tensor:
        if vectors is None:
            return stream
        changed = stream.clone()
        changed[:, first : first + behind] = vectors.to(stream)
        return changed

    with torch.no_grad():
        for _ in range(steps):
            rows = [replace(prompt, ids=tuple(row)) for row in ids]
            batch = pad(rows, range(len(rows)), pad_id=model.pad_id, masked=False, device=model.device)
            logits = split.logits(split.decode(batch, None, put)[:, -1])
            chances.append(logits.float().log_softmax(-1).cpu())
            for row, token in zip(ids, logits.argmax(-1).tolist(), strict=True):
                row.append(token)
    return Continued(torch.tensor(ids)[:, first + behind :], torch.stack(chances, 1))


def likelihood(model: TextModel, prompt: Tokenized, tokens: Int[Tensor, "rows steps"]) -> Float[Tensor, "rows"]:
    """Mean log-probability a token of continuations behind the prompt alone: how much they read like its own."""
    rows = [replace(prompt, ids=(*prompt.ids, *row)) for row in tokens.tolist()]
    split, found = Split(model, "embed"), torch.zeros(len(rows))
    with torch.no_grad():
        for some in pack([len(row.ids) for row in rows], TOKEN_BUDGET):
            batch = pad(rows, some, pad_id=model.pad_id, masked=False, device=model.device)
            hidden = split.decode(batch, None)[:, len(prompt.ids) - 1 : -1]
            chances = split.logits(hidden.flatten(0, 1)).float().log_softmax(-1).unflatten(0, hidden.shape[:2])
            found[some] = chances.gather(-1, tokens[some][..., None])[..., 0].mean(1)
    return found


def at_entropy(chances: Float[Tensor, "v"], wanted: float) -> Float[Tensor, "v"]:
    """Log-probabilities at the temperature at which their entropy is `wanted`, or at the nearest of 0.01 to 100."""
    low, high = -2.0, 2.0
    for _ in range(40):
        middle = (low + high) / 2
        found = (chances / 10**middle).log_softmax(-1)
        low, high = (middle, high) if float(entropy(found)) < wanted else (low, middle)
    return found


def distinct(chances: Float[Tensor, "v"], samples: int) -> float:
    """How many different tokens so many independent samples have on average."""
    return float((1 - (1 - chances.double().exp()) ** samples).sum())


def pass_at(samples: int, right: int, allowed: int) -> float:
    """The chance that one of `allowed` samples is right, where `right` of `samples` were: the unbiased estimate."""
    if not (0 <= right <= samples and 1 <= allowed <= samples):
        raise ExamplesError(f"{right} of {samples} samples are right and {allowed} allowed: these are no such counts")
    return 1 - comb(samples - right, allowed) / comb(samples, allowed)
