"""A concept on the bench: its split, its activations, and what its test rows are judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from covec.activations.capture import run_batches
from covec.concepts.examples import Examples
from covec.models.batching import Batch, unique
from covec.models.positions import Position, mask
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Tokenized
from covec.statistics.splits import split
from covec.studies._sweep import Data


@dataclass(frozen=True, eq=False)
class Trial:
    """What a concept's methods are judged by: rows to fit, rows to choose on, and rows to test on, with their labels.

    `groups` says which test rows belong together, None where each stands for itself.
    """

    examples: Examples
    train: Int[np.ndarray, "train"]
    validation: Int[np.ndarray, "validation"]
    test: Int[np.ndarray, "test"]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, examples: Examples, split_seed: int) -> Trial:
        """The split of `examples`, by the user's own column where there is one."""
        parts = split(
            examples.keys, examples.labels, groups=examples.groups, pairs=examples.pairs, fixed=examples.splits,
            seed=split_seed,
        )  # fmt: skip
        return cls(examples, parts.train, parts.validation, parts.test, parts.warnings)

    @cached_property
    def judged(self) -> Int[np.ndarray, "rows"]:
        """Validation rows, then test rows: what every method gives a score."""
        return np.concatenate([self.validation, self.test])

    def labels(self, rows: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """The labels of `rows`."""
        return self.examples.labels[rows]

    @property
    def sizes(self) -> dict[str, int]:
        """Rows of each part."""
        return {"train": len(self.train), "validation": len(self.validation), "test": len(self.test)}

    @cached_property
    def groups(self) -> list[Any] | None:
        """The group of each test row."""
        return Data(self.examples, {}).groups(self.test)


@dataclass(frozen=True, eq=False)
class Subject:
    """A concept ready for methods; `data` holds the activations of its training rows, and of those alone."""

    trial: Trial
    data: Data
    model: TextModel
    sites: tuple[Site, ...]
    positions: tuple[Position, ...]
    batch_tokens: int
    seed: int

    @property
    def rows(self) -> Int[np.ndarray, "train"]:
        """The training rows, as `data` counts them."""
        return np.arange(len(self.data.labels))

    @cached_property
    def tokens(self) -> Sequence[Tokenized]:
        """The judged rows, tokenised."""
        examples, rows = self.trial.examples, self.trial.judged
        spans = None if examples.spans is None else [examples.spans[row] for row in rows]
        return self.model.tokenize([examples.inputs[row] for row in rows], spans=spans)

    def offsets(self, position: Position) -> tuple[Bool[np.ndarray, "tokens"], Int[np.ndarray, "n_plus_1"]]:
        """Which of all tokens in a row a position selects, and where each text begins among those."""
        masks = [mask(position, item.layout) for item in self.tokens]
        return np.concatenate(masks), np.cumsum([0, *(one.sum() for one in masks)])

    @cached_property
    def inside(self) -> Bool[np.ndarray, "tokens"]:
        """The tokens that show the concept: those of the span, all where there is none."""
        marks = [np.ones(item.layout.length, dtype=bool) for item in self.tokens]
        for mark, item in zip(marks, self.tokens, strict=True):
            if item.layout.span is not None:
                mark[: item.layout.span[0]] = mark[item.layout.span[1] :] = False
        return np.concatenate(marks)

    def read(
        self, directions: Mapping[Site, Float[Tensor, "m d"]], offsets: Mapping[Site, Float[Tensor, "m"]]
    ) -> dict[Site, Float[np.ndarray, "tokens m"]]:
        """What all directions read at every token of the judged rows, plus their offsets, from one pass."""
        first, places = unique(self.tokens)
        found: dict[int, dict[Site, Tensor]] = {row: {} for row in first}
        device = self.model.device
        ready = {site: (directions[site].to(device), offsets[site].to(device)) for site in directions}

        def keep(site: Site, hidden: Tensor, batch: Batch) -> None:
            direction, offset = ready[site]
            scores = (hidden.float() @ direction.T + offset).cpu()
            for place, row in enumerate(batch.rows):
                found[row][site] = scores[place, : self.tokens[row].layout.length].clone()

        run_batches(self.model, self.tokens, first, list(directions), keep, batch_tokens=self.batch_tokens)
        return {site: torch.cat([found[first[place]][site] for place in places]).numpy() for site in directions}
