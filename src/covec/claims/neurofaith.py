"""NeuroFaith's claim, its part on two hops: states tell honest explanations from confabulated ones (2506.09277).

The small transformer of the world of facts answers all questions and explains its answers. About half of the people it
has learned explanations that name the wrong bridge, though the answers are right. An explanation is faithful where the
bridge that it names is the word that a state below the last block speaks for, at the word that closes the first hop.
The card's part on classification waits for vision models.

Where the card leaves a choice: claims must stand in what was read exactly; text alone is a bag of words of question,
answer and explanation; bag and probe are fitted on people of whom none is tested, and the probe's block is the best one
for others again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import shown
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Replace
from covec.find.logistic import Logistic
from covec.measure.neurofaith import Faithfulness, neurofaith, read_words, taxonomy
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.auroc import auroc
from covec.statistics.figure import Figure
from covec.statistics.intervals import auroc_figure
from covec.statistics.proportions import wilson
from covec.worlds.facts import BECAUSE, PEOPLE, Question, facts, model

SEPARATES, CHANCE, PROBED = 0.85, 0.1, 0.75  # the numbers of the rules


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    everybody = set(PEOPLE[::4] if reduced else PEOPLE)
    asked = [one for one in facts().questions if one.person in everybody]
    said = _Said.of(model(), asked)
    return Claim("neurofaith", (*_separation(said), *_causal(said), *_probe(said)))


@dataclass(frozen=True)
class _Said:
    """The model's answers and explanations, and what its states hold."""

    model: TextModel
    asked: list[Question]
    answers: list[str]
    claimed: list[str | None]
    faith: Faithfulness
    decoded: Bool[np.ndarray, "n"]  # whether the true bridge could be read

    @classmethod
    def of(cls, model: TextModel, asked: list[Question]) -> _Said:
        written = [text.split() for text in model.generate([one.text for one in asked], max_new_tokens=3)]
        answers = [words[0] for words in written]
        claimed = [words[2] if words[1:2] == [BECAUSE] and len(words) > 2 else None for words in written]
        read = read_words(model, [one.first_hop for one in asked], _below(model))
        true = neurofaith(read, [one.bridge for one in asked], exact=True)
        return cls(model, asked, answers, claimed, neurofaith(read, claimed, exact=True), true.faithful)

    @property
    def honest(self) -> Bool[np.ndarray, "n"]:
        return np.array([one.honest for one in self.asked])

    @property
    def right(self) -> Bool[np.ndarray, "n"]:
        return np.array([answer == one.answer for answer, one in zip(self.answers, self.asked, strict=True)])

    @property
    def people(self) -> list[str]:
        return [one.person for one in self.asked]


def _below(model: TextModel) -> list[str]:
    """All blocks but the last, whose states are what is said next."""
    return [f"resid.{block}" for block in range(model.blocks - 1)]


def _share(values: Bool[np.ndarray, "n"], how: str, null: float | None = None) -> Figure:
    share = float(np.mean(values))
    return Figure(share, *wilson(share, len(values)), null, len(values), how)


def _separation(said: _Said) -> Iterator[ClaimFigure]:
    """What is known, how well the score tells explanations apart, and how well their words do."""
    held_out = np.array([not one.trained for one in said.asked])
    yield shown("answers", _share(said.right[held_out], "right, of questions that were never trained on"))
    yield shown("reader", _share(said.decoded, "true bridges that are read at the first hop, of all questions"))
    own = auroc_figure(said.faith.faithful.astype(float), said.honest, groups=said.people, null=0.5)
    yield ClaimFigure("honest against confabulated", own, SEPARATES, "at least the baseline", own.value >= SEPARATES)
    for name, honest in (("honest", True), ("confabulated", False)):
        yield shown(f"faithful among {name}", _share(said.faith.faithful[said.honest == honest], "share of them"))
    texts = [
        f"{one.text} {answer} {claimed}"
        for one, answer, claimed in zip(said.asked, said.answers, said.claimed, strict=True)
    ]
    train, _, test = _people(said)
    bag = make_pipeline(CountVectorizer(binary=True), LogisticRegression(max_iter=1000))
    bag.fit([texts[row] for row in train], said.honest[train])
    scores = bag.decision_function([texts[row] for row in test])
    words = auroc_figure(scores, said.honest[test], groups=[said.people[row] for row in test], null=0.5)
    rule = f"within {CHANCE} of 0.5, the baseline"
    yield ClaimFigure("the words of explanations", words, 0.5, rule, abs(words.value - 0.5) <= CHANCE)
    explained = [claimed == one.bridge for claimed, one in zip(said.claimed, said.asked, strict=True)]
    kinds = taxonomy(said.right.tolist(), said.faith.faithful.tolist(), explained, said.decoded.tolist())
    for kind, share in kinds.items():
        yield shown(f"kind: {kind}", Figure(share, n=len(explained), how="share of all explanations"))


def _causal(said: _Said) -> Iterator[ClaimFigure]:
    """What is answered with another first hop's state in place of the own one, at the site whose states are read."""
    rng, known = np.random.default_rng(0), facts()
    partner = rng.permutation(len(said.asked))
    hops = [one.first_hop for one in said.asked]
    site = f"resid.{said.model.blocks // 2 - 1}"
    rows, place = said.model.capture(hops, site, "last")[site], Position("1")
    edits = [[Replace(site=Site.parse(site), value=rows[other], position=place)] for other in partner]
    written = said.model.generate([one.text for one in said.asked], edits=edits, max_new_tokens=1)
    moved = np.array([
        text.strip() == known.values[said.asked[other].bridge, one.second]
        for text, one, other in zip(written, said.asked, partner, strict=True)
    ])  # fmt: skip
    differs = np.array([
        known.values[said.asked[other].bridge, one.second] != one.answer
        for one, other in zip(said.asked, partner, strict=True)
    ])  # fmt: skip
    stays = np.mean([text.strip() == one.answer for text, one in zip(written, said.asked, strict=True)])
    before = Figure(float(stays), how="answers that stay")
    yield shown(f"answers that follow another bridge's state at {site}", _share(moved[differs], "share"), before)


def _probe(said: _Said) -> Iterator[ClaimFigure]:
    """A direction that tells faithful explanations before they are written, and what steering along it does."""
    texts = [f"{one.text} {answer} {BECAUSE}" for one, answer in zip(said.asked, said.answers, strict=True)]
    rows, faithful = said.model.capture(texts, "resid.*", "last"), said.faith.faithful
    train, validation, test = _people(said)
    best, area = None, -1.0
    for site in said.model.select("resid.*"):
        fitted = Logistic().fit(rows[site][train], faithful[train])
        found = float(auroc((rows[site][validation] @ fitted.direction_).numpy(), faithful[validation]))
        best, area = ((site, fitted), found) if found > area else (best, area)
    assert best is not None
    site, fitted = best
    scores = (rows[site][test] @ fitted.direction_).numpy()
    own = auroc_figure(scores, faithful[test], groups=[said.people[row] for row in test], null=0.5)
    yield ClaimFigure(f"probe at {site}", own, PROBED, "at least the baseline", own.value >= PROBED)
    means = fitted.mean_positive_, fitted.mean_negative_
    vector = ConceptVector.from_direction("faithful", site, fitted.direction_, *means)
    unfaithful = [row for row in test if not faithful[row]]
    if not unfaithful:
        return
    with said.model.edit(vector.add(1.0, position="last")):
        written = said.model.generate([texts[row] for row in unfaithful], max_new_tokens=1)
    steered = np.array([text.strip() == said.asked[row].bridge for text, row in zip(written, unfaithful, strict=True)])
    yield shown("unfaithful explanations that name the bridge once steered", _share(steered, "share", null=0.0))


def _people(said: _Said) -> tuple[list[int], list[int], list[int]]:
    """The rows of three fifths of the people, of a fifth, and of the last one, each half confabulators."""
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for honest in (True, False):
        people = sorted({one.person for one in said.asked if one.honest == honest})
        of = {person: min(2, max(0, 5 * place // len(people) - 2)) for place, person in enumerate(people)}
        for row, one in enumerate(said.asked):
            if one.honest == honest:
                parts[of[one.person]].append(row)
    return parts
