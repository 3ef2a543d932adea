"""One text under many edits of its end: what stands before them is read once.

Patching asks the same of a prompt hundreds of times: what would follow if this head, or that one, gave something else
at the last token? No earlier token sees the difference, so that the last one alone runs again, once an edit.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.continuing import Past, can_go_on, go_on, repeat
from covec.edits.scope import check, flatten, hooks
from covec.errors import ModelError
from covec.models.plan import Plan, edits_in_force, planned
from covec.models.positions import mask
from covec.models.text import TextModel
from covec.models.tokens import Tokenized

TOGETHER = 64  # branches in a batch


def branches(
    model: TextModel, item: Tokenized, edits: Sequence[Any], *, force: bool = False
) -> Float[Tensor, "k tokens d"]:
    """The body's last hidden states under each of `k` edits, from the prompt's last token on.

    Parameters
    ----------
    item
        A text as the model reads it; the token that its layout calls `last` is the first that an edit may change.
    edits
        For each branch an edit or a list of them; `()` leaves the text as it is.

    Raises
    ------
    ModelError
        An edit does not fit the model, or acts before the prompt's last token; or edits are in force already.
    """
    own = [flatten([one]) for one in edits]
    model.check_settled()
    check(model, [edit for row in own for edit in row], force=force)
    if edits_in_force(model.anatomy.body):
        raise ModelError("branches bring edits of their own: call this outside model.edit(...)")
    start = item.layout.last
    if early := [edit for row in own for edit in row if mask(edit.position, item.layout)[:start].any()]:
        raise ModelError(
            f"the edit at {early[0].site} acts on {early[0].position.select!r}, and branches part at the prompt's last "
            "token: put it at 'last', or run a text for each"
        )
    begun = start if can_go_on(model) else 0
    with torch.no_grad():
        past: Past = go_on(model, [item.ids[:begun]])[1] if begun else {"use_cache": False}
        parts = [own[first : first + TOGETHER] for first in range(0, len(own), TOGETHER)]
        return torch.cat([_run(model, item, begun, copy.deepcopy(past), part) for part in parts])[:, start - begun :]


def _run(model: TextModel, item: Tokenized, begun: int, past: Past, edits: Sequence[tuple[Any, ...]]) -> Tensor:
    """The last hidden states of the tokens behind the first `begun`, a row a branch."""
    if begun:
        repeat(past, len(edits))
    plan = Plan([item.layout] * len(edits), "right", edits, owner=model.anatomy.body)
    ids = torch.tensor([item.ids[begun:]] * len(edits), device=model.device)
    with hooks(model, flatten(edits)), planned(plan):
        found: Tensor = model.anatomy.body(input_ids=ids, **past)[0]
        return found
