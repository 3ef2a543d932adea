"""Passes that go on where another one stopped, behind its cached keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.capture import forward
from covec.errors import ModelError
from covec.models.batching import Batch
from covec.models.plan import edits_in_force
from covec.models.positions import Layout
from covec.models.text import TextModel

Past = Mapping[str, Any]  # options of a pass: the cache that it goes on from, by the name that its version gives it

_NAMES = ("cache", "past_key_values")  # the later version also knows the earlier name


def can_go_on(model: TextModel) -> bool:
    """Whether a pass can begin behind another: a recurrent state, unlike keys and values, is changed by each."""
    return model.causal and not any(site.kind == "mixer" for site in model.sites)


def check_free(model: TextModel) -> None:
    """Refuse edits in force: they would take the end of each part of a text for the end of the whole."""
    if edits_in_force(model.anatomy.body):
        raise ModelError("a text is read in parts, whose ends edits would take for its own: leave model.edit(...)")


def go_on(
    model: TextModel, rows: Sequence[Sequence[int]], past: Past | None = None
) -> tuple[Float[Tensor, "rows new d"], Past]:
    """Read more of a text, in as many rows as were read before.

    Parameters
    ----------
    rows
        Token ids of what comes next [rows, new].
    past
        What the pass before left, whose cache grows with them; None at the beginning of a text.

    Returns
    -------
    tuple
        The body's last hidden states of the new tokens, and what the next pass needs.
    """
    output = forward(model, following(model, rows, past), **{"use_cache": True, **(past or {})})
    name = next(name for name in _NAMES if output.get(name) is not None)
    return output[0], {"use_cache": True, name: output[name]}


def following(model: TextModel, rows: Sequence[Sequence[int]], past: Past | None = None) -> Batch:
    """The batch of rows of one length that come next; all that was read, and they, are a prompt."""
    before = 0 if past is None else int(_cache(past).get_seq_length())
    length = before + len(rows[0])
    layout = Layout(np.zeros(length, dtype=bool), length, length - 1)
    return Batch(tuple(range(len(rows))), torch.tensor(rows, device=model.device), None, (layout,) * len(rows))


def repeat(past: Past, times: int) -> None:
    """Make `times` rows of each."""
    _cache(past).batch_repeat_interleave(times)


def keep(past: Past, rows: Sequence[int], device: torch.device) -> None:
    """Drop all rows but `rows`."""
    _cache(past).batch_select_indices(torch.tensor(rows, device=device))


def _cache(past: Past) -> Any:
    return next(past[name] for name in _NAMES if name in past)
