"""What kept activations depend on, by the words that an error names it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from covec.activations.stream import Labels
from covec.errors import ModelError
from covec.models.fingerprint import fingerprint, tokenizer_fingerprint
from covec.models.plan import edits_in_force
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel

CONTENT = "choice of rows or moments"


def identity(
    content: str, model: TextModel, sites: Sequence[Site], position: Position, labels: Labels | None, **kept: Any
) -> dict[str, Any]:
    """The ledger of what `model` shows at `sites` and `position`: `content` is kept of it, `kept` says how.

    Raises
    ------
    ModelError
        Edits are in force, with which the model shows something else.
    """
    sets = labels if isinstance(labels, Mapping) else () if labels is None else ("",)
    return {
        CONTENT: content,
        **identity_at_rest(model),
        "position": str(position),
        "sites": [str(site) for site in sites],
        "label sets": list(sets),
        **kept,
    }


def identity_at_rest(model: TextModel) -> dict[str, Any]:
    """As `identity_of`, for what a run that is taken up again goes on with; `ModelError` where edits are in force."""
    if edits_in_force(model.anatomy.body):
        raise ModelError("edits are in force, and what is kept is the model's own: leave the edit's scope first")
    return identity_of(model)


def identity_of(model: TextModel) -> dict[str, Any]:
    """The part of a ledger that tells which model it is; weights are read now, whatever was known of them before."""
    return {
        "tokenizer": tokenizer_fingerprint(model.tokenizer),
        "model": fingerprint(model.module, model.tokenizer),
        "model's dtype": str(model.dtype).removeprefix("torch."),
    }
