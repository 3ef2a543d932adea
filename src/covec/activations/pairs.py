"""What a base model and a fine-tuned one show for the same tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covec.activations.capture import capture_tokens
from covec.activations.rows import Activations
from covec.models.pair import ModelPair
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.tokens import Input, Span


def capture_pair(
    pair: ModelPair,
    inputs: Sequence[Input],
    sites: str | Site | Sequence[str | Site] = "resid.*",
    position: str | Position = "last",
    *,
    spans: Sequence[Span | None] | None = None,
    **options: Any,
) -> tuple[Activations, Activations]:
    """Activations of `inputs` in the base and in the tuned model, row by row of the same tokens.

    Parameters are those of `covec.activations.capture.capture`; the base's tokenizer makes the tokens of both.
    """
    tokens = pair.base.tokenize(inputs, spans=spans, offsets=False)
    chosen = Position.parse(position)
    base, tuned = (capture_tokens(model, tokens, sites, [chosen], **options)[chosen] for model in pair)
    return base, tuned
