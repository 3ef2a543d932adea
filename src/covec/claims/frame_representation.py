"""The Frame Representation Hypothesis: words are frames, concepts hold them together and guide texts (2412.07334).

Where the card leaves a choice: the words of several tokens are those of the packaged texts and lists; frames of every
word are told apart, its own concept's without the word itself; ten neutral prompts are continued by 16 tokens; sampling
draws five texts a prompt from the same candidates. A word is in a text where it, or its plural, stands there whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from covec.activations.fluency import perplexity
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, shown
from covec.concepts.packaged import example_concept, neutral_prompts, neutral_texts
from covec.find._frames import Frame, Frames
from covec.find._guided import guided
from covec.models.load import load
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.statistics.intervals import auroc_figure
from covec.statistics.proportions import wilson
from covec.worlds.concept_words import CONCEPTS, further_words, words
from covec.worlds.relations import RELATIONS, relation

FULL, SEPARATED, GAIN = 0.99, 0.9, 0.05  # the numbers of the rules
GUIDES = ("animal", "food")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    words: int = 500
    prompts: int = 10
    candidates: int = 4
    tokens: int = 16
    draws: int = 5


REDUCED = _Setting(40, 2, 3, 3, 1)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    frames = Frames(model)
    figures = (*_ranks(frames, setting), *_separation(frames, Frames(model, whiten=False)))
    return Claim("frame-representation", (*figures, *_guided_texts(model, frames, setting)))


def _ranks(frames: Frames, setting: _Setting) -> Iterator[ClaimFigure]:
    """Whether the columns of a word's frame are independent, beside random ones of the same sizes and lengths."""
    found = _words_of_several_tokens(frames, setting.words)
    generator = torch.Generator().manual_seed(0)
    random = [torch.randn(one.columns.shape, generator=generator) for one in found]
    lengths = [one.columns.norm(dim=0) for one in found]
    control = [torch.nn.functional.normalize(drawn, dim=0) * size for drawn, size in zip(random, lengths, strict=True)]
    own, chance = _full([one.columns for one in found]), _full(control)
    how = "words of several tokens whose frame has full rank"
    share = Figure(own[0], *wilson(own[0], len(found)), chance[0], len(found), how)
    yield ClaimFigure("rank of words", share, FULL, "above the baseline", share.value > FULL)
    how = "least over largest singular value of a frame, the least of"
    ratios = Figure(own[1], n=len(found), how=f"{how} words"), Figure(chance[1], n=len(found), how=f"{how} random ones")
    yield shown("smallest singular value", *ratios)


def _full(frames: Sequence[torch.Tensor]) -> tuple[float, float]:
    """The share of frames of full rank, and the least ratio of a frame's smallest singular value to its largest."""
    full = [int(torch.linalg.matrix_rank(columns)) == columns.shape[1] for columns in frames]
    sizes = [torch.linalg.svdvals(columns) for columns in frames]
    return float(np.mean(full)), min(float(each[-1] / each[0]) for each in sizes)


def _words_of_several_tokens(frames: Frames, count: int) -> list[Frame]:
    """Frames of different words from the packaged texts and lists."""
    facts = [subject for name in RELATIONS for subject, _ in relation(name).facts]
    listed = [word for concept in CONCEPTS for word in words(concept)]
    texts = [*listed, *facts, *neutral_texts(), *example_concept().texts]
    found = dict.fromkeys(word for text in texts for word in _WORD.findall(text))
    several = [word for word in found if len(frames.tokens(word)) > 1]
    return [frames.word(word) for word in several[:count]]


@dataclass(frozen=True)
class _Pairs:
    """All pairs of a word and a concept: whether it is the word's own, the word's tokens, and their correlation."""

    own: Bool[np.ndarray, "n"]
    tokens: Int[np.ndarray, "n"]
    words: tuple[str, ...]
    scores: Float[np.ndarray, "n"]

    @classmethod
    def of(cls, frames: Frames) -> _Pairs:
        """As `frames` have them; a word has no part in its own concept's frame."""
        rows, whole = [], {concept: frames.concept(words(concept)) for concept in CONCEPTS}
        for own, word in ((concept, word) for concept in CONCEPTS for word in words(concept)):
            frame, without = frames.word(word), frames.concept([one for one in words(own) if one != word])
            for other, concept in {**whole, own: without}.items():
                rows.append((own == other, frame.used, word, frame.correlation(concept)))
        own_ones, tokens, named, scores = zip(*rows, strict=True)
        return cls(np.array(own_ones), np.array(tokens), tuple(named), np.array(scores))

    def auroc(self, fewest: int = 1) -> Figure:
        """Of own concepts against others, for words of at least as many tokens; a word is a group."""
        rows = np.flatnonzero(self.tokens >= fewest)
        groups = [self.words[row] for row in rows]
        return auroc_figure(self.scores[rows], self.own[rows], groups, null=0.5)


def _separation(frames: Frames, unwhitened: Frames) -> Iterator[ClaimFigure]:
    """How well correlations tell a word's own concept from others."""
    whitened, centred = _Pairs.of(frames), _Pairs.of(unwhitened)
    figure = whitened.auroc()
    name = "own concept told from others"
    yield ClaimFigure(name, figure, SEPARATED, "at least the baseline", figure.value >= SEPARATED)
    yield above(f"{name}, against frames that are not whitened", figure, centred.auroc(), GAIN)
    yield shown(f"{name}, words of several tokens", whitened.auroc(2), centred.auroc(2))


def _guided_texts(model: TextModel, frames: Frames, setting: _Setting) -> Iterator[ClaimFigure]:
    """Totals beside greedy decoding, and how often a further word of the concept comes up beside sampling."""
    prompts = neutral_prompts()[:: 50 // setting.prompts][: setting.prompts]
    options = {"max_new_tokens": setting.tokens, "top_k": setting.candidates, "do_sample": True}
    drawn = model.generate([prompt for prompt in prompts for _ in range(setting.draws)], **options)
    risen: list[bool] = []
    told: list[bool] = []
    by_chance: list[bool] = []
    texts: list[str] = []
    plain: list[str] = []
    for name in GUIDES:
        concept = frames.concept(words(name))
        found, greedy = (
            guided(model, prompts, concept, candidates=count, max_new_tokens=setting.tokens)
            for count in (setting.candidates, 1)
        )
        risen += [one.total > other.total for one, other in zip(found, greedy, strict=True)]
        told += [_holds(one.text, name) for one in found]
        by_chance += [_holds(text, name) for text in drawn]
        texts += [one.text for one in found]
        plain += [one.text for one in greedy]
    share = _share(risen, f"prompts and concepts {' and '.join(GUIDES)}")
    yield ClaimFigure("concept's total rises over greedy", share, 1.0, "equal to the baseline", share.value == 1.0)
    own, chance = _share(told, "texts with a further word of the concept"), _share(by_chance, "sampled texts")
    yield above("a further word of the concept comes up", own, chance)
    losses = [float(np.log(perplexity(model, prompts * len(GUIDES), each))) for each in (texts, plain)]
    yield shown("loss of guided texts", *(Figure(loss, how="nats a token") for loss in losses))


def _holds(text: str, concept: str) -> bool:
    known = {form for word in further_words(concept) for form in (word, word + "s", word + "es")}
    return any(word.casefold() in known for word in _WORD.findall(text))


def _share(held: Sequence[bool], how: str) -> Figure:
    value = float(np.mean(held))
    return Figure(value, *wilson(value, len(held)), n=len(held), how=how)
