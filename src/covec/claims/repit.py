"""RepIt's claim: a vector without what its category shares with others acts on its own category (arXiv:2509.13281).

Vectors with a strong common part, where the truth is known; and six topics in the embedded model, whose vectors are
added to neutral prompts while the probability of words of every topic is read.

Where the card leaves a choice: vectors are means over the tokens of a sentence, less those of 25 neutral prompts; they
are added at block 18, and 13 other neutral prompts are continued; the effect that all methods are brought to is half of
what the plain difference of means does at its own length; the share is the finder's own choice. Ratios are geometric
means over topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.concepts.packaged import neutral_prompts
from covec.edits.algebra import Add
from covec.edits.encoded import encoded
from covec.find.repit import RepIt, isolated
from covec.models.load import load
from covec.models.positions import Position
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.statistics.figure import Figure
from covec.worlds.topics import TOPICS, about, asked

SHARE = 0.99  # of the world where the truth is known
GAIN, COSINE, SAME = 1.5, 0.3, 0.8  # the numbers of the rules


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    topics: tuple[str, ...] = TOPICS
    prompts: int = 12
    many: int = 40
    block: int = 18
    lengths: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    worlds: int = 10


REDUCED = _Setting(TOPICS[:2], 6, 8, 28, (1.0,), 2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    captured = _captured(model, setting)
    figures = *_planted(setting), *_selectivity(model, setting, captured), _prompts(setting, captured)
    return Claim("repit", figures)


def _planted(setting: _Setting) -> Iterator[ClaimFigure]:
    """Six vectors with a common part twice as long as their own, and noise a tenth as long."""
    gains, left = [], []
    for seed in range(setting.worlds):
        generator = torch.Generator().manual_seed(seed)
        axes = torch.linalg.qr(torch.randn(576, 7, generator=generator, dtype=torch.float64)).Q.T
        noise = torch.randn(6, 576, generator=generator, dtype=torch.float64) * 0.1 / 576**0.5
        vectors, own = 2 * axes[:1] + axes[1:] + noise, axes[1]
        found, plain = (isolated(vectors[0], vectors[1:], share) for share in (SHARE, 0.0))
        gains.append(float(found @ own / found.norm() - plain @ own / plain.norm()))
        span = torch.linalg.qr(vectors[1:].T).Q
        left.append(float((span.T @ found).square().sum() / (span.T @ plain).square().sum()))
    gain = mean_figure(gains, f"gain in cosine to the part of its own at a share of {SHARE}, over worlds")
    yield ClaimFigure("planted part", gain, COSINE, "above the baseline", gain.value > COSINE)
    energy = mean_figure(left, "energy left in the span of the others, as a share")
    exact = bool(np.allclose(left, 1 - SHARE, rtol=1e-6))
    yield ClaimFigure("energy in the span", energy, 1 - SHARE, "equal to the baseline", exact)


class _Words:
    """What shifts at a block do to the log-probability of every topic's words after neutral prompts."""

    def __init__(self, model: TextModel, block: int, topics: tuple[str, ...]) -> None:
        self._split, vocabulary = Split(model, f"resid.{block}"), Vocabulary(model)
        self._ids = [[vocabulary.token(word) for word in asked(topic)] for topic in topics]
        self._batches = encoded(self._split, model.tokenize(neutral_prompts()[1::4]), Position("content"))
        self._plain = self._read(None)

    def change(self, shift: Float[Tensor, "d"]) -> Float[np.ndarray, "topics"]:
        """Mean change over prompts and words when `shift` is added to every token but the first."""
        return self._read(Add(site=self._split.site, shift=shift)) - self._plain

    def _read(self, edit: Add | None) -> Float[np.ndarray, "topics"]:
        found = []
        with torch.no_grad():
            for one in self._batches:
                ends = [layout.length - 1 for layout in one.batch.layouts]
                likely = self._split.logits(one.decode(edit)[range(len(ends)), ends]).float().log_softmax(1)
                found.append(torch.stack([likely[:, ids].mean(1) for ids in self._ids], 1))
        return torch.cat(found).mean(0).double().cpu().numpy()

    def selectivity(self, direction: Float[Tensor, "d"], topic: int, wanted: float, lengths: Sequence[float]) -> float:
        """Effect on the topic's words over the mean size of that on others', where the former first is `wanted`.

        Between the `lengths` that are tried it is interpolated; what never reaches it is judged at its best.
        """
        changes = np.array([np.zeros(len(self._ids)), *(self.change(length * direction) for length in lengths)])
        own = changes[:, topic]
        if own.max() < wanted:
            at = changes[own.argmax()]
        else:
            after = int((own >= wanted).argmax())
            share = (wanted - own[after - 1]) / (own[after] - own[after - 1])
            at = (1 - share) * changes[after - 1] + share * changes[after]
        return float(at[topic] / np.abs(np.delete(at, topic)).mean())


Captured = Mapping[str | None, Float[Tensor, "sentences d"]]


def _captured(model: TextModel, setting: _Setting) -> Captured:
    """Rows at the block: of sentences about each topic, as many as any figure takes, and of neutral prompts (None)."""
    parts: dict[str | None, Sequence[str]] = {
        topic: about(topic, max(setting.prompts, setting.many)) for topic in setting.topics
    }
    parts[None] = neutral_prompts()[::2]
    site = f"resid.{setting.block}"
    rows = model.capture([text for part in parts.values() for text in part], site, "mean")[site]
    return dict(zip(parts, rows.split([len(part) for part in parts.values()]), strict=True))


def _first(captured: Captured, count: int) -> Captured:
    """`count` sentences a topic, and all neutral prompts."""
    return {name: rows if name is None else rows[:count] for name, rows in captured.items()}


def _fitted(captured: Captured, topic: str, share: float | None = None) -> RepIt:
    category = [name for name, rows in captured.items() for _ in rows]
    return RepIt(share).fit(torch.cat(list(captured.values())), [name == topic for name in category], category=category)


def _selectivity(model: TextModel, setting: _Setting, captured: Captured) -> Iterator[ClaimFigure]:
    """Of the isolated direction, beside the plain one and one that was made orthogonal to the mean of the others."""
    words = _Words(model, setting.block, setting.topics)
    few = _first(captured, setting.prompts)
    means = {topic: few[topic].mean(0) - few[None].mean(0) for topic in setting.topics}
    logs, shares = np.empty((len(means), 3)), []
    for place, (topic, plain) in enumerate(means.items()):
        fitted = _fitted(few, topic)
        others = torch.stack([mean for name, mean in means.items() if name != topic]).mean(0, keepdim=True)
        wanted, lengths = words.change(plain)[place] / 2, [float(plain.norm()) * share for share in setting.lengths]
        for column, direction in enumerate((fitted.direction_, plain, _without(plain, others))):
            unit = torch.nn.functional.normalize(direction, dim=0)
            logs[place, column] = np.log(words.selectivity(unit, place, wanted, lengths))
        shares.append(fitted.share_)
    isolated, plain_ones, orthogonal = logs.T
    how = f"ratio of selectivities, geometric mean over topics, block {setting.block}"
    gain = _geometric(isolated - plain_ones, how)
    yield ClaimFigure("selectivity, of the plain vector's", gain, GAIN, "at least the baseline", gain.value >= GAIN)
    name = "selectivity, of that of the vector made orthogonal to the mean of the others"
    yield above(name, _geometric(isolated - orthogonal, how), 1.0)
    how = "own words' change over the mean size of others'"
    yield shown("selectivity", _geometric(isolated, f"isolated, {how}"), _geometric(plain_ones, f"plain, {how}"))
    yield shown("chosen share", mean_figure(shares, "of the energy in the span of the other topics"))


def _without(vector: Tensor, others: Float[Tensor, "k d"]) -> Tensor:
    axes = torch.linalg.qr(others.T).Q
    return vector - axes @ (axes.T @ vector)


def _geometric(logs: np.ndarray, how: str) -> Figure:
    mean = mean_figure(logs, how)
    low, high = (None if end is None else float(np.exp(end)) for end in (mean.low, mean.high))
    return Figure(float(np.exp(mean.value)), low, high, None, mean.n, how)


def _prompts(setting: _Setting, captured: Captured) -> ClaimFigure:
    """How near the directions from few sentences are to those from many."""
    few, many = (_first(captured, count) for count in (setting.prompts, setting.many))
    cosines = []
    for topic in setting.topics:
        found = _fitted(many, topic)
        cosines.append(float(_fitted(few, topic, found.share_).direction_ @ found.direction_))
    how = f"cosine of directions from {setting.prompts} and {setting.many} sentences a topic, at one share"
    same = mean_figure(cosines, how)
    return ClaimFigure("few prompts are enough", same, SAME, "at least the baseline", same.value >= SAME)
