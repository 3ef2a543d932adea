"""Output-centric descriptions: a direction is named by the words that it turns up and down, not by what it fires on.

Gur-Arieh et al., "Enhancing Automated Interpretability with Output-Centric Feature Descriptions", arXiv:2501.08319.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.concepts.packaged import neutral_prompts
from covec.edits.algebra import Add
from covec.edits.divergence import Divergence
from covec.edits.encoded import encoded
from covec.errors import CovecError, ModelError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.name._namer import Namer
from covec.registry import method

WAYS = ("change", "vocabulary", "both")
TEXTS, PROBES = 32, 4  # openings that are read, and those by which the size of the shift is set
NOTHING = 1e-3  # nats by which words move beside one another: less is rounding
_STREAM = ("embed", "resid", "attn", "mlp", "mixer")
_CONTENT = Position("content")


@method(
    "output-centric-descriptions",
    verb="name",
    needs="model",
    card="output-centric-descriptions",
)
@dataclass(frozen=True)
class OutputCentricDescriptions(Namer):
    """The words whose logits a direction moves most, where it is added to neutral text or read by the unembedding.

    `change` (TokenChange) adds the direction, and takes it away, at every token of 32 openings: D = (logits(+a) -
    logits(-a)) / 2, the mean over tokens. The paper clamps the activation of a feature to a = 10; a direction has no
    such unit, so that a is what moves the model by `nats` a token. `vocabulary` (VocabProj) reads the direction as if
    it were the last stream: w = W_U LN(v). Weights are standard deviations over all words; `both` is the mean of the
    two. Case and space before a word are merged, fragments left out, and the mean over all words is taken away. A
    direction that moves no logit has no names.

    The paper mixes what +a and -a promote and demote; here the two sides are told apart.

    Parameters
    ----------
    way
        `change`, `vocabulary` or `both`. The vocabulary says little of early blocks.
    nats
        Divergence a token that the addition makes.
    """

    way: str = "change"
    nats: float = 0.25

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise CovecError(f"no way {self.way!r} to name by the output; there are {', '.join(WAYS)}")

    def weigh(
        self, model: TextModel, directions: Float[Tensor, "k d"], site: Site
    ) -> tuple[Sequence[str], Float[Tensor, "k words"]]:
        vocabulary = Vocabulary(model)
        words, found = list(vocabulary.words), []
        if self.way != "change":
            if site.kind not in _STREAM:
                raise ModelError(f"{site} is not read by the unembedding: name its directions by way='change'")
            found.append(vocabulary.logits(directions * model.width**0.5).cpu())  # as long as a norm leaves it
        if self.way != "vocabulary":
            change = Change(model, site, self.texts or neutral_prompts()[:TEXTS])
            amounts = [change.amount(direction, self.nats) for direction in directions]
            found.append(torch.stack([change.of(*each) for each in zip(directions, amounts, strict=True)]))
        return words, torch.stack([by_word(vocabulary, logits) for logits in found]).mean(0)


class Change:
    """What adding a direction at `site` does to the mean logits of what comes after every token of neutral `texts`.

    The head is linear, so that the difference of mean logits is what it makes of the difference of mean states (up to
    the soft caps of some families), without rounding both.
    """

    def __init__(self, model: TextModel, site: Site, texts: Sequence[str]) -> None:
        self._split = Split(model, site)
        self._batches = encoded(self._split, model.tokenize(texts), _CONTENT)
        self._divergence = Divergence(model, site, texts[:PROBES])
        rows = model.capture(texts[:PROBES], site, "content/none")[site]
        self._most = float(rows.norm(dim=1).mean())  # as long as an activation is itself

    def amount(self, direction: Float[Tensor, "d"], nats: float) -> float:
        """How far along a unit direction moves the model by `nats` a token; never further than activations are long."""
        return self._divergence.amount(direction, nats, most=self._most)

    def of(self, direction: Float[Tensor, "d"], amount: float) -> Float[Tensor, "v"]:
        """Half of the mean logits `amount` up the direction less those as far down."""
        up, down = (self._state(Add(site=self._split.site, shift=sign * amount * direction)) for sign in (1, -1))
        half = (up - down) / 2
        with torch.no_grad():
            logits = self._split.logits(torch.stack([half, torch.zeros_like(half)]).to(self._split.model.dtype))
        return (logits[0] - logits[1]).float().cpu()

    def _state(self, add: Add) -> Float[Tensor, "d"]:
        """The mean of the last states, with `add` at the content of every opening."""
        with torch.no_grad():
            states = [one.decode(add)[one.chosen] for one in self._batches]
        return torch.cat(states).float().mean(0)


def by_word(vocabulary: Vocabulary, logits: Float[Tensor, "k v"]) -> Float[Tensor, "k words"]:
    """What moves each word, in standard deviations over all words; zero where no word moves beyond rounding.

    Of the variants of a word the one that moves most counts.
    """
    sizes = torch.tensor([len(ids) for ids in vocabulary.words.values()])
    ids = torch.tensor([index for ids in vocabulary.words.values() for index in ids], dtype=torch.long)
    word = torch.arange(len(sizes)).repeat_interleave(sizes).expand(len(logits), -1)
    empty = torch.zeros(len(logits), len(sizes))
    up, down = (empty.scatter_reduce(1, word, logits[:, ids], how, include_self=False) for how in ("amax", "amin"))
    moved = torch.where(up >= -down, up, down)
    centred = moved - moved.mean(1, keepdim=True)
    spread = centred.std(1, keepdim=True)
    return torch.where(spread > NOTHING, centred / spread, 0.0)
