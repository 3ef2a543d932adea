"""Pictures and samples for the report: how test texts score a token, what the model writes, which tokens are near."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch

from covec.activations.split import Split
from covec.concepts.packaged import neutral_prompts
from covec.concepts.vector import ConceptVector
from covec.detect import Detections, detect
from covec.measure.used import STRENGTHS
from covec.models.text import TextModel
from covec.models.tokens import Input
from covec.studies.result import Illustrations

PROMPTS = 3  # that the model continues at every strength
NEW_TOKENS = 30  # of a continuation
TEXTS = 3  # of either class that are drawn token by token
TOKENS = 12  # nearest to the direction, at either end
LONGEST = 400  # characters of a text that is drawn token by token


def illustrate(
    model: TextModel,
    precise: TextModel,
    vector: ConceptVector,
    inputs: Sequence[Input],
    labels: Sequence[bool],
    *,
    write: bool = True,
) -> Illustrations:
    """Illustrations from held-out `inputs`; with `write` also what the model writes at five strengths, if it can.

    `precise` is the model in float32, in whose logits small changes show.
    """
    toward, away = _nearest(precise, vector)
    return Illustrations(
        texts=_texts(model, vector, inputs, labels),
        steered=_steered(model, vector) if write and model.generates else (),
        toward=toward,
        away=away,
    )


def _texts(
    model: TextModel, vector: ConceptVector, inputs: Sequence[Input], labels: Sequence[bool]
) -> tuple[dict[str, object], ...]:
    """The first short texts of either class: not picked by their scores."""
    short = [index for index, given in enumerate(inputs) if isinstance(given, str) and len(given) <= LONGEST]
    chosen = [index for sign in (True, False) for index in [one for one in short if labels[one] == sign][:TEXTS]]
    if not chosen:
        return ()
    found = detect(model, vector, [inputs[index] for index in chosen])
    return tuple(
        {**one.to_json(), "label": bool(labels[index])}
        for index, one in zip(chosen, cast(Detections, found), strict=True)
    )


def _steered(model: TextModel, vector: ConceptVector) -> tuple[dict[str, object], ...]:
    prompts = neutral_prompts()[:PROMPTS]
    asked = [(prompt, strength) for prompt in prompts for strength in STRENGTHS]
    texts = model.generate(
        [prompt for prompt, _ in asked],
        edits=[vector.add(strength) if strength else () for _, strength in asked],
        max_new_tokens=NEW_TOKENS,
    )
    return tuple(
        {"prompt": prompt, "strength": strength, "text": text}
        for (prompt, strength), text in zip(asked, texts, strict=True)
    )


def _nearest(model: TextModel, vector: ConceptVector) -> tuple[tuple[tuple[str, float], ...], ...]:
    """Tokens whose logit rises and falls most between the class means, seen from the last norm and the head alone."""
    part = vector.parts[vector.site]
    final = next((tap.module for site, tap in model.anatomy.taps.items() if site.kind == "final"), None)
    if vector.site.kind != "resid" or final is None or not model.has_head:
        return (), ()
    if part.mean_positive is None or part.mean_negative is None:
        return (), ()
    means = torch.stack([part.mean_positive, part.mean_negative]).to(model.device, model.dtype)
    with torch.no_grad():
        positive, negative = Split(model, vector.site).logits(final(means)).float().cpu()
    change = (positive - negative).numpy()
    order = np.argsort(change)

    def named(ids: np.ndarray) -> tuple[tuple[str, float], ...]:
        return tuple((model.tokenizer.decode([int(index)]), float(change[index])) for index in ids)

    return named(order[::-1][:TOKENS]), named(order[:TOKENS])
