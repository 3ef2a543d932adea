"""Stores: what a model shows for a corpus, on disk in finished shards that are read through the memory map.

A store is a folder. Every shard is one file that holds the rows of some inputs at all sites, with their offsets and
labels; the ledger says what the rows depend on. A run that was killed goes on, and neither repeats nor loses a row;
with another model, tokenizer, corpus, position, set of sites or dtype it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from covec.activations import shards, sheets
from covec.activations.capture import MEMORY_BUDGET
from covec.activations.identity import CONTENT, identity, identity_of
from covec.activations.moments import Moments
from covec.activations.rows import Activations, joined
from covec.activations.shard_files import ShardFile, write_shard
from covec.activations.stream import Done, Label, Labels, Window, stream
from covec.activations.tally import Tally
from covec.errors import BudgetError, ExamplesError, FileError, ModelError
from covec.models.batching import TOKEN_BUDGET
from covec.models.positions import Position, warn_of_bare
from covec.models.sites import BySite, Site, select
from covec.models.text import TextModel
from covec.models.tokens import Input, Span
from covec.progress import Progress, silent

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def write_store(
    model: TextModel,
    inputs: Iterable[Input],
    folder: str | Path,
    sites: str | Site | Sequence[str | Site] = "resid.*",
    position: str | Position = "content/none",
    *,
    labels: Labels | None = None,
    spans: Iterable[Span | None] | None = None,
    dtype: str = "float32",
    batch_tokens: int = TOKEN_BUDGET,
    progress: Progress = silent,
) -> ActivationStore:
    """Capture a stream of `inputs` into a store in `folder`; an interrupted one goes on, a finished one is read.

    The memory it takes does not grow with the stream. However often it is interrupted, the same arguments make the same
    files, bit for bit; another `batch_tokens` the same rows to rounding.

    Parameters
    ----------
    inputs, sites, position, labels, spans
        As in `covec.activations.stream.stream`.
    dtype
        In which rows are kept: `float32`, `float16` or `bfloat16`.

    Raises
    ------
    CovecError
        An input cannot be read, a number does not fit the dtype, or the folder belongs to another capture or process,
        is damaged or cannot be written.
    """
    if dtype not in DTYPES:
        raise ModelError(f"rows cannot be kept as {dtype!r}: choose {', '.join(DTYPES)}")
    folder, addresses, chosen = Path(folder), model.select(sites), Position.parse(position)
    made_of = identity("rows", model, addresses, chosen, labels, dtype=dtype)
    with shards.in_hand(folder, made_of, "another folder"):
        before = ActivationStore(folder)
        seen = before.done.seen
        for window in stream(
            model, inputs, addresses, chosen,
            labels=labels, spans=spans, done=before.done, batch_tokens=batch_tokens, progress=progress,
        ):  # fmt: skip
            write_shard(folder, window, DTYPES[dtype], of=shards.digest(made_of), after=seen)
            seen = window.seen
        store = ActivationStore(folder)
        if not store.rows:
            raise ModelError(f"position {chosen} selects nothing in any input")
        if not store.complete:
            warn_of_bare(store.fallbacks)
            shards.write_ledger(folder, {**made_of, "inputs": len(store)})
            store = ActivationStore(folder)
        store.resumed = len(before)
        return store


def load_store(folder: str | Path, model: TextModel | None = None, *, partial: bool = False) -> ActivationStore:
    """The store in `folder`, refused where it was not made with `model` as it is now.

    Parameters
    ----------
    partial
        Whether a store that is not finished will do, for what is in it.

    Raises
    ------
    FileError
        There is no store, it is another model's, not finished, or damaged.
    """
    store = ActivationStore(Path(folder))
    for name, value in ({} if model is None else identity_of(model)).items():
        if store.ledger.get(name) != value:
            raise FileError(f"{folder} was made with another {name}: capture again into another folder")
    if not (store.complete or partial):
        raise FileError(f"the capture into {folder} was interrupted: run it again, and it goes on")
    return store


class ActivationStore:
    """The activations in a folder, by site; a row is read when it is asked for.

    `len` is the number of inputs. Rows stand in the order of the inputs and are float32 when they are read; those kept
    as float32 are views of the file.

    Parameters
    ----------
    path
        The folder.

    Attributes
    ----------
    ledger
        What the rows were made from.
    position, sites, dtype, label_sets
        Where they were read, how they are kept, and the names of the label sets.
    rows
        Number of rows at every site.
    read
        Number of tokens of the inputs.
    fallbacks
        Number of inputs without content, of which the last token was read.
    resumed
        Number of inputs that earlier runs had captured when `write_store` began.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.ledger = shards.read_ledger(self.path)
        if self.ledger.get(CONTENT) != "rows":
            raise FileError(f"{self.path} holds no activations; check the path")
        try:
            self.position, self.dtype = Position.parse(self.ledger["position"]), str(self.ledger["dtype"])
            self.sites = tuple(map(Site.parse, self.ledger["sites"]))
            self.label_sets = tuple(map(str, self.ledger["label sets"]))
        except (LookupError, TypeError, AttributeError, ModelError) as error:
            raise shards.damaged(self.path) from error
        own, seen = shards.digest(self.ledger), Done().seen
        self._shards: list[ShardFile] = []
        for shard in shards.finished(self.path, sheets.ENDING):
            self._shards.append(ShardFile(shard, of=own, after=seen))
            seen = self._shards[-1].seen
        self._ends = np.cumsum([shard.rows for shard in self._shards], dtype=np.int64)
        self.rows = sum(shard.rows for shard in self._shards)
        self.read = sum(shard.read for shard in self._shards)
        self.fallbacks = sum(shard.fallbacks for shard in self._shards)
        self.resumed = 0

    def __len__(self) -> int:
        return self._shards[-1].inputs.stop if self._shards else 0

    def __repr__(self) -> str:
        sites = f"{len(self.sites)} site{'' if len(self.sites) == 1 else 's'}"
        return f"ActivationStore({str(self.path)!r}: {len(self)} inputs, {self.rows} rows at {sites}, {self.dtype})"

    @property
    def complete(self) -> bool:
        """Whether all inputs are in it."""
        return self.ledger.get("inputs") == len(self)

    @property
    def done(self) -> Done:
        """How far it is, for a run that goes on."""
        return Done(len(self), self._shards[-1].seen, self.complete, self.path) if self._shards else Done()

    @cached_property
    def offsets(self) -> Int[Tensor, "n_plus_1"] | None:
        """The rows of input i are `offsets[i]:offsets[i + 1]`; None where each input has one."""
        if self.position.single:
            return None
        counts = [shard.offsets.diff() for shard in self._shards]
        return torch.cat([torch.zeros(1, dtype=torch.long), *counts]).cumsum(0)

    def labels(self, name: str = "") -> list[Label]:
        """The labels of one set, one an input."""
        if name not in self.label_sets:
            known = ", ".join(map(repr, self.label_sets)) or "none"
            raise ExamplesError(f"no label set {name!r} in {self.path}; there are {known}")
        return [label for shard in self._shards for label in shard.labels[name]]

    def windows(
        self, sites: str | Site | Sequence[str | Site] | None = None, *, where: Bool[np.ndarray, "n"] | None = None
    ) -> Iterator[Window]:
        """The shards one after the other, as `stream` gave them.

        Parameters
        ----------
        sites
            Addresses or patterns; all that there are unless given.
        where
            True for the inputs that are wanted, such as those of a split; shards without any are not read.
        """
        chosen = self._chosen(sites)
        for shard, wanted in self._wanted(where):
            window = shard.window(chosen, self.position)
            yield window if wanted is None else window.take(wanted)

    def moments(
        self,
        sites: str | Site | Sequence[str | Site] | None = None,
        *,
        where: Bool[np.ndarray, "n"] | None = None,
        positive: Label | None = None,
        **options: bool,
    ) -> BySite[Moments]:
        """The moments of every site, of which `Finder.fit_moments` takes one; memory does not grow with the store.

        Parameters
        ----------
        sites, where
            As in `windows`.
        positive
            The label that means True, all others False, in the label set without a name.
        options
            `covariance`, `per_label`: see `Moments`.
        """
        if positive is not None and positive not in self.labels():
            raise ExamplesError(f"no input in {self.path} is labelled {positive!r}")
        found = Tally()
        for window in self.windows(sites, where=where):
            if positive is not None:
                told: list[Label] = [label == positive for label in window.labels[""]]
                window = replace(window, labels={**window.labels, "": told})
            found.take_in(window, **options)
        return found.moments

    def activations(
        self,
        sites: str | Site | Sequence[str | Site] | None = None,
        *,
        where: Bool[np.ndarray, "n"] | None = None,
        memory_budget: int = MEMORY_BUDGET,
    ) -> Activations:
        """Rows in memory, as `capture` gives them; more than `memory_budget` bytes are refused."""
        total, chosen = self._rows_of(where), self._chosen(sites)
        some = next((shard for shard in self._shards if shard.rows), None)
        need = 0 if some is None else 4 * total * sum(some.at(site).shape[1] for site in chosen)
        if need > memory_budget:
            raise BudgetError(
                f"the rows take {need / 2**30:.1f} GiB, over the memory budget of {memory_budget / 2**30:.1f} GiB: "
                "name fewer sites or inputs, read windows or moments, or raise memory_budget"
            )
        return joined((window.activations for window in self.windows(chosen, where=where)), total)

    def at(self, site: str | Site, index: Int[np.ndarray, "k"] | Sequence[int]) -> Float[Tensor, "k d"]:
        """A copy of the rows at `index`, in that order; only what holds them is read."""
        (chosen,) = self._chosen(site)
        index = np.asarray(index)
        if len(index) and not (index.ndim == 1 and np.issubdtype(index.dtype, np.integer)):
            raise ExamplesError(f"rows are asked for by whole numbers, not by {index.dtype}: give np.flatnonzero(mask)")
        index = index.astype(np.int64)
        if len(index) and not 0 <= index.min() <= index.max() < self.rows:
            raise ExamplesError(f"rows {index.min()} to {index.max()} were asked for; {self.path} has {self.rows}")
        which = np.searchsorted(self._ends, index, side="right")
        found: Tensor | None = None
        if not len(index) and self._shards:
            return self._shards[0].at(chosen)[:0].float()
        for number in np.unique(which):
            places = np.flatnonzero(which == number)
            start = self._ends[number] - self._shards[number].rows
            rows = self._shards[number].at(chosen)[torch.from_numpy(index[places] - start)].float()
            found = torch.empty(len(index), rows.shape[1], dtype=torch.float32) if found is None else found
            found[torch.from_numpy(places)] = rows
        return torch.empty(0, 0, dtype=torch.float32) if found is None else found

    def _wanted(self, where: Bool[np.ndarray, "n"] | None) -> Iterator[tuple[ShardFile, Int[np.ndarray, "k"] | None]]:
        """The shards with inputs that are wanted, and the places of these in each; None for all."""
        if where is not None:
            where = np.asarray(where)
            if where.ndim != 1 or len(where) != len(self):
                raise ExamplesError(f"{where.size} choices for {len(self)} inputs; give one for each")
            if where.dtype != bool:
                raise ExamplesError(f"inputs are chosen by True and False, one each, not by {where.dtype}")
        for shard in self._shards:
            places = None if where is None else np.flatnonzero(where[shard.inputs.start : shard.inputs.stop])
            if places is None or len(places):
                yield shard, places

    def _rows_of(self, where: Bool[np.ndarray, "n"] | None) -> int:
        counts = (
            shard.rows if places is None
            else len(places) if self.position.single
            else int(shard.offsets.diff()[torch.from_numpy(places)].sum())
            for shard, places in self._wanted(where)
        )  # fmt: skip
        return sum(counts)

    def _chosen(self, sites: str | Site | Sequence[str | Site] | None) -> tuple[Site, ...]:
        return self.sites if sites is None else select(sites, self.sites)
