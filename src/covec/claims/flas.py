"""FLAS's claim: one flow that is told its concept in words steers to concepts that it was not trained on (2605.05892).

Sentences about twenty kinds of things train it at block 20 of the embedded model; it is judged on sentences about four
others, read behind their first words, which fit any kind. It trains edits, and may take five minutes. The rival is the
best that one vector for all concepts does: the mean over training concepts of the difference between their texts and
neutral ones, its strength chosen on training texts. The integrator is checked on a known field of rotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from covec.activations.answers import Answered
from covec.activations.capture import capture_tokens
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import at_least, mean_figure, shown
from covec.concepts.packaged import neutral_texts
from covec.edits.algebra import Add, Edit
from covec.edits.flow import Flow, start
from covec.edits.objectives import FlowMatching, Reading
from covec.edits.training import Settings, train
from covec.models.load import load
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.statistics.proportions import wilson
from covec.steer.flas import SETTINGS, Flas
from covec.worlds.things import FRAMES, KINDS, framed, things
from covec.worlds.word_categories import word_categories

HELD = ("colours", "countries", "months", "body parts")
SITE = Site("resid", 20)
SELECTIVE, WIDTH = 0.75, 16  # the number of a rule; of the field of rotation
STRENGTHS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class _Setting:
    """Texts of each kind, kinds that train, steps, and steps on the field of rotation."""

    texts: int = 24
    kinds: int = len(KINDS)
    held: int = 12
    steps: int = 120
    rotation: int = 400


REDUCED = _Setting(4, 3, 2, 3, 20)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    seen = {_told(kind): _answered(model, things(kind), setting.texts) for kind in KINDS[: setting.kinds]}
    held = {_told(kind): _answered(model, word_categories()[kind][:12], setting.held) for kind in HELD}
    steering = Flas(SITE, replace(SETTINGS, steps=setting.steps)).fit_concepts(model, seen)
    figures = [*_held_out(model, steering, seen, held), *_path(model, steering, held), _rotation(setting)]
    return Claim("flas", tuple(figures))


def _told(kind: str) -> str:
    return f"text about {kind}"


def _answered(model: TextModel, words: Sequence[str], count: int) -> Answered:
    """Sentences with two of the words, each split behind its neutral beginning."""
    pairs = list(permutations(words, 2))
    chosen = np.random.default_rng(len(pairs)).permutation(len(pairs))[:count]
    sentences = [(*pairs[place], row % len(FRAMES)) for row, place in enumerate(chosen)]
    begun = [FRAMES[frame].partition(" {one}")[0] for *_, frame in sentences]
    whole = [framed(one, other, frame) for one, other, frame in sentences]
    rest = [text[len(first) :] for text, first in zip(whole, begun, strict=True)]
    return Answered.of(model, begun, rest)


def _nats(reading: Reading, edits: Sequence[Edit]) -> Float[np.ndarray, "n"]:
    """Nats a token of every text."""
    with torch.no_grad():
        said = reading.read(edits, range(len(reading.answered)))
    return np.array([float(said.losses[said.row == place].mean()) for place in range(len(reading.answered))])


def _held_out(
    model: TextModel, steering: Flas, seen: dict[str, Answered], held: dict[str, Answered]
) -> Iterator[ClaimFigure]:
    """What the flow does to texts of concepts that it was not trained on."""
    readings = {name: Reading(some) for name, some in held.items()}
    plain = np.concatenate([_nats(one, []) for one in readings.values()])
    right = {name: _nats(one, [steering.told(name)]) for name, one in readings.items()}
    told = np.concatenate(list(right.values()))
    how = f"nats a token less than unsteered, {len(plain)} texts of {len(held)} concepts"
    fall = mean_figure(plain - told, how)
    yield ClaimFigure("held-out concepts: fall of the loss", fall, 0.0, "above the baseline", fall.value > 0)
    vector, strength = _constant(model, seen)
    edit = Add(site=SITE, shift=strength * vector)
    one = mean_figure(plain - np.concatenate([_nats(reading, [edit]) for reading in readings.values()]),
                      f"one vector for all concepts, strength {strength:g}")  # fmt: skip
    yield ClaimFigure("held-out concepts: fall, against one vector", fall, one, "above the baseline",
                      fall.value > one.value)  # fmt: skip
    names = list(held)
    others = {name: names[(place + 1) % len(names)] for place, name in enumerate(names)}
    wrong = {name: _nats(one, [steering.told(others[name])]) for name, one in readings.items()}
    better = np.concatenate([right[name] < wrong[name] for name in names])
    chosen = _won(better, "texts of which the loss is lower with the right words")
    yield at_least("held-out concepts: right words beat wrong ones", chosen, SELECTIVE)
    astray = plain - np.concatenate(list(wrong.values()))
    yield shown("held-out concepts: fall of the loss under wrong words", mean_figure(astray, "nats a token"))
    known = list(seen)[: len(held)]
    rows = [Reading(seen[name]) for name in known]
    falls = [_nats(one, []) - _nats(one, [steering.told(name)]) for name, one in zip(known, rows, strict=True)]
    yield shown("training concepts: fall of the loss", mean_figure(np.concatenate(falls), "nats a token"))
    own = [
        _nats(one, [steering.told(name)]) < _nats(one, [steering.told(known[place - 1])])
        for place, (name, one) in enumerate(zip(known, rows, strict=True))
    ]
    yield shown("training concepts: right words beat wrong ones", _won(np.concatenate(own), "texts"))


def _won(better: Bool[np.ndarray, "n"], how: str) -> Figure:
    share = float(better.mean())
    low, high = wilson(share, len(better))
    return Figure(share, low, high, 0.5, len(better), how)


def _constant(model: TextModel, seen: dict[str, Answered]) -> tuple[Float[Tensor, "d"], float]:
    """The mean vector of the training concepts, and the strength at which it does best on a few of their texts."""
    neutral = model.capture(neutral_texts(), SITE, "mean")[SITE].mean(0)
    vector = torch.stack([_mean(model, some) for some in seen.values()]).mean(0) - neutral
    few = [some.subset(range(2)) for some in seen.values()]
    tokens, answers = ([part for one in few for part in getattr(one, name)] for name in ("tokens", "answers"))
    reading = Reading(Answered(model, tuple(tokens), tuple(answers)))
    losses = {size: _nats(reading, [Add(site=SITE, shift=size * vector)]).mean() for size in STRENGTHS}
    return vector, min(losses, key=lambda size: losses[size])


def _mean(model: TextModel, answered: Answered) -> Float[Tensor, "d"]:
    where = Position("content", "mean")
    return capture_tokens(model, answered.tokens, SITE, [where])[where][SITE].mean(0)


def _path(model: TextModel, steering: Flas, held: dict[str, Answered]) -> Iterator[ClaimFigure]:
    """How curved the flow is, and what its steps are worth."""
    name, some = next(iter(held.items()))
    reading, edit = Reading(some), steering.told(name)
    rows = model.capture([item.text for item in some.tokens], SITE, "content/none")[SITE][None] / edit.unit
    with torch.no_grad():
        first = edit.velocity(rows, 0.0, [0])
        x = rows
        for step in range(edit.steps):
            last = edit.velocity(x, step / edit.steps, [0])
            x = x + last / edit.steps
    curved = 1 - torch.nn.functional.cosine_similarity(first, last, dim=-1)[0]
    how = "one less the cosine of the first and the last velocity, mean over tokens"
    figure = mean_figure(curved.numpy(), how)
    yield ClaimFigure("curvature", figure, 0.0, "above the baseline", figure.value > 0)
    steps = [
        mean_figure(_nats(reading, [steering.told(name, steps=count)]), f"nats a token, {count} steps")
        for count in (3, 1)
    ]
    yield shown("three steps beside one", *steps)


def _rotation(setting: _Setting) -> ClaimFigure:
    """A flow that learned the velocities of a rotation: where it ends, by the number of steps."""
    turn = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(0))
    turn = (turn - turn.T) / WIDTH**0.5

    def drawn(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        x = torch.randn(64, WIDTH, generator=generator)
        return x, torch.rand(64, generator=generator), x @ turn.T

    made: dict[str, Any] = {**start(WIDTH), "words": torch.ones(1, 1, WIDTH), "counts": (1,)}
    (field,) = train(
        [Flow(site=SITE, **made)], FlowMatching(drawn), Settings(steps=setting.rotation, rate=1e-2, cosine=True)
    ).edits
    x = torch.randn(1, 256, WIDTH, generator=torch.Generator().manual_seed(1))
    wanted = x @ torch.matrix_exp(turn).T

    def missed(velocity: Callable[[Tensor, float], Tensor], steps: int) -> float:
        h = x
        for step in range(steps):
            h = h + velocity(h, step / steps) / steps
        return float((h - wanted).norm(dim=-1).mean() / wanted.norm(dim=-1).mean())

    with torch.no_grad():
        found = {steps: missed(lambda h, time: field.velocity(h, time, [0]), steps) for steps in (1, 4, 32)}
    exact = missed(lambda h, _: h @ turn.T, 4)
    how = "miss of the end at 4 steps, as a share of its length; " + ", ".join(
        f"{n}: {e:.3f}" for n, e in found.items()
    )
    figure = Figure(found[4], n=256, how=f"{how}; the exact field at 4 steps: {exact:.3f}")
    floor = Figure(found[1] / 4 + found[32], how="a quarter of the miss at 1 step, and what is left at 32")
    return ClaimFigure("integrator on a rotation", figure, floor, "at most the baseline", found[4] <= floor.value)
