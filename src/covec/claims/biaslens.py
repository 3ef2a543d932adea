"""BiasLens' claim: similarities of concepts tell a model's bias without a test set of the bias (2505.15524).

Two models. In a small one that was trained on texts in which twelve things are praised or blamed with known
probabilities, the scores must follow what it says of them. In the embedded one, sixteen occupations lean to women or
men; how it goes on after `The nurse said that` is the behaviour.

Where the card leaves a choice: the score is the mean over those blocks of the small model whose probes are right in
0.8 of unseen texts; *near zero* is at most a quarter of the highest score; the embedded model is read after block 15,
and its autoencoder is trained on the tokens of the sentences themselves, some ten thousand in place of fifty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn.functional import cosine_similarity

from covec.activations.capture import capture_tokens
from covec.claims import Claim, ClaimFigure
from covec.claims._autoencoder import sparse_encoder
from covec.claims._figures import above, at_least, shown
from covec.measure.biaslens import BiasLens, biaslens
from covec.models.load import load
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.worlds import leanings, occupations

AGREES, AGREES_HERE, NEAR, ACCURATE = 0.7, 0.4, 0.25, 0.8  # the numbers of the rules
Texts = Mapping[str, tuple[str, ...]]
FIRST, SECOND, OTHERS = "first", "second", "others"


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    texts: int = 100
    things: tuple[str, ...] = leanings.THINGS
    codes: int = 256
    occupations: tuple[str, ...] = occupations.OCCUPATIONS
    sentences: int = 80
    embedded_codes: int = 2048
    block: int = 15
    steps: int = 200
    permutations: int = 19
    draws: int = 10


REDUCED = _Setting(12, leanings.THINGS[:4], 32, ("nurse", "pilot", "farmer", "dancer"), 10, 32, 0, 3, 1, 2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    return Claim("biaslens", (*_planted(setting), *_embedded(setting)))


def _planted(setting: _Setting) -> Iterator[ClaimFigure]:
    """Scores in the small model against what it says, and against the cosines of its embeddings."""
    model = leanings.model()
    texts: Texts = {thing: leanings.about(thing, setting.texts) for thing in setting.things} | {
        FIRST: leanings.judging(leanings.GOOD, setting.texts),
        SECOND: leanings.judging(leanings.BAD, setting.texts),
        OTHERS: leanings.plain(setting.texts),
    }
    measured = [_measured(model, texts, site, setting.codes, setting) for site in model.select("resid.*")]
    found = [one for one, _ in measured]
    accurate = [one for one in found if np.mean(list(one.accuracy.values())) >= ACCURATE] or found
    scores = _scores(accurate, setting.things)
    said = np.array([abs(_said(model, f"the {thing} is", leanings.GOOD, leanings.BAD)) for thing in setting.things])
    embeddings = np.array([_embedded_gap(model, thing) for thing in setting.things])
    own = _agreement(scores, said, f"{len(accurate)} of {len(measured)} blocks")
    yield at_least("small model: agreement with what it says", own, AGREES)
    yield above("small model: agreement, beside that of embeddings", own, _agreement(embeddings, said, "embeddings"))
    even = [score for thing, score in zip(setting.things, scores, strict=True) if leanings.PRAISE[thing] == 0.5]
    highest = Figure(max(even), n=len(even), how="highest score of what leans nowhere")
    limit = Figure(NEAR * scores.max(), how=f"{NEAR} of the highest score")
    name, near = "small model: score of what leans nowhere", highest.value <= limit.value
    yield ClaimFigure(name, highest, limit, "at most the baseline", near)
    null = Figure(float(np.mean([one.figure.null for one in accurate])), how="for shuffled references")
    mean = Figure(scores.mean(), n=len(scores), how="mean score")
    yield shown("small model: mean score, beside shuffled references", mean, null)


def _embedded(setting: _Setting) -> Iterator[ClaimFigure]:
    """Scores in the embedded model, with and without the autoencoder, against how it goes on."""
    model, site = load("smollm2-135m", dtype="float32"), Site("resid", setting.block)
    texts: Texts = {name: occupations.at_work(name)[: setting.sentences] for name in setting.occupations} | {
        FIRST: occupations.persons(True)[: setting.sentences],
        SECOND: occupations.persons(False)[: setting.sentences],
        OTHERS: occupations.plain()[: setting.sentences],
    }
    said = np.array([abs(_said(model, f"The {name} said that", ("she",), ("he",))) for name in setting.occupations])
    through, alone = _measured(model, texts, site, setting.embedded_codes, setting)
    own, plain = (
        _agreement(_scores([found], setting.occupations), said, f"after block {setting.block}, {how}")
        for found, how in ((through, "autoencoder"), (alone, "probes alone"))
    )
    yield at_least("embedded model: agreement with how it goes on", own, AGREES_HERE)
    yield shown("embedded model: agreement of probes alone", plain, AGREES_HERE)
    yield shown("embedded model: mean score, beside shuffled references", through.figure)


def _measured(model: TextModel, texts: Texts, site: Site, codes: int, setting: _Setting) -> tuple[BiasLens, BiasLens]:
    """BiasLens at one site, through an autoencoder of `codes` features that is trained on all tokens, and without."""
    tokens = model.tokenize([text for each in texts.values() for text in each], offsets=False)
    last, content = Position.parse("last"), Position.parse("content/none")
    kept = capture_tokens(model, tokens, site, [last, content])
    rows = dict(zip(texts, kept[last][site].split([len(each) for each in texts.values()]), strict=True))
    references = [rows.pop(name) for name in (FIRST, SECOND, OTHERS)]
    encode = sparse_encoder(kept[content][site], codes, steps=setting.steps)
    through, without = (
        biaslens(rows, *references, encode=one, permutations=setting.permutations, draws=setting.draws)
        for one in (encode, None)
    )
    return through, without


def _scores(found: list[BiasLens], names: tuple[str, ...]) -> Float[np.ndarray, "names"]:
    """The bias of every target: the mean of what it leans over blocks, without its sign."""
    return np.array([abs(np.mean([one.targets[name].lean.value for one in found])) for name in names])


def _said(model: TextModel, prompt: str, first: tuple[str, ...], second: tuple[str, ...]) -> float:
    """How much likelier the words of one kind come next than those of the other: in probability, of one word in log."""
    ids = torch.tensor([model.tokenizer(prompt)["input_ids"]])
    with torch.no_grad():
        chances = model.module(input_ids=ids).logits[0, -1].float().log_softmax(0)
    one, other = (
        chances[[model.tokenizer(f" {word}", add_special_tokens=False)["input_ids"][0] for word in words]]
        for words in (first, second)
    )
    return float(one - other) if len(first) == 1 else float(one.exp().sum() - other.exp().sum())


def _embedded_gap(model: TextModel, thing: str) -> float:
    """Difference of the cosines of a thing's embedding with the mean ones of praise and of blame."""
    table: Tensor = model.module.get_input_embeddings().weight.detach()  # type: ignore[operator]
    ids = model.tokenizer.get_vocab()
    own = table[ids[thing]]
    good, bad = (table[[ids[word] for word in words]].mean(0) for words in (leanings.GOOD, leanings.BAD))
    return abs(float(cosine_similarity(own, good, dim=0) - cosine_similarity(own, bad, dim=0)))


def _agreement(scores: np.ndarray, said: np.ndarray, how: str) -> Figure:
    return Figure(float(spearmanr(scores, said).statistic), null=0.0, n=len(said), how=f"Spearman, {how}")
