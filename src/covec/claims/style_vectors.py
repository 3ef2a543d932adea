"""Style vectors' claim: recorded activations steer as trained vectors would, at a hundredth of the cost (2402.01618).

Approving reviews, disapproving ones and archaic English, 80 texts each, added at blocks 16 to 18 of the embedded model
while it continues 30 prompts. The judge is a bag of words trained on other texts of the same three styles and on
neutral ones, so that a text in no style scores low.

The paper feeds the vector that it trains the model's own greedy tokens; here the target's are fed, which trains faster
and is the stricter comparison. For that training the claim may take the five minutes of trained edits. The paper's
trained vectors and prompted variants are not steered with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from covec.activations.fluency import perplexity
from covec.claims import Claim, ClaimFigure
from covec.claims._clock import one_thread, processor_seconds
from covec.claims._figures import above, mean_figure, shown
from covec.concepts.examples import Examples
from covec.concepts.packaged import neutral_texts
from covec.edits.algebra import Add
from covec.find.logistic import Logistic
from covec.models.load import load
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.auroc import auroc
from covec.statistics.figure import Figure
from covec.steer.style_vectors import StyleVectors
from covec.worlds.styles import FACTUAL, STYLES, SUBJECTIVE, styled

SITES = tuple(Site("resid", block) for block in (16, 17, 18))
FLUENT, RISE, TAU, SHARE, DECODED = 1.5, 0.15, 0.8, 0.01, 0.9  # the numbers of the rules


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    styles: tuple[str, ...] = STYLES
    texts: int = 80
    judged: int = 240
    prompts: int = 15  # of either kind
    new_tokens: int = 20
    strengths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
    randoms: int = 5
    epochs: int = 400


REDUCED = _Setting(("approving", "archaic"), 8, 30, 1, 3, (0.0, 0.75, 1.5), 1, 3)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m")
    texts = {style: styled(style, setting.texts) for style in setting.styles}
    concepts = {style: _against_others(texts, style) for style in setting.styles}
    steering = {style: StyleVectors(SITES).fit(model, examples) for style, examples in concepts.items()}
    bench = _Bench(model, _Judge(texts, setting.judged), setting)
    figures = [figure for style in setting.styles for figure in _steered(bench, style, steering[style])]
    return Claim("style-vectors", (*figures, _decoded(model, concepts), _cost(model, texts, setting)))


def _against_others(texts: dict[str, tuple[str, ...]], style: str) -> Examples:
    others = [text for name, listed in texts.items() if name != style for text in listed]
    return Examples.from_lists(texts[style], others, name=style)


class _Judge:
    """A bag-of-words classifier of styles, trained on texts that no vector saw, and of neutral texts."""

    def __init__(self, seen: dict[str, tuple[str, ...]], count: int) -> None:
        texts, names = list(neutral_texts()), ["neutral"] * len(neutral_texts())
        for style, used in seen.items():
            fresh = [text for text in styled(style, count, seed=1) if text not in used]
            texts, names = texts + fresh, names + [style] * len(fresh)
        self._model = make_pipeline(CountVectorizer(), LogisticRegression(max_iter=1000)).fit(texts, names)

    def score(self, style: str, texts: Sequence[str]) -> Float[np.ndarray, "n"]:
        """Probability that each text is in `style`."""
        return self._model.predict_proba(texts)[:, list(self._model.classes_).index(style)]


class _Bench:
    """Continuations of the prompts under edits, their scores and their perplexity under the model as it is."""

    def __init__(self, model: TextModel, judge: _Judge, setting: _Setting) -> None:
        self.model, self.judge, self.setting = model, judge, setting
        self.prompts = (*SUBJECTIVE[: setting.prompts], *FACTUAL[: setting.prompts])
        (self.plain,) = self.written([()])

    def written(self, edits: Sequence[Any]) -> list[list[str]]:
        """What the model writes after every prompt, once for each of `edits`."""
        each, count = [one for one in edits for _ in self.prompts], len(self.prompts)
        texts = self.model.generate([*self.prompts] * len(edits), edits=each, max_new_tokens=self.setting.new_tokens)
        return [texts[start : start + count] for start in range(0, len(texts), count)]

    def strain(self, texts: Sequence[str]) -> float:
        """Perplexity of what was written, over that of what is written without an edit."""
        return perplexity(self.model, self.prompts, texts) / perplexity(self.model, self.prompts, self.plain)


def _steered(bench: _Bench, style: str, steering: StyleVectors) -> Iterator[ClaimFigure]:
    strengths = bench.setting.strengths
    written = [bench.plain, *bench.written([steering.edits(strength) for strength in strengths[1:]])]
    scores = np.stack([bench.judge.score(style, texts) for texts in written])  # [strengths, prompts]
    slopes = np.polyfit(strengths, scores, 1)[0]
    yield above(f"{style}: slope of the score", mean_figure(slopes, "a unit of strength, over prompts"), 0.0)
    tau = Figure(float(spearmanr(strengths, scores.mean(1)).statistic), n=len(strengths), how="Spearman, mean scores")
    yield ClaimFigure(f"{style}: score rises with strength", tau, TAU, "at least the baseline", tau.value >= TAU)
    strains = [bench.strain(texts) for texts in written]
    place = max(index for index, strain in enumerate(strains) if strain <= FLUENT)
    how = f"at strength {strengths[place]:g}, perplexity {strains[place]:.2f} times, the largest with at most {FLUENT}"
    rise = mean_figure(scores[place] - scores[0], f"{how}, over prompts")
    yield ClaimFigure(f"{style}: rise of the score", rise, RISE, "at least the baseline", rise.value >= RISE)
    random = [_random(steering.edits(strengths[place]), seed) for seed in range(bench.setting.randoms)]
    drawn = [float((bench.judge.score(style, texts) - scores[0]).mean()) for texts in bench.written(random)]
    best = Figure(max(drawn), n=len(drawn), how="highest of random vectors of the same norms")
    yield above(f"{style}: rise of the score, against random vectors", rise, best)
    half = len(bench.prompts) // 2
    asked = [mean_figure(part, how) for part in np.split(scores[place] - scores[0], [half])]
    yield shown(f"{style}: rise on subjective prompts, beside factual ones", *asked)


def _random(edits: Sequence[Any], seed: int) -> tuple[Add, ...]:
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(len(edit.shift), generator=generator) for edit in edits]
    return tuple(
        Add(site=edit.site, shift=direction * edit.shift.norm() / direction.norm())
        for edit, direction in zip(edits, drawn, strict=True)
    )


def _decoded(model: TextModel, concepts: dict[str, Examples]) -> ClaimFigure:
    """AUROC of a probe on the other half of the texts, in the worst case of block and style."""
    found = {}
    for style, examples in concepts.items():
        rows, even = model.capture(examples.inputs, SITES, "last"), np.arange(len(examples)) % 2 == 0
        for site in SITES:
            scores = Logistic((0.01,)).fit(rows[site][even], examples.labels[even]).decision_function(rows[site][~even])
            found[style, str(site)] = float(auroc(scores, examples.labels[~even]))
    worst = min(found, key=lambda key: found[key])
    lowest = Figure(found[worst], null=0.5, n=len(even) // 2, how=f"{worst[0]} at {worst[1]}, 50/50 split")
    return above("lowest AUROC at the insertion blocks", lowest, DECODED)


def _cost(model: TextModel, texts: dict[str, tuple[str, ...]], setting: _Setting) -> ClaimFigure:
    """Processor time of one text's activations, over that of training one sentence's vectors."""
    listed = [text for texts_of in texts.values() for text in texts_of]
    losses: list[float] = []
    with one_thread():
        recorded = processor_seconds(lambda: model.capture(listed, SITES, "last")) / len(listed)
        share = recorded / processor_seconds(lambda: losses.extend(_trained(model, listed[0], setting.epochs)))
    how = f"processor time a text; {len(losses)} epochs to a loss of {losses[-1]:.2f} a token"
    name = "cost, as a share of a trained vector's"
    return ClaimFigure(name, Figure(share, how=how), SHARE, "below the baseline", share < SHARE)


def _trained(model: TextModel, sentence: str, epochs: int) -> list[float]:
    """Train vectors at the insertion blocks until the model writes `sentence` from nothing; the loss of every epoch."""
    start = model.tokenizer.bos_token_id
    ids = torch.tensor([[start, *model.tokenizer(sentence, add_special_tokens=False)["input_ids"]]])
    ids, generator = ids.to(model.device), torch.Generator().manual_seed(0)
    spread = (2 / (1 + model.width)) ** 0.5  # Xavier, for a row of one
    vectors = [(spread * torch.randn(model.width, generator=generator)).requires_grad_() for _ in SITES]
    optimiser = torch.optim.Adam(vectors, lr=0.01)
    losses: list[float] = []
    while len(losses) < epochs:
        edits = [Add(site=site, shift=one, position=Position("all")) for site, one in zip(SITES, vectors, strict=True)]
        with model.edit(edits):
            logits = model.module(input_ids=ids, use_cache=False).logits[0, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:])
        losses.append(loss.item())
        if bool((logits.argmax(1) == ids[0, 1:]).all()):
            break
        optimiser.zero_grad()
        for one, gradient in zip(vectors, torch.autograd.grad(loss, vectors), strict=True):
            one.grad = gradient
        optimiser.step()
    return losses
