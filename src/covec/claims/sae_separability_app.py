"""The claim of separability and APP: sparse units tell concepts apart, and posteriors attenuate them with little harm.

Known sparse features, mixed into half as many dense ones (2508.15094); coordinates of the stream of the embedded model
against the codes of a sparse autoencoder trained on it here; and the codes of one topic edited by APP, by full masking
and by range masking.

Where the card leaves a choice: a sentence's values are means over its tokens, by which units are chosen, and what is
edited are tokens, by the distributions of tokens; the autoencoder keeps 32 of 2048 codes and is trained on texts of
covec's own; what a topic loses is read as the log-probability of its words after its sentences, and what others lose
after theirs; numbers of units go up until every way reaches one loss, at which harm is read between the numbers tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._clock import one_thread
from covec.claims._figures import above, mean_figure, shown
from covec.claims._sparse import sparse_dictionary
from covec.concepts.dictionary import Dictionary
from covec.concepts.packaged import neutral_texts
from covec.edits.algebra import Edit
from covec.edits.attenuation import attenuate, mask_range, mask_units
from covec.edits.encoded import encoded
from covec.measure.sae_separability_app import Separability, sae_separability_app
from covec.models.load import load
from covec.models.positions import Position
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.statistics.densities import Densities
from covec.statistics.figure import Figure
from covec.worlds.spans import sentences
from covec.worlds.styles import STYLES, styled
from covec.worlds.topics import TOPICS, about, asked

SITE = "resid.15"
KEPT = 32  # codes of each token
WAYS = ("APP", "full masking", "range masking")


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    sentences: int = 60  # a topic
    corpus: int = 300  # texts of each kind that the autoencoder is trained on
    codes: int = 2048
    steps: int = 600
    removed: int = 3  # topics that are removed in turn
    tested: int = 8  # sentences a topic
    neutral: int = 24
    numbers: tuple[int, ...] = (4, 16, 64)


REDUCED = _Setting(8, 6, 128, 5, 1, 2, 3, (2, 8))


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m")
    with one_thread():
        words = _Words(model, setting)
        figures = (*_known(), *_compared(words), *_removed(words))
    return Claim("sae-separability-app", figures)


def _known() -> Iterator[ClaimFigure]:
    """64 sparse features, five of each of six concepts, mixed into 32 dense ones."""
    rng = np.random.default_rng(0)
    concepts = np.arange(360) % 6
    chance = np.where(np.arange(64) // 5 == concepts[:, None], 0.5, 0.05)
    sparse = rng.exponential(size=(360, 64)) * (rng.random((360, 64)) < chance)
    dense = sparse @ rng.standard_normal((64, 32)) / 8
    yield from _favoured(
        "known features", *(sae_separability_app(values, concepts.tolist()) for values in (sparse, dense))
    )


def _favoured(name: str, sparse: Separability, dense: Separability) -> Iterator[ClaimFigure]:
    """Whether sparse units are the better ones, by their best; all units are shown whichever way they go."""
    yield above(f"{name}: one concept against the rest", sparse.figure, dense.figure)
    rule = "below the baseline"
    fewer = sparse.overlap.value < dense.overlap.value
    yield ClaimFigure(f"{name}: best units shared", sparse.overlap, dense.overlap, rule, fewer)
    for what, of in (("all units", "every"), ("active units", "active"), ("best units", "top")):
        yield shown(f"{name}: all concepts at once, {what}", getattr(sparse, of), getattr(dense, of))


class _Words:
    """Sentences on topics with their activations and codes, and what the model makes of them under edits."""

    def __init__(self, model: TextModel, setting: _Setting) -> None:
        self.model, self.setting = model, setting
        written = {topic: about(topic, setting.sentences) for topic in TOPICS}
        self.topics = [topic for topic, texts in written.items() for _ in texts]
        texts = [text for each in written.values() for text in each]
        rows = model.capture([*texts, *_corpus(setting.corpus)], SITE, "content/none")
        assert rows.offsets is not None
        offsets = rows.offsets[: len(texts) + 1].numpy()
        self.dictionary: Dictionary = sparse_dictionary(rows[SITE], setting.codes, KEPT, setting.steps, site=SITE)
        own = rows[SITE][: offsets[-1]]
        codes = self.dictionary.encode(own)
        self.base, self.codes = (_means(each, offsets) for each in (own, codes))
        self.tokens = codes.double().numpy()
        self.topic_of = np.repeat([TOPICS.index(topic) for topic in self.topics], np.diff(offsets))
        self.densities = Densities.of(self.tokens, self.topic_of)
        left = own - self.dictionary.decode(codes)
        self.unexplained = float(left.square().sum() / (own - own.mean(0)).square().sum())
        self.split = Split(model, SITE)
        tested = [text for topic in TOPICS for text in written[topic][-setting.tested :]]
        self._tested = encoded(self.split, model.tokenize(tested), Position("content"))
        self._neutral = encoded(self.split, model.tokenize(neutral_texts()[: setting.neutral]), Position("content"))
        vocabulary = Vocabulary(model)
        self._ids = [[vocabulary.token(word) for word in asked(topic)] for topic in TOPICS]

    def likely(self, edit: Edit | None = None) -> Float[np.ndarray, "topics"]:
        """Log-probability of each topic's words after its own sentences, their mean."""
        found = np.zeros((len(TOPICS), self.setting.tested))
        with torch.no_grad():
            for one in self._tested:
                ends = [layout.length - 1 for layout in one.batch.layouts]
                likely = self.split.logits(one.decode(edit)[range(len(ends)), ends]).float().log_softmax(1)
                for place, row in enumerate(one.batch.rows):
                    topic, number = divmod(row, self.setting.tested)
                    found[topic, number] = float(likely[place, self._ids[topic]].logsumexp(0))
        return found.mean(1)

    def surprise(self, edit: Edit | None = None) -> float:
        """Nats a token of neutral texts."""
        total, count = 0.0, 0
        with torch.no_grad():
            for one in self._neutral:
                last = one.decode(edit)
                for place, layout in enumerate(one.batch.layouts):
                    likely = self.split.logits(last[place, : layout.length - 1]).float().log_softmax(1)
                    following = one.batch.ids[place, 1 : layout.length]
                    total -= float(likely.gather(1, following[:, None]).sum())
                    count += len(following)
        return total / count


def _corpus(count: int) -> Iterator[str]:
    """Texts that come with covec and are no sentences on the topics that are tested."""
    yield from neutral_texts()
    yield from sentences(4 * count).texts
    for style in STYLES:
        yield from styled(style, count)
    for topic in TOPICS:
        yield from about(topic, count // 2, seed=1)


def _means(rows: Float[Tensor, "tokens m"], offsets: np.ndarray) -> Float[np.ndarray, "n m"]:
    parts = rows.split(np.diff(offsets).tolist())
    return torch.stack([part.mean(0) for part in parts]).double().numpy()


def _compared(words: _Words) -> Iterator[ClaimFigure]:
    """Coordinates of the stream against codes."""
    sparse, dense = (sae_separability_app(values, words.topics) for values in (words.codes, words.base))
    yield from _favoured(SITE, sparse, dense)
    yield shown("variance that the codes leave unexplained", Figure(words.unexplained, n=len(words.topics)))


def _removed(words: _Words) -> Iterator[ClaimFigure]:
    """Harm at one loss of the topic, for each way to take its units away."""
    plain, before = words.likely(), words.surprise()
    perplexity: dict[str, list[float]] = {way: [] for way in WAYS}
    others: dict[str, list[float]] = {way: [] for way in WAYS}
    losses = []
    for topic in range(words.setting.removed):
        curves = {way: [] for way in WAYS}  # type: dict[str, list[tuple[float, float, float]]]
        for number in words.setting.numbers:
            for way, edit in _edits(words, topic, number).items():
                lost = plain - words.likely(edit)
                rise = float(np.exp(words.surprise(edit) - before))
                curves[way].append((lost[topic], rise, float(np.delete(lost, topic).mean())))
        matched = min(max(lost for lost, _, _ in curve) for curve in curves.values())
        losses.append(matched)
        for way, curve in curves.items():
            rise, aside = _at(matched, curve)
            perplexity[way].append(rise)
            others[way].append(aside)
    app, full = (mean_figure(perplexity[way], f"{way}, times, over topics") for way in WAYS[:2])
    yield ClaimFigure("perplexity at one loss", app, full, "below the baseline", app.value < full.value)
    app, ranged = (mean_figure(others[way], f"{way}, nats, over topics") for way in (WAYS[0], WAYS[2]))
    yield ClaimFigure("loss of other topics", app, ranged, "at most the baseline", app.value <= ranged.value)
    yield shown("loss of the topic at which they are compared", mean_figure(losses, "nats, over topics"))
    yield shown(
        "perplexity of range masking, beside APP's",
        *(mean_figure(perplexity[WAYS[place]], "times") for place in (2, 0)),
    )


def _edits(words: _Words, topic: int, number: int) -> dict[str, Edit]:
    """Each way to take away the codes that tell a topic best."""
    found = sae_separability_app(words.codes, words.topics, top=number, nulls=0)
    place: dict[str, object] = {"width": words.model.width, "dictionary": words.dictionary}
    units, own = found.units[topic], words.tokens[words.topic_of == topic]
    makers: dict[str, Callable[[], Edit]] = {
        "APP": lambda: attenuate(SITE, words.densities, topic, units, **place),  # type: ignore[arg-type]
        "full masking": lambda: mask_units(SITE, units, **place),  # type: ignore[arg-type]
        "range masking": lambda: mask_range(SITE, own, units, **place),  # type: ignore[arg-type]
    }
    return {way: make() for way, make in makers.items()}


def _at(loss: float, curve: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Perplexity, times, and loss of others where the topic's loss is first reached, drawn straight between numbers."""
    before = (0.0, 1.0, 0.0)
    for point in curve:
        if point[0] >= loss:
            share = (loss - before[0]) / (point[0] - before[0]) if point[0] > before[0] else 1.0
            return tuple(low + share * (high - low) for low, high in zip(before[1:], point[1:], strict=True))  # type: ignore[return-value]
        before = point
    return before[1:]
