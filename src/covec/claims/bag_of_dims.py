"""Bag of Dims' claim, for words: signs of single dimensions tell a category, in the standard basis (arXiv:2606.12629).

Every word is read alone; the rest are the most common words of the vocabulary that are in no category. Half of them are
the background, the other half what a category has to be told from. The layer is chosen on the anchors alone. The image
part waits for vision models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.concepts.packaged import neutral_prompts, neutral_texts
from covec.detect.bag_of_dims import BagOfDims, PushSigns, token_states, writer
from covec.edits.algebra import Edit
from covec.errors import ModelError
from covec.models.load import load
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.statistics.auroc import auroc
from covec.worlds.word_categories import word_categories

EARLY, LATER, LAST = range(5, 11), (15, 20), 29
WRITTEN_AT = ("attn.10", "attn.15", "attn.20")
FOLDS, PROBED, SEEDS = 5, 600, 3
PROMPTS = {
    "animals": ("At the zoo the children looked at the", "Her favourite animal is the"),
    "colours": ("The walls of the room were painted", "His favourite colour is"),
    "countries": ("They spent the summer travelling through", "She was born in the north of"),
    "months": ("The meeting was moved to the first week of", "My birthday is in"),
    "numbers": ("The box on the table holds exactly", "When asked how many there were he said"),
    "body parts": ("The doctor put a bandage on her", "After the fall he felt a pain in his"),
    "verbs in -ing": ("Every morning before breakfast she goes", "The children spent the whole afternoon"),
    "names": ("A tall man came in and said that his name was", "The letter was signed by"),
}


@dataclass(frozen=True)
class _Setting:
    """How much is read: common words, categories, words of each to learn from, random bases, dimensions at random."""

    background: int = 8192
    categories: int = 8
    anchors: int = 25
    rotations: int = 5
    draws: int = 5
    rows: int = 400  # of neutral text, whose signs alone are read


REDUCED = _Setting(background=128, categories=2, rotations=1, draws=1, rows=20)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    world = _World.read(load("smollm2-135m"), REDUCED if reduced else _Setting())
    return Claim("bag-of-dims", (*_reading(world), *_signs_alone(world), *_flipping(world), *_writing(world)))


@dataclass(frozen=True)
class _World:
    """States of words alone: those of each category, anchors first, and those of common words in none of them."""

    model: TextModel
    setting: _Setting
    ids: dict[str, list[int]]
    states: dict[str, dict[Site, Tensor]]
    anchors: dict[str, int]
    common: dict[Site, Tensor]

    @classmethod
    def read(cls, model: TextModel, setting: _Setting) -> _World:
        """Words that are one token, in an order of chance."""
        vocabulary, rng = Vocabulary(model), np.random.default_rng(0)
        listed = dict(list(word_categories().items())[: setting.categories])
        ids = {name: rng.permutation(_tokens(vocabulary, words)).tolist() for name, words in listed.items()}
        taken = {one for words in word_categories().values() for one in _tokens(vocabulary, words)}
        free = {one for variants in vocabulary.words.values() for one in variants} - taken
        pieces = model.tokenizer.convert_ids_to_tokens(sorted(free))
        common = [one for one, piece in zip(sorted(free), pieces, strict=True) if piece.startswith("Ġ")]
        sites = [f"resid.{block}" for block in (*EARLY, *LATER, LAST)]
        return cls(
            model,
            setting,
            ids,
            {name: token_states(model, words, sites) for name, words in ids.items()},
            {name: min(setting.anchors, int(0.6 * len(words))) for name, words in ids.items()},
            token_states(model, common[: setting.background], sites),
        )

    def parts(self, name: str, site: Site) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """A category's anchors and held-out words, the background, and the words it is told from."""
        rows, common, count = self.states[name][site], self.common[site], self.anchors[name]
        return rows[:count], rows[count:], common[::2], common[1::2]

    def aurocs(self, site: Site, turn: Tensor | None = None) -> Float[np.ndarray, "categories"]:
        """AUROC of held-out words of each category, in the basis `turn` where one is given."""
        turned = {name: rows[site] if turn is None else rows[site] @ turn for name, rows in self.states.items()}
        common = self.common[site] if turn is None else self.common[site] @ turn
        found = []
        for name, rows in turned.items():
            reader = BagOfDims().fit(rows[: self.anchors[name]], common[::2])
            found.append(_auroc(reader.score, rows[self.anchors[name] :], common[1::2]))
        return np.array(found)

    @cached_property
    def site(self) -> Site:
        """The early layer at which anchors are told best from the background, each by a reader that never saw it."""
        return max((Site("resid", block) for block in EARLY), key=self._on_anchors)

    def _on_anchors(self, site: Site) -> float:
        found = []
        for name in self.ids:
            anchors, _, background, _ = self.parts(name, site)
            known, unseen = background[::2], background[1::2]
            fold = np.arange(len(anchors)) % FOLDS
            readers = [BagOfDims().fit(anchors[fold != one], known) for one in range(FOLDS)]
            found += [_auroc(reader.score, anchors[fold == one], unseen) for one, reader in enumerate(readers)]
        return float(np.mean(found))


def _tokens(vocabulary: Vocabulary, words: tuple[str, ...]) -> list[int]:
    """Ids of the words that are one token."""
    found = []
    for word in words:
        try:
            found.append(vocabulary.token(word))
        except ModelError:
            continue
    return found


def _auroc(score: Callable[[Tensor], Tensor], positive: Tensor, negative: Tensor) -> float:
    scores = torch.cat([score(positive), score(negative)]).numpy()
    return float(auroc(scores, np.arange(len(scores)) < len(positive)))


def _reading(world: _World) -> Iterator[ClaimFigure]:
    """How well signs tell categories, in the standard basis and in random ones, and what a trained probe adds."""
    site, count = world.site, len(world.ids)
    own = world.aurocs(site)
    figure = mean_figure(own, f"AUROC of held-out words, mean over {count} categories at {site}", null=0.5)
    rule = "at least the baseline"
    yield ClaimFigure("categories told by signs, early layer", figure, 0.9, rule, figure.value >= 0.9)
    for other in (*(Site("resid", block) for block in LATER), Site("resid", LAST)):
        yield shown(f"the same at {other}", mean_figure(world.aurocs(other), "mean over categories", null=0.5))
    generator = torch.Generator().manual_seed(0)
    width = world.model.width
    turns = [torch.linalg.qr(torch.randn(width, width, generator=generator)).Q for _ in range(world.setting.rotations)]
    for where in (site, Site("resid", LATER[0])):
        turned = np.mean([world.aurocs(where, turn) for turn in turns], axis=0)
        gain = mean_figure(world.aurocs(where) - turned, "standard basis less random rotations, paired", null=0.0)
        baseline = mean_figure(turned, f"AUROC in {len(turns)} random bases")
        yield shown(f"what the standard basis adds at {where}", gain, baseline)
    probed = [_probe(world, name) for name in world.ids]
    yield shown("what a logistic probe adds", mean_figure(probed - own, "AUROC, probe less signs, paired", null=0.0))


def _probe(world: _World, name: str) -> float:
    """AUROC of a logistic probe on the same anchors and some of the background."""
    anchors, held, background, rest = world.parts(name, world.site)
    rows = torch.cat([anchors, background[:PROBED]]).numpy()
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    probe.fit(rows, np.arange(len(rows)) < len(anchors))
    return _auroc(lambda X: torch.from_numpy(probe.decision_function(X.numpy())), held, rest)


def _signs_alone(world: _World) -> Iterator[ClaimFigure]:
    """How often the most likely token stays among the first five where the last stream keeps its signs alone."""
    last = Site("resid", world.model.blocks - 1)
    texts = neutral_texts()[: max(2, world.setting.rows // 20)]
    rows = world.model.capture(texts, last, "content/none")[last][: world.setting.rows]
    vocabulary = Vocabulary(world.model)
    first = vocabulary.logits(rows).argmax(1)
    kept = (vocabulary.logits(rows.sign()).topk(5, dim=1).indices == first[:, None]).any(1)
    yield shown("top-1 in the top-5 of signs alone", mean_figure(kept.double().numpy(), f"share of tokens at {last}"))


def _flipping(world: _World) -> Iterator[ClaimFigure]:
    """What flipping the dimensions of a category costs it, against others, changed by the same length."""
    drops, at_random, of_another = [], [], []
    rng, names = np.random.default_rng(0), list(world.ids)
    readers = {name: _reader(world, name) for name in names}
    for place, name in enumerate(names):
        flip = readers[name].flip(world.site)
        before = _likely(world, name)
        drops.append(before - _likely(world, name, flip))
        other = readers[names[(place + 1) % len(names)]].flip(world.site)
        of_another.append(before - _likely(world, name, _matched(other.pattern, flip)))
        draws = []
        for _ in range(world.setting.draws):
            pattern = torch.zeros(world.model.width)
            chosen = rng.choice(world.model.width, readers[name].dims, replace=False)
            pattern[chosen] = torch.from_numpy(rng.choice([-1.0, 1.0], len(chosen))).float()
            draws.append(before - _likely(world, name, _matched(pattern, flip)))
        at_random.append(np.mean(draws))
    how = f"fall of the category's log-probability after its prompts, nats, flipped at {world.site}"
    drop = mean_figure(drops, how)
    yield above("flipping the category's dimensions", drop, mean_figure(at_random, "random dimensions, equal length"))
    yield shown("flipping those of another category", mean_figure(of_another, "equal length"))


def _writing(world: _World) -> Iterator[ClaimFigure]:
    """Whether the signs of the words' unembedding write them, and whether those that read them do."""
    written, read, agreement = list[float](), list[float](), list[float]()
    prompts = neutral_prompts()[:10]
    for name, ids in world.ids.items():
        words = [world.model.tokenizer.decode([one]).strip() for one in ids[:SEEDS]]
        signs, reader = writer(world.model, words), _reader(world, name)
        before = _log_probability(world.model, prompts, ids[:SEEDS])
        for values, pattern in ((written, signs), (read, reader.pattern_ * (len(signs) / reader.dims) ** 0.5)):
            pushes = [PushSigns(site=Site.parse(site), signs=pattern, gain=0.5) for site in WRITTEN_AT]
            values.append(_log_probability(world.model, prompts, ids[:SEEDS], *pushes) - before)
        chosen = reader.pattern_ != 0
        agreement.append(float((signs[chosen] == reader.pattern_[chosen]).float().mean()))
    how = f"rise of the log-probability of {SEEDS} words, nats, gain 0.5 at {', '.join(WRITTEN_AT)}"
    by_readers = mean_figure(read, "towards the reader's signs, equal length")
    yield shown("pushing towards the writer's signs", mean_figure(written, how), by_readers)
    shared = mean_figure(agreement, "share of the reader's dimensions", null=0.5)
    yield shown("signs that reader and writer share", shared)


def _reader(world: _World, name: str) -> BagOfDims:
    anchors, _, background, _ = world.parts(name, world.site)
    return BagOfDims().fit(anchors, background)


def _matched(pattern: Tensor, like: Edit) -> Edit:
    return type(like)(site=like.site, pattern=pattern, like=like)  # type: ignore[call-arg]


def _likely(world: _World, name: str, *edits: Edit) -> float:
    return _log_probability(world.model, PROMPTS[name], world.ids[name], *edits)


def _log_probability(model: TextModel, prompts: tuple[str, ...], ids: list[int], *edits: Edit) -> float:
    """Log-probability that one of `ids` comes next, mean over the prompts, under edits."""
    with model.edit(*edits):
        last = model.capture(prompts, "final", "last")[Site("final")]
    with torch.no_grad():
        logits = Split(model, "embed").logits(last.to(model.device, model.dtype)).float()
    return float(logits.log_softmax(1)[:, ids].logsumexp(1).mean())
