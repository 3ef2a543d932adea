"""The claim of the cylindrical representation: an axis that all share, and planes that tell little (arXiv:2605.01844).

Concepts as directions that overlap, of which a change of one takes neighbours along, against orthogonal ones; and the
embedded model, with eight manners of answering forty questions, of which half give the axis. Steerability is the slope,
over the length of the shift, of the log-probability of the mannered answer, a token.

Where the card leaves a choice: a sample's shift is its own direction for the law of sine and cosine, and the axis' part
of it for what similarity tells; the law keeps its published powers; correlations are within concepts, so that what a
concept itself explains counts for nothing; lengths go up to three times that of the axis, as published, on all tokens
but the first. At those hardly any answer of this model becomes likelier, so that a slope is that of the damage; what a
shift as long as the axis does is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor

from covec.activations.answers import Answered
from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, shown
from covec.edits.encoded import Encoded, encoded
from covec.measure.cylindrical_representation import Cylinder, cylindrical_representation, sine_law
from covec.models.load import load
from covec.models.positions import Position
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.worlds.manners import MANNERS, QUESTIONS, mannered, plain, prompt

OVERLAP, RANK, ALONE, SHARED, TELLS, EXPLAINS = (0.4, 0.8), 5.0, 0.99, (0.2, 0.9), 0.2, 0.3  # the numbers of the rules
LENGTHS = (1.5, 3.0)  # of the shift, in lengths of the axis; beside none at all
CONCEPTS, WIDTH, NEAR, CHANGED = 200, 64, 0.2, 4  # of the world of overlapping directions


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    manners: int = 8
    questions: int = 40
    sites: tuple[str, ...] = ("resid.15", "resid.22")


REDUCED = _Setting(2, 10, ("resid.28",))


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model, figures = load("smollm2-135m"), [*_overlapping()]
    for site in setting.sites:
        figures += _steered(_samples(model, site, setting))
    return Claim("cylindrical-representation", tuple(figures))


def _overlapping() -> Iterator[ClaimFigure]:
    """Changes of a concept that take some of its neighbours along, where there are any."""
    rng = np.random.default_rng(0)
    crowded = torch.nn.functional.normalize(torch.from_numpy(rng.standard_normal((CONCEPTS, WIDTH))), dim=1)
    cylinder = _changes(crowded, rng)
    low, high = OVERLAP
    holds = low <= cylinder.figure.value <= high
    yield ClaimFigure("overlapping concepts: cosine with the axis", cylinder.figure, None, f"{low} to {high}", holds)
    yield above("overlapping concepts: effective rank across it", cylinder.rank, RANK)
    alone = _changes(torch.eye(WIDTH, dtype=torch.float64), rng).figure
    rule = "at least the baseline"
    yield ClaimFigure("orthogonal concepts: cosine with the axis", alone, ALONE, rule, alone.value >= ALONE)


def _changes(concepts: Float[Tensor, "k d"], rng: np.random.Generator, samples: int = 60) -> Cylinder:
    """Difference vectors of the first concept, each with up to four of its neighbours changed too."""
    near = np.flatnonzero((concepts[1:] @ concepts[0]).numpy() > NEAR) + 1
    rows = []
    for _ in range(samples):
        others = rng.choice(near, min(CHANGED, len(near)), replace=False)
        signs = torch.from_numpy(rng.choice((-1.0, 1.0), len(others)))
        noise = 1e-3 * torch.from_numpy(rng.standard_normal(WIDTH))
        rows.append(concepts[0] + signs @ concepts[torch.from_numpy(others)] + noise)
    return cylindrical_representation(torch.stack(rows))


@dataclass(frozen=True)
class _Samples:
    """Held-out samples at one site: concept, question, difference, cosine with its axis, and steerabilities.

    `own` is that of the sample's own direction over the squared length of the axis, `near` the same up to one length of
    the axis, `axis` that of its axis part [n].
    """

    site: str
    concepts: np.ndarray
    questions: np.ndarray
    differences: Float[Tensor, "n d"]
    cosines: Float[np.ndarray, "n"]
    own: Float[np.ndarray, "n"]
    near: Float[np.ndarray, "n"]
    axis: Float[np.ndarray, "n"]

    def within(self, values: np.ndarray) -> np.ndarray:
        """`values` less the mean of each concept's."""
        means = np.array([values[self.concepts == one].mean() for one in self.concepts])
        return values - means


def _samples(model: TextModel, site: str, setting: _Setting) -> _Samples:
    """Axes of one half of the questions, and what steering does on the other half."""
    asked = QUESTIONS[: setting.questions]
    manners = tuple(MANNERS)[: setting.manners]
    texts = [f"{prompt(one)} {plain(one)}" for one in asked]
    texts += [f"{prompt(one)} {mannered(one, manner)}" for manner in manners for one in asked]
    rows = model.capture(texts, site, "last")[site].reshape(1 + len(manners), len(asked), -1)
    differences, tested = rows[1:] - rows[0], np.arange(len(asked)) % 2 == 1
    answered = Answered.of(
        model,
        [prompt(one) for _ in manners for one in asked[1::2]],
        [mannered(one, manner) for manner in manners for one in asked[1::2]],
    )
    batches = encoded(Split(model, site), answered.tokens, Position("content"))
    cylinders = [cylindrical_representation(each[torch.from_numpy(~tested)]) for each in differences]
    held = [each[torch.from_numpy(tested)] for each in differences]
    before = _likely(answered, batches, None)

    def steered(length: float, penalty: float) -> np.ndarray:
        shifts = [
            one.steering(each, length * float(one.axis.norm()), penalty)
            for one, each in zip(cylinders, held, strict=True)
        ]
        return _likely(answered, batches, torch.cat(shifts))

    own, axis = (
        np.polyfit((0.0, *LENGTHS), np.stack([before, *(steered(length, penalty) for length in LENGTHS)]), 1)[0]
        for penalty in (0.0, 1.0)
    )
    near = steered(1.0, 0.0) - before
    sizes = np.repeat([float(one.axis.norm()) for one in cylinders], int(tested.sum()))
    cosines = [
        torch.nn.functional.cosine_similarity(each, one.axis[None]).numpy()
        for one, each in zip(cylinders, held, strict=True)
    ]
    concepts = np.repeat(np.arange(len(manners)), int(tested.sum()))
    questions = np.tile(np.flatnonzero(tested), len(manners))
    return _Samples(
        site, concepts, questions, torch.cat(held), np.concatenate(cosines), own / sizes**2, near / sizes**2, axis
    )


def _likely(answered: Answered, batches: list[Encoded], shifts: Float[Tensor, "n d"] | None) -> Float[np.ndarray, "n"]:
    """Log-probability a token of every answer, with a shift of its own on every token of its row."""
    found = np.empty(len(answered))
    for one in batches:
        rows = list(one.batch.rows)
        own = None if shifts is None else shifts[rows][:, None]

        def visit(h: Tensor, one: Encoded = one, own: Tensor | None = own) -> Tensor:
            return h if own is None else torch.where(one.chosen[..., None], h + own.to(h.dtype), h)

        with torch.no_grad():
            read = answered.read_batch(one.batch, one.split.decode(one.batch, one.hidden, visit))
        found[rows] = read.log_probability.double().cpu().numpy()
    return found / np.array([len(ids) for ids in answered.answers])


def _steered(samples: _Samples) -> Iterator[ClaimFigure]:
    """The three predictions, at one site."""
    site = samples.site
    low, high = SHARED
    cosine = _bootstrapped(samples, lambda rows: samples.cosines[rows].mean(), "mean over samples")
    yield ClaimFigure(f"{site}: cosine with the axis", cosine, None, f"{low} to {high}", low <= cosine.value <= high)
    law, along = map(samples.within, (sine_law(samples.cosines), samples.cosines))
    for steerability, what in ((samples.own, ""), (samples.near, ", up to one length of the axis")):
        steered = samples.within(steerability)
        by_law, by_cosine = (
            _correlated(samples, steered, by, how) for by, how in ((law, "sine and cosine"), (along, "cosine alone"))
        )
        judged = shown if what else above
        yield judged(f"{site}: correlation of steerability with the law{what}", by_law, by_cosine)
    unit = torch.nn.functional.normalize(samples.differences, dim=1)
    alike, apart = (unit @ unit.T).numpy(), np.abs(samples.axis[:, None] - samples.axis)

    def ranks(rows: np.ndarray) -> float:
        one, other = _pairs(samples.concepts, rows)
        return float(spearmanr(alike[one, other], apart[one, other]).statistic)

    rank = _bootstrapped(samples, ranks, "Spearman over pairs of samples of one concept")
    name = f"{site}: similarity of samples against difference of steerability"
    yield ClaimFigure(name, rank, None, f"within {TELLS} of zero", abs(rank.value) <= TELLS)
    one, other = _pairs(samples.concepts, np.arange(len(alike)))
    share = Figure(
        _correlation(alike[one, other], apart[one, other]) ** 2, n=len(one), how="squared, over the same pairs"
    )
    yield ClaimFigure(f"{site}: share that it explains", share, EXPLAINS, "below the baseline", share.value < EXPLAINS)
    far, near = (_positive(samples, each) for each in (samples.own, samples.near))
    yield shown(f"{site}: answers that become likelier; up to one length of the axis", far, near)


def _correlated(samples: _Samples, one: np.ndarray, other: np.ndarray, how: str) -> Figure:
    return _bootstrapped(samples, lambda rows: _correlation(one[rows], other[rows]), how)


def _positive(samples: _Samples, values: np.ndarray) -> Figure:
    return _bootstrapped(samples, lambda rows: float((values[rows] > 0).mean()), "share of samples")


def _bootstrapped(samples: _Samples, statistic: Callable[[np.ndarray], float], how: str, draws: int = 500) -> Figure:
    """`statistic` of rows of the samples, with its interval over questions."""
    rng, questions = np.random.default_rng(0), np.unique(samples.questions)
    rows_of = [np.flatnonzero(samples.questions == one) for one in questions]
    drawn = [
        statistic(np.concatenate([rows_of[place] for place in rng.integers(len(rows_of), size=len(rows_of))]))
        for _ in range(draws)
    ]
    value = float(statistic(np.arange(len(samples.questions))))
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    told = f"{how}, bootstrap over {len(questions)} questions"
    return Figure(value, min(float(low), value), max(float(high), value), n=len(samples.questions), how=told)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one, other)[0, 1])


def _pairs(concepts: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of different samples of one concept among `rows`."""
    one, other = (rows[places] for places in np.triu_indices(len(rows), 1))
    kept = (concepts[one] == concepts[other]) & (one != other)
    return one[kept], other[kept]
