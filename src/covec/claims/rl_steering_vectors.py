"""Vectors trained by reward: one of them does most of what adapters of all weights do (2509.06608).

The embedded model is asked for a sum in one number, and rewarded where what it writes begins with a digit: 16% of what
it writes by itself does. After the card's plain form, `Reply with one number: a+b=`, 94% does, too much to learn from.
It trains edits, and may take five minutes; the model runs in bfloat16. That a number comes is not that it is the right
one: how often it is stands beside. Adapters are of rank 4, in all linear maps of all blocks, and see as many samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from covec.activations.answers import Answered
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import mean_figure, shown
from covec.claims._low_rank import LowRank
from covec.edits.objectives import PolicyGradient, Reading, sampled
from covec.edits.trainable import TrainableAdd
from covec.edits.training import Settings, train
from covec.models.load import load
from covec.models.positions import Position
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.statistics.figure import Figure
from covec.steer.rl_steering_vectors import RlSteeringVectors

LAST, MIDDLE, RANK = 29, 15, 4
GAIN, SHARE, RISEN, OF_TOP, KEPT = 0.3, 0.8, 5, 10, 0.7  # the numbers of the rules
RATE, ADAPTER_RATE = 3e-2, 1e-3


@dataclass(frozen=True)
class _Setting:
    """Steps, prompts a step, continuations a prompt, held-out prompts, and tokens that are written."""

    steps: int = 40
    prompts: int = 4
    group: int = 8
    held: int = 24
    new_tokens: int = 3
    blocks: int = 30  # that adapters change


REDUCED = _Setting(2, 2, 2, 3, 2, 1)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="bfloat16")
    sums = [(left, right) for left in range(1, 10) for right in range(1, 10)]
    order = np.random.default_rng(0).permutation(len(sums))
    held, seen = ([sums[row] for row in part] for part in (order[: setting.held], order[setting.held :]))
    trained = {block: _vector(model, seen, block, setting) for block in (LAST, MIDDLE)}
    return Claim("rl-steering-vectors", tuple(_figures(_Bench(model, held, setting), seen, trained, setting)))


def _asked(numbers: tuple[int, int]) -> str:
    return f"Q: What is {numbers[0]}+{numbers[1]}? Reply with one number. A:"


def _digit(text: str) -> float:
    return float(text.strip()[:1].isdecimal())


def _vector(model: TextModel, seen: Sequence[tuple[int, int]], block: int, setting: _Setting) -> TrainableAdd:
    steering = RlSteeringVectors(
        f"resid.{block}",
        settings=Settings(steps=setting.steps, rate=RATE),
        group=setting.group,
        prompts=setting.prompts,
        new_tokens=setting.new_tokens,
    )
    (found,) = steering.trained(model, list(map(_asked, seen)), lambda _, text: _digit(text))
    return found


def _adapters(model: TextModel, seen: Sequence[tuple[int, int]], setting: _Setting) -> LowRank:
    """Trained on as many samples."""
    adapters = LowRank.of(model, range(30 - setting.blocks, 30), RANK)
    objective = PolicyGradient(
        adapters.model,
        list(map(_asked, seen)),
        lambda _, text: _digit(text),
        group=setting.group,
        prompts_a_step=setting.prompts,
        new_tokens=setting.new_tokens,
    )
    (found,) = train([adapters], objective, Settings(steps=setting.steps, rate=ADAPTER_RATE)).edits
    return found


class _Bench:
    """What is written after held-out sums."""

    def __init__(self, model: TextModel, held: Sequence[tuple[int, int]], setting: _Setting) -> None:
        self.model, self.held, self.setting = model, held, setting
        self.plain = self.reward([])

    def reward(
        self, edits: Sequence[Any], model: TextModel | None = None, of: Callable[[str, int], float] | None = None
    ) -> Float[np.ndarray, "n"]:
        """Mean over continuations of every sum, of whether they begin with a digit or of what `of` says."""
        model = model or self.model
        tokens = list(model.tokenize(list(map(_asked, self.held)), offsets=False))
        times = 4
        written = sampled(model, tokens, edits, times, self.setting.new_tokens, seed=1)
        texts = [model.tokenizer.decode(ids, skip_special_tokens=True) for ids in written]
        totals = [sum(numbers) for numbers in self.held for _ in range(times)]
        found = [_digit(text) if of is None else of(text, total) for text, total in zip(texts, totals, strict=True)]
        return np.array(found).reshape(-1, times).mean(1)

    def first(self, edits: Sequence[Any]) -> Float[torch.Tensor, "v"]:
        """How likely each token is to come first, mean over the sums."""
        answered = Answered.of(self.model, list(map(_asked, self.held)), ["0"] * len(self.held))
        with torch.no_grad():
            said = Reading(answered).read(edits, range(len(self.held)))
        places = [int((said.row == row).nonzero()[0]) for row in range(len(self.held))]
        return said.logits[places].softmax(1).mean(0)


def _figures(
    bench: _Bench, seen: Sequence[tuple[int, int]], trained: dict[int, TrainableAdd], setting: _Setting
) -> Iterator[ClaimFigure]:
    adapters = _adapters(bench.model, seen, setting)
    of_adapters = bench.reward([], adapters.model) - bench.plain
    how = f"rise of the share of continuations that begin with a digit, {len(bench.held)} held-out sums"
    rival = mean_figure(of_adapters, f"{how}, adapters of rank {RANK}")
    yield shown("share without training", mean_figure(bench.plain, "share of continuations that begin with a digit"))
    gains = {}
    for block, edit in trained.items():
        gains[block] = bench.reward([edit]) - bench.plain
        gain = mean_figure(gains[block], how)
        yield ClaimFigure(f"block {block}: gain", gain, GAIN, "at least the baseline", gain.value >= GAIN)
        rule = f"at least {SHARE} of the baseline, that of adapters"
        enough = gain.value >= SHARE * rival.value
        yield ClaimFigure(f"block {block}: gain, against adapters", gain, rival, rule, enough)
    yield from _last(bench, trained[LAST], gains[LAST])
    for block, edit in trained.items():
        drawn = torch.randn(len(edit.shift), generator=torch.Generator().manual_seed(block))
        random = replace(edit, shift=drawn * edit.shift.norm() / drawn.norm())
        gain = mean_figure(bench.reward([random]) - bench.plain, f"{how}, a random vector of the same norm")
        reach = 0.1 * float(gains[block].mean())
        rule = "at most a tenth of the baseline, the trained vector's"
        own = mean_figure(gains[block], how)
        yield ClaimFigure(f"block {block}: gain of a random vector", gain, own, rule, gain.value <= reach)
    right = [bench.reward(edits, of=_right) for edits in ([trained[LAST]], [])]
    names = ("share that begins with the right number, under the last vector", "without it")
    yield shown("right answers", *(mean_figure(one, name) for one, name in zip(right, names, strict=True)))


def _right(text: str, total: int) -> float:
    digits = "".join(sign if sign.isdecimal() else " " for sign in text).split()
    return float(bool(digits) and text.strip().startswith(str(total)) and digits[0] == str(total))


def _last(bench: _Bench, edit: TrainableAdd, gain: np.ndarray) -> Iterator[ClaimFigure]:
    """What the last block's vector is: a bias of the first token."""
    rises = bench.first([edit]) > bench.first([])
    top = Vocabulary(bench.model).logits(edit.added[None])[0].topk(OF_TOP).indices.cpu()
    risen = Figure(float(rises.cpu()[top].sum()), n=OF_TOP, how=f"of the {OF_TOP} tokens that it speaks for most, how "
                   "many come first likelier with it")  # fmt: skip
    yield ClaimFigure("words of the last vector", risen, RISEN, "at least the baseline", risen.value >= RISEN)
    alone = bench.reward([replace(edit, position=Position("last"))]) - bench.plain
    kept = mean_figure(alone, "gain where it is added at the last token of the prompt alone")
    whole, rule = mean_figure(gain, "added everywhere"), f"at least {KEPT} of the baseline"
    yield ClaimFigure("gain from the first token", kept, whole, rule, kept.value >= KEPT * whole.value)
