"""GCAV's claim: strengths a token steer as well as a fixed one and more fluently, several at once (2501.05764).

Approval (60 approving and 60 disapproving reviews) and food (60 sentences about food, 60 about five other topics) in
the embedded model, which goes on with 40 neutral prompts for 20 tokens. Judges are bags of words, trained on other
texts of the same kinds and on neutral ones; topics are judged with the words that no sentence of the fit holds, too.

Where the card leaves a choice: success is a judge's probability above a half; the fixed strength is the smallest of a
grid, for differences of means at the same blocks and tokens, whose success is at least GCAV's; of the two concepts
approval is raised, and food raised where the probes point apart and lowered where they agree, so that separate shifts
fall short of what is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from covec.activations.fluency import perplexity
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import at_least, mean_figure, shown
from covec.concepts.examples import Examples
from covec.concepts.packaged import neutral_prompts, neutral_texts
from covec.models.load import load
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.steer.gcav_generation import GcavGeneration, together
from covec.worlds.styles import styled
from covec.worlds.topics import TOPICS, about, asked

GAIN, LOGITS = 0.2, 1e-3  # the numbers of the rules
FIXED = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)  # strengths of the grid, at every block
APPROVAL, FOOD = "approval", "food"
Judge = Callable[[Sequence[str]], np.ndarray]


@dataclass(frozen=True)
class _Setting:
    """Texts a class for the fit and for the judges, prompts, tokens written, sites."""

    texts: int = 60
    judged: int = 200
    prompts: int = 40
    new_tokens: int = 20
    sites: str = "resid.*"
    reliable: float = 0.9
    fixed: tuple[float, ...] = FIXED


REDUCED = _Setting(24, 40, 4, 4, "resid.10,resid.20", 0.6, (0.1, 0.4))


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    steering = {
        name: GcavGeneration(sites=setting.sites, reliable=setting.reliable).fit(model, examples)
        for name, examples in _examples(setting).items()
    }
    bench = _Bench(model, setting)
    figures = [*_alone(bench, steering[APPROVAL]), *_joint(bench, steering)]
    return Claim("gcav-generation", tuple(figures))


def _others(count: int, seed: int) -> list[str]:
    topics = [topic for topic in TOPICS if topic != FOOD]
    each = math.ceil(count / len(topics))
    return [text for row in zip(*(about(topic, each, seed) for topic in topics), strict=True) for text in row][:count]


def _examples(setting: _Setting) -> dict[str, Examples]:
    kept = setting.texts
    sides = {
        APPROVAL: (styled("approving", kept), styled("disapproving", kept)),
        FOOD: (about(FOOD, kept), _others(kept, 0)),
    }
    return {name: Examples.from_lists(*both, name=name) for name, both in sides.items()}


def _judge(positive: Sequence[str], negative: Sequence[str]) -> Judge:
    """Whether each text is in the first class, to a bag of words; neutral texts are in the second."""
    rest = [*negative, *neutral_texts()]
    labels = [True] * len(positive) + [False] * len(rest)
    model = make_pipeline(CountVectorizer(), LogisticRegression(max_iter=1000)).fit([*positive, *rest], labels)
    return lambda texts: model.predict_proba(texts)[:, 1] > 0.5


class _Bench:
    """Continuations under edits, what the judges say of them, and how likely they are to the unsteered model."""

    def __init__(self, model: TextModel, setting: _Setting) -> None:
        self.model, self.setting, self.prompts = model, setting, neutral_prompts()[: setting.prompts]
        count = setting.judged
        spoken = {topic: [*about(topic, count // 4, 1), *(f"some {word}" for word in asked(topic))] for topic in TOPICS}
        elsewhere = [text for topic in TOPICS if topic != FOOD for text in spoken[topic]]
        self.judges = {
            APPROVAL: _judge(styled("approving", count, 1), styled("disapproving", count, 1)),
            FOOD: _judge(spoken[FOOD], elsewhere),
        }
        (self.plain,) = self.written([()])

    def written(self, edits: Sequence[Any]) -> list[list[str]]:
        """What the model writes after every prompt, once for each of `edits`."""
        each, count = [one for one in edits for _ in self.prompts], len(self.prompts)
        texts = self.model.generate([*self.prompts] * len(edits), edits=each, max_new_tokens=self.setting.new_tokens)
        return [texts[start : start + count] for start in range(0, len(texts), count)]

    def strain(self, texts: Sequence[str]) -> float:
        """Perplexity of what was written, over that of what is written without an edit."""
        return perplexity(self.model, self.prompts, texts) / perplexity(self.model, self.prompts, self.plain)


def _alone(bench: _Bench, steering: GcavGeneration) -> Iterator[ClaimFigure]:
    judge, trusted = bench.judges[APPROVAL], steering.trusted()
    (own,) = bench.written([steering.edits(1.0)])
    gain = judge(own).astype(float) - judge(bench.plain)
    how = f"rise of the share of approving texts, edits at {len(trusted)} blocks"
    yield ClaimFigure(
        "success over unsteered", mean_figure(gain, how), GAIN, "at least the baseline", gain.mean() >= GAIN
    )
    where = {"position": "last+generated"}
    fixed = [tuple(vector.add(strength, **where) for vector in trusted) for strength in bench.setting.fixed]
    texts = bench.written(fixed)
    rates = [float(judge(one).mean()) for one in texts]
    wanted = float(judge(own).mean())
    place = next((at for at, rate in enumerate(rates) if rate >= wanted), int(np.argmax(rates)))
    how = f"perplexity over the unsteered, success {wanted:.2f}"
    strain = Figure(bench.strain(own), n=len(own), how=how)
    beside = f"difference of means at strength {bench.setting.fixed[place]:g}, success {rates[place]:.2f}"
    rival = Figure(bench.strain(texts[place]), n=len(own), how=beside)
    yield ClaimFigure(
        "perplexity at matched success", strain, rival, "at most the baseline", strain.value <= rival.value
    )


def _joint(bench: _Bench, steering: dict[str, GcavGeneration]) -> Iterator[ClaimFigure]:
    """Both concepts at once, by the linear program and by the sum of separate shifts."""
    by_site = [{vector.site: vector for vector in steering[name].trusted()} for name in (APPROVAL, FOOD)]
    shared = [site for site in by_site[0] if site in by_site[1]]
    cosines = {site: float(by_site[0][site].direction @ by_site[1][site].direction) for site in shared}
    mean = float(np.mean(list(cosines.values())))
    yield shown("cosine of the probes", mean_figure(list(cosines.values()), "over blocks where both are reliable"))
    sign = -1.0 if mean > 0 else 1.0
    both = [steering[name] for name in (APPROVAL, FOOD)]
    edits = together(both, [1.0, sign])
    yield from _algebra(bench, both, edits, max(shared, key=lambda site: abs(cosines[site])), sign)
    apart = sorted((*both[0].edits(1.0), *both[1].edits(sign)), key=lambda edit: edit.site.block)
    shares = []
    for texts in bench.written([edits, apart]):
        food = bench.judges[FOOD](texts)
        shares.append(float((bench.judges[APPROVAL](texts) & (food if sign > 0 else ~food)).mean()))
    count, wanted = len(bench.prompts), "approval up, food " + ("up" if sign > 0 else "down")
    joint, summed = (Figure(share, n=count, how=f"share of texts: {wanted}") for share in shares)
    yield at_least("joint success, against shifts for one concept after the other", joint, summed)


def _algebra(bench: _Bench, both: list[GcavGeneration], edits: Any, site: Any, sign: float) -> Iterator[ClaimFigure]:
    """How far limits are missed at one block by the program, and by the sum of two shifts, which are not told."""
    edit = next(one for one in edits if one.site == site)
    nowhere: Any = None
    h = bench.model.capture(bench.prompts, [site], "last")[site]
    vectors = [next(vector for vector in one.trusted() if vector.site == site) for one in both]
    slopes = torch.tensor([vector.calibration[0] / vector.scale for vector in vectors if vector.calibration])

    def missing(rows: torch.Tensor) -> torch.Tensor:
        """Logits by which each limit is missed, below 0 where it is kept [rows, concepts]."""
        return (edit.limits - rows @ edit.directions.T) * edit.signs * slopes

    kept = Figure(
        float(missing(edit.apply(h, nowhere)).max()), n=len(h), how=f"largest miss of a limit in logits, {site}"
    )
    yield ClaimFigure("limits after the program", kept, LOGITS, "at most the baseline", kept.value <= LOGITS)
    shifts = [one.edits(strength) for one, strength in zip(both, (1.0, sign), strict=True)]
    moves = [next(one for one in own if one.site == site).apply(h, nowhere) - h for own in shifts]
    short = missing(h + moves[0] + moves[1])
    alone = torch.stack([missing(h + move)[:, at] for at, move in enumerate(moves)], 1)
    crossed = torch.stack([moves[1 - at] @ edit.directions[at] for at in (0, 1)], 1) * edit.signs * slopes
    error = float((short - alone + crossed).abs().max())
    figure = Figure(error, n=2 * len(h), how="largest difference from the cross terms, in logits")
    yield ClaimFigure("what the sum of shifts misses", figure, LOGITS, "at most the baseline", error <= LOGITS)
    missed = Figure(float(short.max()), n=len(h), how="largest miss of a limit in logits")
    yield shown("limits after the sum of shifts", missed)
