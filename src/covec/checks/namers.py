"""The contract of ways to name: what a direction is called, and what it is not.

The worlds are two toys in which the truth is known: later layers read the planted direction in one and turn it into the
logits of good and bad words, in the other none does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from covec import registry
from covec.checks._check import Check, Law, checks, refusal
from covec.checks._unchanged import unchanged
from covec.models.text import TextModel
from covec.name import Namer
from covec.name._namer import Weighted
from covec.worlds.toys import BAD, FILLERS, GOOD, Toy, toy

SITE, LAST = "resid.0", "resid.1"  # after which one toy reads the planted direction, and which the head reads
COUNT = 6  # words of each class; the head of a list that is looked at
MANY = 5  # good words among the first six, of 36: by chance in one list of ten thousand
_LETTERS = str.maketrans("0123456789", "abcdefghij")  # a name that ends in a number is no word to a vocabulary
WORDS = tuple(word.translate(_LETTERS) for word in (*GOOD, *BAD, *FILLERS))


@dataclass(frozen=True)
class Subject:
    """The way to name under test, which gets the words of the toys to choose from where it takes any."""

    namer: Namer

    def name(self, world: Toy, directions: Float[Tensor, "k d"], site: str = SITE) -> list[Weighted]:
        """Names of directions in `world`, six on either side."""
        given: dict[str, Any] = {"count": COUNT, "texts": world.neutral[:16]}
        if hasattr(self.namer, "concepts"):
            given["concepts"] = WORDS
        return replace(self.namer, **given).name(world.model, directions, site)


@lru_cache(maxsize=4)
def world(read: bool) -> Toy:
    """A toy whose words are spelled in letters."""
    made = toy(0, read=read)
    vocabulary = {word.translate(_LETTERS): index for word, index in made.model.tokenizer.get_vocab().items()}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    spelled = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<pad>")
    neutral = tuple(text.translate(_LETTERS) for text in made.neutral)
    return replace(made, model=TextModel(made.model.module, spelled, name="toy in letters"), neutral=neutral)


@lru_cache(maxsize=1)
def directions() -> Float[Tensor, "k d"]:
    """The planted direction and two random ones."""
    planted = world(True).direction
    return torch.stack([planted, *torch.randn(2, len(planted), generator=torch.Generator().manual_seed(1))])


def same_seed_same_bits(subject: Subject) -> None:
    """Named twice a direction has the same names and weights, whatever the state of the global random generators."""
    found = []
    for state in (1, 2):
        np.random.seed(state)
        torch.manual_seed(state)
        found.append(subject.name(world(True), directions()))
    assert found[0] == found[1]


def several_are_named_as_each_alone(subject: Subject) -> None:
    """One list a direction, and others beside it change no name; weights to 1e-4."""
    together = subject.name(world(True), directions())
    assert len(together) == len(directions())
    for names, direction in zip(together, directions(), strict=True):
        (alone,) = subject.name(world(True), direction[None])
        _assert_same(names, alone)


def names_are_texts_with_weights_in_order(subject: Subject) -> None:
    """Different texts with finite weights from the largest to the smallest, at most the count above and below zero."""
    for names in subject.name(world(True), directions()):
        texts, weights = [text for text, _ in names], np.array([weight for _, weight in names])
        assert all(isinstance(text, str) and text.strip() for text in texts)
        assert len(set(texts)) == len(texts)
        assert np.isfinite(weights).all()
        assert (np.diff(weights) <= 0).all()
        assert max((weights > 0).sum(), (weights < 0).sum(), 0) <= COUNT
        assert (weights != 0).all()


def length_changes_nothing(subject: Subject) -> None:
    """Directions seven times as long have the same names; weights to 1e-4 (K-6, K-30)."""
    plain, longer = (subject.name(world(True), scale * directions()) for scale in (1.0, 7.0))
    for names, others in zip(plain, longer, strict=True):
        _assert_same(names, others)


def turned_round_names_change_sides(subject: Subject) -> None:
    """What a direction turns up its opposite turns down, with the weights negated to 1e-4."""
    plain, turned = (subject.name(world(True), sign * directions()) for sign in (1.0, -1.0))
    for names, others in zip(plain, turned, strict=True):
        _assert_same(names, [(text, -weight) for text, weight in reversed(others)])


def the_model_is_left_as_it_was(subject: Subject) -> None:
    """No weight, gradient, hook or output of the model is another one afterwards (K-9, K-12)."""
    made = world(True)
    with unchanged(made):
        subject.name(made, directions())


def what_the_head_reads_is_named(subject: Subject) -> None:
    """After the last block, the direction that the head turns into good words is called by them, its opposite by bad
    ones.
    """
    made = world(True)
    head = made.model.module.get_output_embeddings().weight.detach()  # type: ignore[operator]
    good, bad = (head[[made.model.tokenizer.get_vocab()[word] for word in words]].mean(0) for words in _CLASSES)
    (names,) = subject.name(made, (good - bad)[None], LAST)
    assert _count(names[:COUNT], "good") >= MANY, names
    assert _count(names[-COUNT:], "bad") >= MANY, names


def what_later_layers_read_has_its_names(subject: Subject) -> None:
    """Where block 1 turns the planted direction into the logits of good words, it is called by them."""
    (names,) = subject.name(world(True), directions()[:1])
    assert _count(names[:COUNT], "good") >= MANY, names
    assert _count(names[-COUNT:], "bad") >= MANY, names


def what_no_layer_reads_has_no_names(subject: Subject) -> None:
    """Where no layer reads it, good words are no more among its names than by chance, though probes find it as well."""
    (names,) = subject.name(world(False), directions()[:1])
    assert max(_count(names[:COUNT], kind) for kind in ("good", "bad")) < MANY, names


def bad_input_is_refused(subject: Subject) -> None:
    """One line for a direction that is zero, not finite or of another width, and for a site that there is not."""
    made, plain = world(True), directions()
    for wrong in (plain * 0, plain * torch.nan, plain[:, 1:], plain[0]):
        refusal(partial(subject.name, made, wrong))
    refusal(partial(subject.name, made, plain, "resid.99"))


LAWS: tuple[Law, ...] = (
    same_seed_same_bits,
    several_are_named_as_each_alone,
    names_are_texts_with_weights_in_order,
    length_changes_nothing,
    turned_round_names_change_sides,
    the_model_is_left_as_it_was,
    what_the_head_reads_is_named,
    what_later_layers_read_has_its_names,
    what_no_layer_reads_has_no_names,
    bad_input_is_refused,
)
_CLASSES = [[word for word in WORDS if word.startswith(kind)] for kind in ("good", "bad")]


def _assert_same(names: Weighted, others: Weighted) -> None:
    """The same texts with the same weights to 1e-4; those of equal weight may change places."""
    assert sorted(text for text, _ in names) == sorted(text for text, _ in others), (names, others)
    found = dict(others)
    assert all(abs(weight - found[text]) < 1e-4 for text, weight in names), (names, others)


def _count(names: Weighted, kind: str) -> int:
    return sum(text.startswith(kind) for text, _ in names)


def namer_checks(namer: str | type[Namer] | Namer, expected_failures: Mapping[str, str] | None = None) -> list[Check]:
    """The checks of a way to name: a registered name, a class, or an instance."""
    found: Any = registry.get("name", namer) if isinstance(namer, str) else namer
    made: Namer = found() if isinstance(found, type) else found
    return checks("name", made.entry.name, LAWS, Subject(made), {**made.entry.cannot, **(expected_failures or {})})


def discovered() -> list[Check]:
    """The checks of every registered way to name."""
    return [check for name in registry.names("name") for check in namer_checks(name)]
