"""ActivationReasoning's claim: rules over detectors reason over any number of hops, exactly (arXiv:2510.18184).

Facts about twelve nouns stand in texts ("Tom is a cat. Is Tom restless?"); what follows from them stands in rules. The
detectors are logistic concept vectors, fitted on the tokens of other sentences that mention the nouns; the model's own
answer is the likelier of ` Yes` and ` No` after the rules of both nouns of the question in words, the fact and the
question. The shapes of the card are sentences of a grammar here: a rule `red and circle -> target` against its parts,
and against a direction fitted on 20 sentences of which half are targets.

Where the card leaves a choice: block 15, sentences of ten frames to fit on and of six others to choose aggregator and
threshold on; the direction that the rule is held against is the better one of a logistic probe and a difference of
means, on the same tokens and with the mean over the text that the parts are read by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from covec.activations.capture import run_batches
from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import mean_figure, shown
from covec.concepts.vector import ConceptVector
from covec.detect import calibrate
from covec.detect.activation_reasoning import ActivationReasoning, Reasoning
from covec.find.logistic import Logistic
from covec.find.mean_difference import MeanDifference
from covec.models.batching import Batch
from covec.models.load import load
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.statistics.auroc import auroc, f1
from covec.statistics.figure import Figure
from covec.statistics.intervals import accuracy_figure
from covec.worlds.grammar import sentences
from covec.worlds.ontology import (
    FRAMES,
    NOUNS,
    Mention,
    Question,
    mentioning,
    mentions,
    questions,
    rules,
    told,
)

HOPS = (1, 3, 5)
ENOUGH, DROP = 0.9, 0.03  # the numbers of the rules
OTHERS = 5  # of the sentences that mention another noun one in so many helps to choose a threshold
LABELLED = 20  # examples of the conjunction that a direction is fitted on


@dataclass(frozen=True)
class _Setting:
    """Frames to fit on, names under which nouns are asked about, and sentences and draws of the conjunction."""

    site: str = "resid.15"
    frames: int = 10
    names: int = 3
    every: int = 2  # the model itself answers every second pair of questions
    fitted: int = 200
    tested: int = 160
    draws: int = 10


REDUCED = _Setting(site="resid.2", frames=2, names=1, every=6, fitted=64, tested=24, draws=2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    detectors = _detectors(model, setting)
    return Claim("activation-reasoning", (*_hops(model, detectors, setting), *_conjunction(model, setting)))


def _detectors(model: TextModel, setting: _Setting) -> list[ConceptVector]:
    """A concept vector a noun, from the tokens of sentences that mention one of them."""
    known, fresh = mentions(0, setting.frames), mentions(setting.frames, FRAMES, seed=1)
    rows, inside = _tokens(model, known, setting.site)
    found = []
    for noun in NOUNS:
        own = np.array([one.noun == noun for one in known])
        vector = _vector(Logistic, noun, setting.site, rows.X, inside & own[rows.text])
        unseen = mentioning(noun, fresh)
        some = [row for row, label in enumerate(unseen.labels) if label or row % OTHERS == 0]
        found.append(calibrate(model, vector, unseen, some))
    return found


@dataclass(frozen=True)
class _Tokens:
    """Content tokens of some texts: their activations [tokens, d], and the text of each."""

    X: torch.Tensor
    text: np.ndarray


def _tokens(model: TextModel, texts: Sequence[Mention], site: str) -> tuple[_Tokens, np.ndarray]:
    """The tokens, and whether each is one of its text's span."""
    table = model.tokenize([one.text for one in texts], spans=[one.span for one in texts])
    captured = model.capture([one.text for one in texts], site, "content/none")
    assert captured.offsets is not None
    assert captured.tokens is not None
    text = np.repeat(np.arange(len(texts)), np.diff(captured.offsets.numpy()))
    spans = np.array([item.layout.span for item in table])[text]
    places = captured.tokens.numpy()
    return _Tokens(captured[site], text), (places >= spans[:, 0]) & (places < spans[:, 1])


def _vector(
    kind: type[Logistic | MeanDifference], name: str, site: str, X: torch.Tensor, y: np.ndarray
) -> ConceptVector:
    fitted = kind().fit(X, y)
    means = fitted.mean_positive_, fitted.mean_negative_
    return ConceptVector.from_direction(name, site, fitted.direction_, *means, method=fitted.entry.name)


def _hops(model: TextModel, detectors: list[ConceptVector], setting: _Setting) -> Iterator[ClaimFigure]:
    """Accuracy by the number of rules between fact and question, and the model's own."""
    reasoner, found = ActivationReasoning(rules()), []
    for hops in HOPS:
        asked = questions(hops, setting.names)
        reasoned = _reasoned(reasoner, model, detectors, [one.text for one in asked])
        said = np.array([found[one.asked].margin for found, one in zip(reasoned, asked, strict=True)])
        truth = np.array([one.answer for one in asked])
        own = accuracy_figure(said, truth, groups=[one.noun for one in asked], null=0.5)
        found.append(own.value)
        some = [one for place, one in enumerate(asked) if place // 2 % setting.every == 0]
        model_says = accuracy_figure(_answers(model, some), np.array([one.answer for one in some]), null=0.5)
        rule = f"at least {ENOUGH}, and above the model's own answer (baseline)"
        holds = own.value >= ENOUGH and own.value > model_says.value
        yield ClaimFigure(f"accuracy at {hops} hop{'s' if hops > 1 else ''}", own, model_says, rule, holds)
        if hops == HOPS[0]:
            yield _quality(reasoned, asked)
    drop = Figure(max(found) - min(found), n=len(HOPS), how="highest accuracy of a number of hops less the lowest")
    yield ClaimFigure("loss over hops", drop, DROP, "at most the baseline", drop.value <= DROP)


def _reasoned(
    reasoner: ActivationReasoning, model: TextModel, vectors: Sequence[ConceptVector], texts: Sequence[str]
) -> list[Reasoning]:
    found = reasoner.detect(model, vectors, texts, tokens=False)
    assert isinstance(found, list)
    return found


def _quality(reasoned: Sequence[Reasoning], asked: Sequence[Question]) -> ClaimFigure:
    """What accuracy is bounded by."""
    scores = [
        f1(
            np.array([found[noun].margin for found in reasoned]),
            np.array([one.noun == noun for one in asked]),
        )
        for noun in NOUNS
    ]
    return shown("F1 of the detectors", mean_figure(scores, f"mean over {len(NOUNS)} nouns, on the questions"))


def _answers(model: TextModel, asked: Sequence[Question]) -> np.ndarray:
    """By how much the model prefers ` Yes` to ` No`, with the rules of both nouns in words before the question."""
    vocabulary = Vocabulary(model)
    yes, no = vocabulary.token("Yes"), vocabulary.token("No")
    texts = [f"{told(min(one.noun, one.other))} {told(max(one.noun, one.other))}\nQuestion: {one.text}\nAnswer:"
             for one in asked]  # fmt: skip
    tokens, split = model.tokenize(texts, offsets=False), Split(model, "final")
    found = np.zeros(len(asked))

    def read(_: Site, hidden: torch.Tensor, batch: Batch) -> None:
        ends = [layout.length - 1 for layout in batch.layouts]
        logits = split.logits(hidden[range(len(ends)), ends])
        found[list(batch.rows)] = (logits[:, yes] - logits[:, no]).numpy()

    run_batches(model, tokens, range(len(asked)), model.select("final"), read)
    return found


def _conjunction(model: TextModel, setting: _Setting) -> Iterator[ClaimFigure]:
    """AUROC of a derived concept, of its parts, and of a direction fitted on few examples of it."""
    written = sentences(setting.fitted + setting.tested)
    texts, cut = written.texts, setting.fitted
    rows = model.capture(texts, setting.site, "mean")[setting.site]
    parts = {name: written.examples(attribute, name) for attribute, name in (("colour", "red"), ("shape", "circle"))}
    vectors = [_vector(Logistic, name, setting.site, rows[:cut], one.labels[:cut]) for name, one in parts.items()]
    vectors = [calibrate(model, vector, parts[vector.name], range(cut // 2, cut)) for vector in vectors]
    truth = parts["red"].labels & parts["circle"].labels
    reasoned = _reasoned(ActivationReasoning("red and circle -> target"), model, vectors, texts[cut:])
    areas = {
        name: float(auroc(np.array([one[name].margin for one in reasoned]), truth[cut:]))
        for name in ("target", "red", "circle")
    }
    how = f"AUROC of the derived concept on {setting.tested} sentences"
    own = Figure(areas["target"], n=setting.tested, how=how)
    best = max(("red", "circle"), key=areas.__getitem__)
    single = Figure(areas[best], how=f"the better part, {best}")
    yield ClaimFigure("a rule of two parts", own, single, "above the baseline", own.value > single.value)
    rng = np.random.default_rng(0)
    rivals: dict[type, list[float]] = {}
    for _ in range(setting.draws):
        some = np.concatenate([rng.choice(np.flatnonzero(truth[:cut] == one), LABELLED // 2) for one in (True, False)])
        for kind in (Logistic, MeanDifference):
            direction = kind().fit(rows[some], truth[some]).direction_
            rivals.setdefault(kind, []).append(float(auroc((rows[cut:] @ direction).numpy(), truth[cut:])))
    direct = mean_figure(max(rivals.values(), key=np.mean), f"fitted on {LABELLED} sentences, mean over draws")
    yield ClaimFigure("a rule against few examples of it", own, direct, "above the baseline", own.value > direct.value)
