"""Random soft prompts' claim: noise behind a prompt opens up the first words, and later ones settle (arXiv:2605.11936).

Ten short chats with the embedded model, greedy, six draws of eight vectors each behind the header of the reply. The
entropy is that of the mean over draws of what may come next, against the prompt's own at the same step.

Beside it stand what would do as well: as many random tokens in place of the vectors, and the temperature at which the
first word has the same entropy; and how likely the continuations are to the model that reads the prompt alone. Pass@N
needs a model that solves problems, and is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.models.load import load
from covec.models.text import TextModel
from covec.models.tokens import Tokenized
from covec.worlds.random_soft_prompts import (
    CHATS,
    LENGTH,
    Continued,
    at_entropy,
    continued,
    distinct,
    likelihood,
    noise,
)

DRAWS, STEPS = 6, 8
GAIN, KEPT, DIFFERENT = 1.0, 0.5, 3.0  # the numbers of the rules: nats, a share of the excess, first words


@dataclass(frozen=True)
class _Setting:
    """Chats, draws a chat, and steps."""

    chats: int = len(CHATS)
    draws: int = DRAWS
    steps: int = STEPS


REDUCED = _Setting(chats=2, draws=3, steps=2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    prompts = model.tokenize(CHATS[: setting.chats], reply=True, offsets=False)
    found = [_Chat.run(model, prompt, setting, seed) for seed, prompt in enumerate(prompts)]
    return Claim("random-soft-prompts", tuple(_figures(found, setting)))


@dataclass(frozen=True)
class _Chat:
    """The continuations of one chat: alone, behind vectors of noise, behind random tokens; and their likelihoods."""

    alone: Continued
    injected: Continued
    tokens: Continued
    likely: tuple[float, float]

    @classmethod
    def run(cls, model: TextModel, prompt: Tokenized, setting: _Setting, seed: int) -> _Chat:
        alone = continued(model, prompt, None, setting.steps)
        injected = continued(model, prompt, noise(model, setting.draws, seed=seed), setting.steps)
        table = model.module.get_input_embeddings().weight.detach()  # type: ignore[operator]
        generator = torch.Generator().manual_seed(seed)
        drawn = table[torch.randint(len(table), (setting.draws, LENGTH), generator=generator)]
        own, others = (likelihood(model, prompt, one.tokens) for one in (alone, injected))
        return cls(alone, injected, continued(model, prompt, drawn, 1), (float(own), float(others.mean())))

    def excess(self, step: int) -> float:
        """By how much the mixture's entropy exceeds that of the prompt alone."""
        return float(self.injected.mixture()[step] - self.alone.entropies[0, step])


def _figures(chats: list[_Chat], setting: _Setting) -> Iterator[ClaimFigure]:
    last, count = setting.steps - 1, len(chats)
    first, later = ([chat.excess(step) for chat in chats] for step in (0, last))
    opened = mean_figure(first, f"nats of the mixture above the prompt alone at step 0, mean over {count} chats")
    yield above("entropy of the first word", opened, 0.0, GAIN)
    settled = mean_figure(later, f"nats of the mixture above the prompt alone at step {last}")
    rule = f"at most {KEPT:g} of the baseline, the excess at step 0"
    yield ClaimFigure("excess at the last step", settled, opened, rule, settled.value <= KEPT * opened.value)
    words = mean_figure([_different(chat.injected) for chat in chats], f"different first words of {setting.draws}")
    yield ClaimFigure("first words", words, DIFFERENT, "at least the baseline", words.value >= DIFFERENT)
    for step in (0, last):
        own = mean_figure([float(chat.injected.entropies[:, step].mean()) for chat in chats], "nats, mean over draws")
        plain = mean_figure([float(chat.alone.entropies[0, step]) for chat in chats], "nats, of the prompt alone")
        yield shown(f"entropy of single draws at step {step}", own, plain)
    rival = mean_figure([_different(chat.tokens) for chat in chats], f"behind {LENGTH} random tokens")
    yield shown("first words against those behind random tokens", words, rival)
    warm = [
        distinct(at_entropy(chat.alone.chances[0, 0], float(chat.injected.mixture()[0])), setting.draws)
        for chat in chats
    ]
    yield shown("first words against a temperature of equal entropy", words, mean_figure(warm, "expected in samples"))
    likely = np.array([chat.likely for chat in chats])
    noisy = mean_figure(likely[:, 1], "mean log-probability a token behind the prompt alone")
    yield shown("how likely the continuations are", noisy, mean_figure(likely[:, 0], "the prompt's own"))


def _different(found: Continued) -> float:
    return float(len(np.unique(found.tokens[:, 0].numpy())))
