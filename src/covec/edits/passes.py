"""Passes over many texts, each under edits of its own: a sweep over strengths is one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from covec.edits.algebra import Edit
from covec.edits.scope import check, flatten, hooks
from covec.errors import ExamplesError
from covec.models.batching import TOKEN_BUDGET, Batch, pack, pad
from covec.models.plan import Plan, edits_in_force, planned
from covec.models.positions import Layout
from covec.models.text import TextModel
from covec.models.tokens import Tokenized


def passes(
    model: TextModel,
    tokens: Sequence[Tokenized],
    edits: Sequence[Any],
    *,
    prompt: int | None = None,
    force: bool = False,
    batch_tokens: int = TOKEN_BUDGET,
) -> Iterator[tuple[Batch, Float[Tensor, "rows tokens d"]]]:
    """The body's last hidden states, batch by batch, padded on the right.

    Parameters
    ----------
    tokens
        Texts; those of one length keep their order, longer ones come first.
    edits
        One list of edits a text, in addition to those of the scopes around the call.
    prompt
        How many tokens of every text are its prompt: what follows is read as if it had been written, so that edits of
        `generated` act there, and `last` is the prompt's last token. Left out, all of it is read.

    Raises
    ------
    ExamplesError
        There is not one list of edits for each text, or a text is shorter than `prompt`.
    ModelError
        An edit does not fit the model.
    """
    if len(edits) != len(tokens):
        raise ExamplesError(f"{len(edits)} lists of edits for {len(tokens)} texts: give one list a text")
    if prompt is not None and (short := [row for row, item in enumerate(tokens) if not 0 < prompt <= len(item.ids)]):
        raise ExamplesError(f"text {short[0] + 1} has {len(tokens[short[0]].ids)} tokens, and a prompt takes {prompt}")
    model.check_settled()
    each = {id(row): flatten([row]) for row in edits}
    distinct = [edit for row in each.values() for edit in row]
    check(model, distinct, force=force)
    around = edits_in_force(model.anatomy.body)
    own = [(*around, *each[id(row)]) for row in edits]
    for rows in pack([len(item.ids) for item in tokens], batch_tokens, model.together):
        batch = pad(tokens, rows, pad_id=model.pad_id, masked=not model.causal, device=model.device)
        if prompt is not None:
            batch = replace(batch, layouts=tuple(_begun(layout, prompt) for layout in batch.layouts))
        yield batch, _hidden(model, batch, [own[row] for row in rows], prompt or 0)


def _hidden(model: TextModel, batch: Batch, edits: Sequence[tuple[Edit, ...]], width: int) -> Tensor:
    plan = Plan(batch.layouts, "right", edits, batch.rows, width=width, owner=model.anatomy.body)
    options: dict[str, Any] = {"use_cache": False} if model.causal else {}
    with hooks(model, flatten(edits)), planned(plan), torch.no_grad():
        hidden: Tensor = model.anatomy.body(input_ids=batch.ids, attention_mask=batch.mask, **options)[0]
        return hidden


def _begun(layout: Layout, prompt: int) -> Layout:
    """The layout of the first tokens alone; those behind them are new text."""
    return Layout(layout.special[:prompt], prompt, prompt - 1)
