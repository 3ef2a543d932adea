"""Concept guidance's claim: what detects a concept best does not guide best, and PNE tells how well it guides
(arXiv:2402.14433).

Approval in reviews (easy) and questions against statements (hard), 80 texts a concept, in the embedded model, which
goes on with 12 neutral prompts for 10 tokens at each of nine scales. The judges are bags of words (with the question
mark), trained on other texts; perplexity is the guided model's own on 30 other neutral openings. Eight blocks are
guided, and four once more. Random directions move as far as the difference of means, at its blocks.

The metric itself is tried on curves of which a, b and c are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch.nn.functional import normalize

from covec.activations.fluency import perplexity
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import at_least, shown
from covec.concepts.examples import Examples
from covec.concepts.packaged import neutral_prompts
from covec.edits.norms import AddKeepingNorm
from covec.measure.perplexity_normalised_effect import Curve, curve
from covec.models.load import load
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.steer.concept_guidance import PROBES, ConceptGuidance
from covec.worlds.styles import styled

FACTOR, FIT, MISS = 3.0, 0.6, 0.05  # the numbers of the rules
SCALES = (-2.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0)
THINGS = "train shop garden school bridge museum river kitchen letter dog teacher window"
STATES = "open old large clean near ready quiet new famous cold busy safe"
KNOWN = ((0.8, 0.1), (2.0, 0.4), (-1.2, 0.2))  # a and b; c is 0 where effects are measured from that of scale 0


@dataclass(frozen=True)
class _Setting:
    """Texts a class for fit and judge, prompts, tokens written, neutral openings, scales, random draws, blocks."""

    texts: int = 40
    judged: int = 100
    prompts: int = 12
    new_tokens: int = 10
    neutral: int = 30
    scales: tuple[float, ...] = SCALES
    randoms: int = 5
    blocks: tuple[int, int] = (8, 4)
    sites: str = "resid.*"


REDUCED = _Setting(8, 30, 2, 3, 4, (-1.0, -0.5, 0.0, 0.5, 1.0), 1, (2, 1), "resid.8,resid.16,resid.24")


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    benches = {name: _Bench(model, name, setting) for name in ("approval", "question")}
    figures = [*_against_random(benches["approval"]), *_orders(benches), *_fits(benches), *_metric()]
    return Claim("concept-guidance", tuple(figures))


def _texts(concept: str, count: int, seed: int) -> tuple[Sequence[str], Sequence[str]]:
    """Texts of both classes; those of another seed are different ones."""
    if concept == "approval":
        return styled("approving", count, seed), styled("disapproving", count, seed)
    pairs = list(product(THINGS.split(), STATES.split()))
    order = np.random.default_rng(0).permutation(len(pairs))[seed * 40 : seed * 40 + count]
    chosen = [pairs[at] for at in order]
    return [f"Is the {one} {other}?" for one, other in chosen], [f"The {one} is {other}." for one, other in chosen]


class _Bench:
    """One concept: its fitted probes, and the curve of whatever edits are given a scale."""

    def __init__(self, model: TextModel, concept: str, setting: _Setting) -> None:
        self.model, self.setting = model, setting
        positive, negative = _texts(concept, setting.texts, 0)
        examples = Examples.from_lists(positive, negative, name=concept)
        self.fitted = {
            kind: ConceptGuidance(kind, setting.blocks[0], setting.sites).fit(model, examples) for kind in PROBES
        }
        texts = [*positive, *negative]
        vectorizer = CountVectorizer(token_pattern=r"\w+|\?")
        others = _texts(concept, setting.judged, 1)
        labels = [True] * len(others[0]) + [False] * len(others[1])
        self._judge = make_pipeline(vectorizer, LogisticRegression(max_iter=1000)).fit([*others[0], *others[1]], labels)
        self.accurate = float((self._judge.predict(texts) == examples.labels).mean())
        self.prompts, rest = neutral_prompts()[: setting.prompts], neutral_prompts()[setting.prompts :]
        split = [text.partition(" ") for text in rest[: setting.neutral]]
        self._read = [first for first, _, _ in split], [f" {others}" for _, _, others in split]
        self.curves = {kind: self.curve(one.edits) for kind, one in self.fitted.items()}

    def detected(self, kind: str) -> float:
        """Mean detection accuracy of a probe over the guided blocks."""
        return float(np.mean([one.figures["accuracy"].value for one in self.fitted[kind].guided()]))

    def curve(self, family: Any) -> Curve:
        """PNE's curve of a family of edits."""
        edits = [family(scale) for scale in self.setting.scales]
        each, count = [one for one in edits for _ in self.prompts], len(self.prompts)
        texts = self.model.generate(
            [*self.prompts] * len(edits), edits=each, max_new_tokens=self.setting.new_tokens, batch_tokens=2048
        )
        scores = self._judge.predict_proba(texts)[:, 1].reshape(-1, count).mean(1)
        return curve(self.setting.scales, scores, [self._perplexity(one) for one in edits])

    def _perplexity(self, edits: Any) -> float:
        with self.model.edit(*edits):
            return perplexity(self.model, *self._read)

    def random(self, seed: int) -> Any:
        """A family of edits in random directions, as long and at the same blocks as the difference of means'."""
        generator = torch.Generator().manual_seed(seed)
        guided = self.fitted[PROBES[0]].guided()
        drawn = [normalize(torch.randn(self.model.width, generator=generator), dim=0) for _ in guided]
        shifts = {vector.site: vector.scale * one for vector, one in zip(guided, drawn, strict=True)}

        def family(scale: float) -> tuple[Any, ...]:
            return tuple(AddKeepingNorm(site=site, shift=scale * one) for site, one in shifts.items() if scale)

        return family


def _against_random(bench: _Bench) -> Iterator[ClaimFigure]:
    own = bench.curves[PROBES[0]]
    drawn = [bench.curve(bench.random(seed)).range for seed in range(bench.setting.randoms)]
    baseline = Figure(
        FACTOR * float(np.mean(drawn)), n=len(drawn), how=f"{FACTOR:g} times the mean of random directions"
    )
    pne = Figure(own.range, n=len(bench.setting.scales), how=f"difference of means, {bench.setting.blocks[0]} blocks")
    yield at_least("approval: PNE against random directions", pne, baseline)
    few = ConceptGuidance(PROBES[0], bench.setting.blocks[1])
    few.vectors = bench.fitted[PROBES[0]].vectors
    fewer = Figure(bench.curve(few.edits).range, n=len(bench.setting.scales), how=f"{bench.setting.blocks[1]} blocks")
    yield shown("approval: PNE with more blocks and with fewer", pne, fewer)


def _orders(benches: dict[str, _Bench]) -> Iterator[ClaimFigure]:
    """Whether the probe that detects best is another than the one that guides best."""
    differ = 0
    for name, bench in benches.items():
        detected = {kind: bench.detected(kind) for kind in PROBES}
        guided = {kind: bench.curves[kind].range for kind in PROBES}
        orders = [sorted(PROBES, key=lambda kind, by=by: -by[kind]) for by in (detected, guided)]  # type: ignore[misc]
        differ += orders[0] != orders[1]
        for kind in PROBES:
            accuracy = Figure(detected[kind], null=0.5, n=2 * bench.setting.texts, how="accuracy at the guided blocks")
            yield shown(f"{name}: PNE of {kind}, beside its accuracy", Figure(guided[kind]), accuracy)
        right = Figure(bench.accurate, null=0.5, n=2 * bench.setting.texts, how="texts of the fit that it judges right")
        yield shown(f"{name}: accuracy of the judge", right)
    figure = Figure(differ, n=len(benches), how="concepts in which the order by accuracy is another than that by PNE")
    yield at_least("the best detector is not the best guide", figure, 1.0)


def _fits(benches: dict[str, _Bench]) -> Iterator[ClaimFigure]:
    worst = min((bench.curves[kind].r2, name, kind) for name, bench in benches.items() for kind in PROBES)
    figure = Figure(worst[0], n=len(benches) * len(PROBES), how=f"r2 of the worst fit: {worst[2]}, {worst[1]}")
    yield at_least("the curve fits", figure, FIT)


def _metric() -> Iterator[ClaimFigure]:
    """Curves of known a, b and c, back from effects and perplexities made of them."""
    s, missed = np.linspace(-2, 2, 9), []
    for a, b in KNOWN:
        found = curve(s, 0.5 + np.tanh(a * s), 20 * np.exp(b * s**2))
        missed += [abs(found.a / a - 1), abs(found.b / b - 1), abs(found.c)]
    figure = Figure(max(missed), n=len(KNOWN), how="largest miss: of a and b relative, of c itself")
    yield ClaimFigure("known curves are recovered", figure, MISS, "at most the baseline", figure.value <= MISS)
