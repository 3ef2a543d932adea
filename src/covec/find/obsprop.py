"""ObsProp: the direction that the model itself turns into the logits of a task, from its weights and a few texts.

"Observable Propagation: Uncovering Feature Vectors in Transformers", arXiv:2312.16291.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.overrides import TorchFunctionMode

from covec.activations.capture import forward
from covec.activations.split import Split
from covec.concepts.examples import Examples
from covec.edits.algebra import Add
from covec.errors import ExamplesError
from covec.find._finder import Finder
from covec.find._rows import Labels
from covec.models.batching import TOKEN_BUDGET, pack, pad
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Input
from covec.models.vocabulary import Vocabulary
from covec.registry import method


@method("obsprop", verb="find", needs="model", card="obsprop", requires=("inputs", "observable"))
class ObsProp(Finder):
    """The feature vector of an observable: the mean logit of the positives' words less that of the negatives'.

    Each row names the word that comes next in its `observable`, one token with a space before it. The logits are pulled
    back through the norms, the MLPs (linear about the texts themselves) and the value and output maps of attention,
    whose patterns are held fixed; all paths are added up, each from every token. What queries and keys do is left out,
    so that a task decided by where heads look is missed.

    Labels say which words are on which side and on which side a direction reads more, as in every finder; no fit to the
    rows is made.

    Parameters
    ----------
    points
        Texts a class about which the network is taken to be linear; their gradients are averaged.
    """

    closed_form = True

    def __init__(self, points: int = 8) -> None:
        self.points = points

    @classmethod
    def check(cls, model: TextModel, examples: Examples) -> None:
        word_contrast(model, examples.column("observable") or (), examples.labels.tolist())

    def read_model(self, model: TextModel, sites: tuple[Site, ...], labels: Labels, width: int) -> Float[Tensor, "s d"]:
        observable = word_contrast(model, labels.columns["observable"], labels.positive.tolist())
        sides: dict[bool, dict[str, Input]] = {True: {}, False: {}}
        for text, positive in zip(labels.columns["inputs"], labels.positive.tolist(), strict=True):
            sides[positive][repr(text)] = text
        texts = [each[key] for each in sides.values() for key in sorted(each)[:: -(-len(each) // self.points)]]
        return feature_vectors(model, texts, observable, sites, width)


def word_contrast(model: TextModel, words: Sequence[Any], positive: Sequence[bool]) -> dict[int, float]:
    """An observable: the share of each token among the words of positive rows, less that among those of negative ones.

    Raises
    ------
    ExamplesError
        A row has no word, or all rows have the same.
    ModelError
        A word is not one token, or the model has no unembedding.
    """
    if bad := [row for row, word in enumerate(words) if not isinstance(word, str) or not word.strip()]:
        raise ExamplesError(f"row {bad[0] + 1} has no observable: give the word that comes next")
    vocabulary = Vocabulary(model)
    token_of = {word: vocabulary.token(word) for word in dict.fromkeys(words)}
    if len(set(token_of.values())) < 2:
        raise ExamplesError(f"the observable of all rows is {words[0]!r}: give the word that comes next in each class")
    found = dict.fromkeys(token_of.values(), 0.0)
    for word, side in zip(words, positive, strict=True):
        found[token_of[word]] += 1 / sum(positive) if side else -1 / (len(positive) - sum(positive))
    return found


def feature_vectors(
    model: TextModel, inputs: Sequence[Input], observable: Mapping[int, float], sites: Sequence[Site], width: int
) -> Float[Tensor, "s d"]:
    """The gradient of an observable after `inputs` with respect to a shift of all content at each site (float32).

    Attention patterns are constants. A shift that all tokens share reaches each head whole, for a pattern sums to one:
    so this is the sum over all paths of products of weights, as the paper composes them, less what heads take from the
    first token and special ones, which are no content.
    """
    model.check_settled()
    shifts = [torch.zeros(width, dtype=torch.float32, device="cpu", requires_grad=True) for _ in sites]
    edits = [Add(site=site, shift=shift) for site, shift in zip(sites, shifts, strict=True)]
    tokens, ids = model.tokenize(inputs, reply=True, offsets=False), list(observable)
    split, total = Split(model, "embed"), torch.zeros(len(sites), width)
    for rows in pack([len(item.ids) for item in tokens], TOKEN_BUDGET, model.together):
        batch = pad(tokens, rows, pad_id=model.pad_id, masked=not model.causal, device=model.device)
        ends = [layout.length - 1 for layout in batch.layouts]
        with torch.enable_grad(), model.edit(edits), _FixedPatterns():
            logits = split.logits(forward(model, batch)[0][range(len(ends)), ends])[:, ids].float()
            value = (logits @ logits.new_tensor(list(observable.values()))).sum()
            gradients = torch.autograd.grad(value, shifts, allow_unused=True)
        total += torch.stack([torch.zeros(width) if one is None else one for one in gradients])
    return total / len(tokens)


class _FixedPatterns(TorchFunctionMode):
    """Within the block, what attention looks at is a constant: no gradient passes through queries, keys or softmax."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "scaled_dot_product_attention":
            kwargs = {key: one.detach() if key in ("query", "key") else one for key, one in kwargs.items()}
            args = (*(one.detach() for one in args[:2]), *args[2:])
        found = func(*args, **kwargs)
        return found.detach() if name == "softmax" else found
