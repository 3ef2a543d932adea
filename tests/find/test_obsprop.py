from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from covec.activations.capture import forward
from covec.activations.split import Split
from covec.concepts.examples import Examples
from covec.errors import CovecError, ExamplesError, ModelError
from covec.find.obsprop import ObsProp, _FixedPatterns, feature_vectors, word_contrast
from covec.models.batching import pad
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.worlds.pronouns import openings
from tiny import FAMILIES, tiny_model

TEXTS = ["The hotel was clean.", "Water boils at 100 degrees", "ice melts"]
OBSERVABLE = {40: 1.0, 41: -1.0}


def stream(model: TextModel) -> list[Site]:
    return [site for site in model.sites if site.kind == "resid"]


def test_after_the_last_block_it_is_what_the_head_reads(tiny: TextModel) -> None:
    """But for what a norm takes out: the part along the stream itself, which is small."""
    vocabulary = Vocabulary(tiny)
    (found,) = feature_vectors(tiny, TEXTS, OBSERVABLE, stream(tiny)[-1:], tiny.width)
    read = vocabulary.direction([40]) - vocabulary.direction([41])
    assert torch.nn.functional.cosine_similarity(found, read, dim=0) > 0.95


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_the_slope_of_the_observable_with_patterns_held(family: str) -> None:
    """Of one text, where attention is made to repeat the patterns it had when nothing was shifted."""
    module, tokenizer = tiny_model(family)
    module.set_attn_implementation("eager")
    model = TextModel(module.double(), tokenizer)
    site = stream(model)[0]
    (found,) = feature_vectors(model, TEXTS[:1], OBSERVABLE, [site], model.width)
    tokens = model.tokenize(TEXTS[:1])
    batch = pad(tokens, [0], pad_id=model.pad_id, masked=False, device=model.device)
    split = Split(model, site)
    patterns: list[torch.Tensor] = []

    class Replayed(torch.overrides.TorchFunctionMode):
        """Softmaxes give, in turn, what they gave when nothing was shifted."""

        def __init__(self, keep: bool) -> None:
            super().__init__()
            self.keep, self.left = keep, iter(list(patterns))

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = func(*args, **(kwargs or {}))
            if getattr(func, "__name__", "") != "softmax":
                return given
            if self.keep:
                patterns.append(given)
            return given if self.keep else next(self.left)

    direction = torch.randn(model.width, generator=torch.Generator().manual_seed(0)).double()

    def value(step: float, keep: bool = False) -> float:
        moved = torch.zeros(1, batch.ids.shape[1], 1).double()
        moved[:, 1:] = step
        hidden = split.encode(batch)
        with torch.no_grad(), Replayed(keep):
            last = split.decode(batch, hidden, lambda h: h + moved * direction)[:, -1]
            logits = split.logits(last)[0]
        return float(logits[40] - logits[41])

    value(0.0, keep=True)
    slope = (value(1e-4) - value(-1e-4)) / 2e-4
    assert float(found.double() @ direction) == pytest.approx(slope, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_gradient_reaches_queries_and_keys(family: str) -> None:
    """Whichever implementation of attention runs."""
    tiny, found = TextModel(*tiny_model(family)), []
    for implementation in ("sdpa", "eager"):
        tiny.module.set_attn_implementation(implementation)
        found.append(feature_vectors(tiny, TEXTS, OBSERVABLE, stream(tiny), tiny.width))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)
    batch = pad(tiny.tokenize(TEXTS), [0, 1, 2], pad_id=tiny.pad_id, masked=False, device=tiny.device)
    for mode, reached in ((_FixedPatterns(), False), (torch.autograd.set_grad_enabled(True), True)):
        weight = next((w for n, w in tiny.module.named_parameters() if n.endswith("q_proj.weight")), None)
        if weight is not None:
            with torch.enable_grad(), mode:
                (gradient,) = torch.autograd.grad(forward(tiny, batch)[0].sum(), [weight], allow_unused=True)
            assert (gradient is not None) is reached


def test_texts_count_alike_and_repeats_once(tiny: TextModel) -> None:
    together = feature_vectors(tiny, TEXTS, OBSERVABLE, stream(tiny), tiny.width)
    single = [feature_vectors(tiny, [text], OBSERVABLE, stream(tiny), tiny.width) for text in TEXTS]
    torch.testing.assert_close(
        together, torch.stack(single).mean(0), rtol=1e-3, atol=1e-4 * float(together.abs().max())
    )


def test_the_model_s_own_direction_tells_people_apart_that_it_never_saw(smol: TextModel) -> None:
    """From a single pair of openings, in pairs of openings that are the same but for the person."""
    few, unseen = openings(0, 1).subset([0, 1]), openings(8, 11)
    found = ObsProp().fit_model(smol, few, "resid.24")
    rows = smol.capture(unseen.inputs, "resid.24", "last")["resid.24"]
    women, men = found.decision_function(rows).reshape(-1, 2).T
    assert (women > men).mean() > 0.9


def test_an_observable_is_the_difference_of_shares(smol: TextModel) -> None:
    she, her, he = (Vocabulary(smol).token(word) for word in ("she", "her", "he"))
    found = word_contrast(smol, ["she", "she", "her", "he", "he", "she"], [True, True, True, False, False, False])
    assert found == pytest.approx({she: 2 / 3 - 1 / 3, her: 1 / 3, he: -2 / 3})


def test_bad_input(smol: TextModel) -> None:
    people = openings(0, 1)

    def given(*words: object) -> Examples:
        return replace(people, extra={"observable": (words * len(people))[: len(people)]})

    cases: list[tuple[Examples, type[CovecError], str]] = [
        (given("she", ""), ExamplesError, "row 2 has no observable"),
        (given("she", None), ExamplesError, "row 2 has no observable"),
        (given("she", "she"), ExamplesError, "observable of all rows is 'she'"),
        (given("antidisestablishment", "he"), ModelError, "give a word that is one token"),
        (replace(people, extra={}), ExamplesError, "needs observable of each row"),
    ]
    for examples, kind, words in cases:
        with pytest.raises(kind, match=words):
            ObsProp().fit_model(smol, examples, "resid.28")
    with pytest.raises(ExamplesError, match="reads a model: call fit_model"):
        ObsProp().fit(np.eye(4), [0, 1, 0, 1], inputs=people.inputs[:4], observable=["she", "he"] * 2)
