"""The shards of a store: the rows of one window at all sites, in one file."""

from __future__ import annotations

from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from covec.activations import shards, sheets
from covec.activations.rows import Activations
from covec.activations.stream import Label, Window
from covec.errors import ModelError
from covec.models.positions import Position
from covec.models.sites import Site

_OFFSETS, _TOKENS = "@offsets", "@tokens"  # no site is called like these


def write_shard(folder: Path, window: Window, dtype: torch.dtype, *, of: str, after: str) -> None:
    """Write `window`, its rows in `dtype`, to its place in `folder`; a number beyond the dtype's range is refused.

    `of` is the digest of the folder's ledger, `after` that of all inputs before the window's.
    """
    activations = window.activations
    tensors = {str(site): _kept(site, rows, dtype) for site, rows in activations.rows.items()}
    if activations.offsets is not None and activations.tokens is not None:
        tensors |= {_OFFSETS: activations.offsets, _TOKENS: activations.tokens.int()}
    first, end = window.inputs[0], window.inputs[-1] + 1
    document = {
        "inputs": [first, end],
        "rows": len(activations) if activations.offsets is None else int(activations.offsets[-1]),
        "read": window.read,
        "fallbacks": activations.fallbacks,
        "labels": window.labels,
        "after": after,
        "seen": window.seen,
    }
    sheets.save(shards.place(folder, first, end, sheets.ENDING), tensors, document, of=of)


class ShardFile:
    """One shard: what its document says, and its tensors when they are asked for.

    Attributes
    ----------
    inputs
        Indices of its inputs.
    rows, read, fallbacks
        Number of rows at every site, of tokens of the inputs, and of inputs without content.
    labels
        For every label set one label an input.
    seen
        Digest of all inputs up to its end.

    Raises
    ------
    FileError
        The file is damaged, or does not belong to the ledger `of`, or not behind the inputs with the digest `after`.
    """

    def __init__(self, shard: shards.Shard, *, of: str, after: str) -> None:
        self._sheet = sheets.Sheet(shard.path, of=of)
        self.inputs = range(shard.first, shard.end)
        document = self._sheet.document
        try:
            self.rows, self.read, self.fallbacks = (int(document[name]) for name in ("rows", "read", "fallbacks"))
            self.labels: dict[str, list[Label]] = dict(document["labels"])
            self.seen, follows = str(document["seen"]), document["after"] == after
            fits = document["inputs"] == [shard.first, shard.end]
            fits &= all(len(labels) == len(self.inputs) for labels in self.labels.values())
        except (LookupError, TypeError, ValueError) as error:
            raise self._sheet.damaged() from error
        if not fits:
            raise self._sheet.damaged()
        if not follows:
            raise self._sheet.foreign()

    @property
    def offsets(self) -> Int[Tensor, "n_plus_1"]:
        """Where the rows of each input begin, where there are several."""
        offsets = self._sheet.tensor(_OFFSETS)
        if len(offsets) != len(self.inputs) + 1 or int(offsets[-1]) != self.rows:
            raise self._sheet.damaged()
        return offsets

    def at(self, site: Site) -> Float[Tensor, "rows d"]:
        """The rows of one site, a view of the file in the dtype in which they are kept."""
        rows = self._sheet.tensor(str(site))
        if len(rows) != self.rows:
            raise self._sheet.damaged()
        return rows

    def window(self, sites: tuple[Site, ...], position: Position) -> Window:
        """What `write_shard` was given, at some of the sites."""
        rows = {site: self.at(site).float() for site in sites} if self.rows else {}
        offsets = None if position.single else self.offsets
        tokens = None if position.single else self._sheet.tensor(_TOKENS).long()
        activations = Activations(rows, position, offsets, tokens, self.fallbacks)
        return Window(self.inputs, activations, self.labels, self.seen, self.read)


def _kept(site: Site, rows: Tensor, dtype: torch.dtype) -> Tensor:
    kept = rows.to(dtype)
    if dtype != rows.dtype and not torch.isfinite(kept.float().sum()) and not torch.isfinite(kept).all():
        name = str(dtype).removeprefix("torch.")
        raise ModelError(
            f"{site} has activations beyond {name}, which ends at {torch.finfo(dtype).max:.0f}: keep float32"
        )
    return kept
