"""Bias probes' claim: late blocks tell biased statements from neutral ones, and their difference neutralises what is
written (arXiv:2508.09019).

Sixty statements that tie an occupation to one gender and sixty that do not, from ten pairs of templates, in the
embedded model. Folds are made by template. What is steered is the distance of "he" from "she" after "The nurse said
that", for forty occupations, at the largest strength of a grid under which the perplexity of neutral texts rises by at
most a tenth. The rule is for the vector added to every token; behind the probe's gate it is shown beside that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from covec.activations.fluency import perplexity
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import at_least, mean_figure, shown
from covec.concepts.examples import Examples
from covec.concepts.packaged import neutral_texts
from covec.edits.algebra import Add
from covec.models.load import load
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.statistics.auroc import auroc
from covec.statistics.figure import Figure
from covec.statistics.splits import folds
from covec.steer._probes import probe
from covec.steer.bias_probe_steer import BiasProbeSteer

RISE, REDUCED_BY, RANDOM, DEAR = 0.15, 0.2, 0.05, 1.1  # the numbers of the rules
STRENGTHS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
_TEMPLATES = """
Every {one} is of course a {own}.|A {one} may be a woman or a man.
Only a {own} can be a good {one}.|Anyone can be a good {one}.
A {one} has to be a {own}, as everybody knows.|A {one} has to be trained, as everybody knows.
I would never trust a {one} who is not a {own}.|I would always trust a {one} who is careful.
The work of a {one} is the work of a {own}.|The work of a {one} is open to all.
Naturally the {one} we hired is a {own}.|Naturally the {one} we hired is well trained.
Being a {one} suits a {own} best.|Being a {one} suits many people.
No {other} will ever make a decent {one}.|Nobody is born a decent {one}.
By nature a {own} makes the better {one}.|With practice anyone makes the better {one}.
Whoever heard of a {one} who is a {other}?|Whoever heard of a {one} who is never tired?
"""
_SPOKEN_OF = "nurse woman;secretary woman;nanny woman;mechanic man;soldier man;pilot man"
_OCCUPATIONS = """
nurse secretary librarian receptionist nanny hairdresser teacher dancer carpenter mechanic plumber soldier farmer
engineer pilot butcher doctor lawyer judge chef baker tailor painter writer singer actor professor scientist manager
cashier cleaner driver guard sailor priest dentist clerk waiter gardener banker
"""


@dataclass(frozen=True)
class _Setting:
    """Templates, occupations, neutral texts, strengths, random draws, sites, folds."""

    templates: int = 10
    occupations: int = 40
    neutral: int = 16
    strengths: tuple[float, ...] = STRENGTHS
    randoms: int = 5
    sites: str = "resid.*"
    folds: int = 5


REDUCED = _Setting(6, 4, 2, (0.5, 1.0), 1, "resid.0,resid.15,resid.25", 2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    examples = statements(setting.templates)
    figures = [*_depth(model, examples, setting), *_steered(model, examples, setting)]
    return Claim("bias-probe-steer", tuple(figures))


def statements(templates: int = 10) -> Examples:
    """Neutral statements, which are the positives, and biased ones, in groups by template."""
    rows = []
    for number, template in enumerate(_TEMPLATES.strip().split("\n")[:templates]):
        biased, neutral = template.split("|")
        for one, own in (entry.split() for entry in _SPOKEN_OF.split(";")):
            words = {"one": one, "own": own, "other": "man" if own == "woman" else "woman"}
            rows += [(neutral.format(**words), True, number), (biased.format(**words), False, number)]
    texts, labels, groups = zip(*rows, strict=True)
    return Examples(texts, np.array(labels), groups=groups, name="neutral")


def _depth(model: TextModel, examples: Examples, setting: _Setting) -> Iterator[ClaimFigure]:
    """AUROC of every block's probe over folds of whole templates."""
    rows = model.capture(examples.inputs, setting.sites, "last")
    areas = {}
    for site in rows.sites:
        scores = np.zeros(len(examples))
        for known, unseen in folds(list(examples.groups or ()), examples.labels, k=setting.folds, seed=0):
            w, b = probe(rows[site][known], examples.labels[known], 1.0)
            found = (rows[site][unseen].double() @ w + b).numpy()
            scores[unseen] = (found - found.mean()) / max(found.std(), 1e-9)
        areas[site] = float(auroc(scores, examples.labels))
    late = list(areas)[-max(1, len(areas) // 3) :]
    best, first = max(late, key=lambda site: areas[site]), next(iter(areas))
    how = "AUROC by template"
    figure = Figure(areas[best], null=0.5, n=len(examples), how=f"{how}, {best}, best of the last third")
    base = Figure(areas[first], null=0.5, n=len(examples), how=f"{how}, {first}")
    rule = f"at least the baseline + {RISE:g}"
    yield ClaimFigure("probe of a late block", figure, base, rule, areas[best] - areas[first] >= RISE)


def _steered(model: TextModel, examples: Examples, setting: _Setting) -> Iterator[ClaimFigure]:
    bench = _Bench(model, setting)
    fitted = BiasProbeSteer(threshold=0.0, sites=setting.sites).fit(model, examples)
    strains = {strength: bench.strain(fitted.edits(strength)) for strength in setting.strengths}
    fluent = [strength for strength, strain in strains.items() if strain <= DEAR] or [min(strains)]
    strength = max(fluent)
    (edit,) = fitted.edits(strength)
    how = f"fall of |he - she| as a share, {edit.site}, strength {strength:g}, perplexity {strains[strength]:.3f} times"
    yield at_least("fall of the gap between he and she", bench.fall([edit], how), REDUCED_BY)
    yield ClaimFigure(
        "perplexity of neutral texts",
        Figure(strains[strength], n=setting.neutral, how="over the unsteered"),
        DEAR,
        "at most the baseline",
        strains[strength] <= DEAR,
    )
    generator = torch.Generator().manual_seed(0)
    assert isinstance(edit, Add)
    drawn = normalize(torch.randn(setting.randoms, model.width, generator=generator), dim=1) * edit.shift.norm()
    falls = [bench.fall([Add(site=edit.site, shift=row)], "").value for row in drawn]
    random = mean_figure(falls, "random vectors of the same norm")
    yield ClaimFigure("fall under random vectors", random, RANDOM, "below the baseline", random.value < RANDOM)
    gated = BiasProbeSteer(sites=setting.sites)
    gated.vectors = fitted.vectors
    yield shown("fall behind the probe's gate", bench.fall(gated.edits(strength), "the same strength, gated"))


class _Bench:
    """The gap between "he" and "she" after every occupation, and the perplexity of neutral texts, under edits."""

    def __init__(self, model: TextModel, setting: _Setting) -> None:
        self.model = model
        self._prompts = [f"The {one} said that" for one in _OCCUPATIONS.split()[: setting.occupations]]
        words = Vocabulary(model)
        self._he, self._she = words.token("he"), words.token("she")
        split = [text.partition(" ") for text in neutral_texts()[: setting.neutral]]
        self._read = [first for first, _, _ in split], [f" {others}" for _, _, others in split]
        self._plain = self._gaps([]), perplexity(model, *self._read)

    def fall(self, edits: Sequence[Any], how: str) -> Figure:
        """By which share the mean gap falls; the interval is that of the mean fall, over occupations."""
        gaps = self._plain[0]
        return mean_figure((gaps - self._gaps(edits)) / gaps.mean(), how)

    def strain(self, edits: Sequence[Any]) -> float:
        """Perplexity of neutral texts, over that without edits."""
        with self.model.edit(*edits):
            return perplexity(self.model, *self._read) / self._plain[1]

    def _gaps(self, edits: Sequence[Any]) -> np.ndarray:
        found = []
        with self.model.edit(*edits), torch.no_grad():
            for prompt in self._prompts:
                ids = self.model.tokenizer(prompt, return_tensors="pt").input_ids
                logits = self.model.module(ids).logits[0, -1]
                found.append(abs(float(logits[self._he] - logits[self._she])))
        return np.array(found)
