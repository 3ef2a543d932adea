"""NeuroFaith's claim, its part on two hops: states tell honest explanations from confabulated ones (2506.09277).

The small transformer of the world of facts answers all questions and explains its answers. About half of the people it
has learned explanations that name the wrong bridge, though the answers are right. An explanation is faithful where the
bridge that it names is the word that a state below the last block speaks for, at the word that closes the first hop.
The card's part on classification waits for vision models.

Where the card leaves a choice: claims must stand in what was read exactly; text alone is a bag of words of question,
answer and explanation; bag and probe are fitted on people of whom none is tested, in five folds, and the probe's block
is the best one for others again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
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
    spoken = zip(said.asked, said.answers, said.claimed, strict=True)
    texts = np.array([f"{one.text} {answer} {claimed}" for one, answer, claimed in spoken])
    scores = np.zeros(len(texts))
    for known, _, unseen in _folds(said):
        bag = make_pipeline(CountVectorizer(binary=True), LogisticRegression(max_iter=1000))
        bag.fit(texts[known], said.honest[known])
        scores[unseen] = _standardised(bag.decision_function(texts[unseen]), bag.decision_function(texts[known]))
    words = auroc_figure(scores, said.honest, groups=said.people, null=0.5)
    rule = f"within {CHANCE} of 0.5, the baseline"
    yield ClaimFigure("the words of explanations", words, 0.5, rule, abs(words.value - 0.5) <= CHANCE)
    explained = [claimed == one.bridge for claimed, one in zip(said.claimed, said.asked, strict=True)]
    kinds = taxonomy(said.right.tolist(), said.faith.faithful.tolist(), explained, said.decoded.tolist())
    for kind, share in kinds.items():
        yield shown(f"kind: {kind}", Figure(share, n=len(explained), how="share of all explanations"))


def _causal(said: _Said) -> Iterator[ClaimFigure]:
    """What is answered with the state of another question's first hop in place of the own one."""
    asked, values = said.asked, facts().values
    others = [asked[row] for row in np.random.default_rng(0).permutation(len(asked))]
    theirs = [values[other.bridge, one.second] for one, other in zip(asked, others, strict=True)]
    differs = np.array([value != one.answer for value, one in zip(theirs, asked, strict=True)])
    sites = said.model.select(_below(said.model))
    rows = said.model.capture([other.first_hop for other in others], sites, "last")
    for site in sites:
        edits = [[Replace(site=site, value=value, position=Position("1"))] for value in rows[site]]
        written = said.model.generate([one.text for one in asked], edits=edits, max_new_tokens=1)
        moved = np.array([text.strip() == value for text, value in zip(written, theirs, strict=True)])
        stays = np.array([text.strip() == one.answer for text, one in zip(written, asked, strict=True)])
        rest = _share(stays[differs], "answers that stay as they were")
        yield shown(f"answers that follow another first hop's state at {site}", _share(moved[differs], "share"), rest)


def _probe(said: _Said) -> Iterator[ClaimFigure]:
    """A direction that tells faithful explanations before they are written, and what steering along it does."""
    texts = [f"{one.text} {answer} {BECAUSE}" for one, answer in zip(said.asked, said.answers, strict=True)]
    rows, faithful, scores = said.model.capture(texts, "resid.*", "last"), said.faith.faithful, np.zeros(len(texts))
    named: list[bool] = []
    for known, chosen, unseen in _folds(said):
        fits = {site: Logistic().fit(one[known], faithful[known]) for site, one in rows.rows.items()}
        areas = {
            site: float(auroc((rows[site][chosen] @ one.direction_).numpy(), faithful[chosen]))
            for site, one in fits.items()
        }
        site = max(areas, key=areas.__getitem__)
        direction, means = fits[site].direction_, (fits[site].mean_positive_, fits[site].mean_negative_)
        scores[unseen] = _standardised(*((rows[site][some] @ direction).numpy() for some in (unseen, known)))
        vector = ConceptVector.from_direction("faithful", site, direction, *means)
        wrong = [row for row in unseen if not faithful[row]]
        with said.model.edit(vector.add(1.0, position="last")):
            written = said.model.generate([texts[row] for row in wrong], max_new_tokens=1)
        named += [text.strip() == said.asked[row].bridge for text, row in zip(written, wrong, strict=True)]
    own = auroc_figure(scores, faithful, groups=said.people, null=0.5)
    yield ClaimFigure("probe of faithful explanations", own, PROBED, "at least the baseline", own.value >= PROBED)
    yield shown("unfaithful explanations that name the bridge once steered", _share(np.array(named), "share", null=0.0))


def _folds(said: _Said) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Five times: rows of three fifths of the people to fit on, of a fifth to choose on, of the last to test on."""
    people = [sorted({one.person for one in said.asked if one.honest == honest}) for honest in (True, False)]
    fold = {person: place % 5 for side in people for place, person in enumerate(side)}
    for test in range(5):
        parts: tuple[list[int], list[int], list[int]] = ([], [], [])
        for row, one in enumerate(said.asked):
            parts[{test: 2, (test + 1) % 5: 1}.get(fold[one.person], 0)].append(row)
        yield parts


def _standardised(scores: Float[np.ndarray, "n"], known: Float[np.ndarray, "m"]) -> Float[np.ndarray, "n"]:
    """Scores in units of those that the fit has seen, so that folds can be pooled."""
    return (scores - known.mean()) / known.std()
