"""What one call of a model is: which rows it holds, where every token stands, and which edits were in force.

Edits live on a stack in a context variable, so two threads never see each other's. A call freezes the stack into its
`Plan`; every forward pass of that call is a `Pass`. Hooks act only on passes that have a plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from covec.models.positions import Layout, Position, mask

_NEW = {"all", "content", "generated"}  # what selects all new text


@dataclass(frozen=True)
class Plan:
    """One call: a layout for every row, on which side rows are padded, and each row's edits.

    `edits` holds one tuple of edits a row, in the order in which they act; `inputs` each row's index among the caller's
    inputs, where they were reordered; `width` the columns of the first pass, where even the longest row is padded;
    `owner` the network (a model's body) that is called, for a call may run another one (an assistant's) in between.
    """

    layouts: Sequence[Layout]
    padding: str = "right"
    edits: Sequence[tuple[Any, ...]] = ()
    inputs: Sequence[int] = ()
    width: int = 0
    owner: object = None
    prepared: dict[Any, Any] = field(default_factory=dict, repr=False)  # edits moved to a device, once a call

    @cached_property
    def first_new(self) -> float:
        """The column from which on all rows hold new text; infinite where none is written."""
        if self.width or self.padding == "right":
            return self.width or math.inf
        return max(layout.length for layout in self.layouts)


@dataclass
class Pass:
    """One forward pass of a plan over columns that start at `start` (tokens already in the cache)."""

    plan: Plan
    rows: int
    start: int
    columns: int
    device: torch.device
    ids: Tensor | None = None  # what is read [rows, columns]; None where the caller gave embeddings
    notes: dict[Any, Any] = field(default_factory=dict)  # what gates found earlier in this pass
    _masks: dict[Position, Tensor | None] = field(default_factory=dict)

    def row(self, index: int) -> int:
        """The plan's row behind row `index` of the batch: beams and repeats of a row stand side by side."""
        return index // max(1, self.rows // len(self.plan.layouts))

    def indices(self) -> np.ndarray:
        """Absolute index of every token in its unpadded sequence [rows, columns]; negative on padding."""
        lengths = np.array([self.plan.layouts[self.row(row)].length for row in range(self.rows)])[:, None]
        columns = np.arange(self.start, self.start + self.columns)[None, :]
        text = np.where(columns < lengths, columns, -1)
        if self.plan.padding == "right" and columns[0, -1] < self.plan.first_new:
            return text
        behind = columns - (int(self.plan.first_new) - lengths)
        return behind if self.plan.padding == "left" else np.where(columns < self.plan.first_new, text, behind)

    def mask(self, position: Position) -> Tensor | None:
        """Tokens of this pass that `position` selects [rows, columns]; None where it selects all of them."""
        if position not in self._masks:
            everything = self.start >= self.plan.first_new and bool(_NEW & {*position.select.split("+")})
            chosen = None if everything else self._select(position)
            whole = chosen is None or chosen.all()
            self._masks[position] = None if whole else torch.from_numpy(chosen).to(self.device)
        return self._masks[position]

    def _select(self, position: Position) -> np.ndarray:
        indices = self.indices()
        written = np.arange(self.start, self.start + self.columns) >= self.plan.first_new
        chosen = np.zeros(indices.shape, dtype=bool)
        for row in range(self.rows):
            layout = self.plan.layouts[self.row(row)]
            known = mask(position, layout)
            inside = (indices[row] >= 0) & (indices[row] < layout.length)
            chosen[row, inside] = known[indices[row, inside]]
            if written.any():
                chosen[row, written] = _writes(position, indices[row, written])
        return chosen


def _writes(position: Position, indices: np.ndarray) -> np.ndarray:
    """Which generated tokens, at absolute `indices`, a position selects."""
    chosen = np.zeros(len(indices), dtype=bool)
    for part in position.select.split("+"):
        if part in _NEW:
            chosen[:] = True
        elif part.startswith("from-"):
            chosen |= indices >= int(part[5:])
        elif part.isdecimal():
            chosen |= indices == int(part)
    return chosen


@dataclass(eq=False)
class _Layer:
    """What one scope put on the stack. Once closed it counts nowhere, in whatever order, thread or task that was."""

    owner: object
    edits: tuple[Any, ...]
    open: bool = True


_stack: ContextVar[tuple[_Layer, ...]] = ContextVar("covec_edits", default=())
_plan: ContextVar[Plan | None] = ContextVar("covec_plan", default=None)
_passes: ContextVar[tuple[Pass | None, ...]] = ContextVar("covec_passes", default=())  # one within the other


def edits_in_force(owner: object) -> tuple[Any, ...]:
    """The edits on this thread's stack that belong to the network `owner`, in the order in which they act."""
    return tuple(edit for layer in _stack.get() if layer.open and layer.owner is owner for edit in layer.edits)


@contextmanager
def stacked(owner: object, edits: Sequence[Any]) -> Iterator[None]:
    """Put `edits` of the network `owner` on this thread's stack for the block.

    Blocks need not end in the order in which they began, nor in the same thread: generators hold some open.
    """
    layer = _Layer(owner, tuple(edits))
    _stack.set((*_stack.get(), layer))
    try:
        yield
    finally:
        layer.open = False
        _stack.set(tuple(other for other in _stack.get() if other.open))


@contextmanager
def planned(plan: Plan | None) -> Iterator[None]:
    """Run the block's forward passes under `plan`."""
    token = _plan.set(plan)
    try:
        yield
    finally:
        _plan.reset(token)


def current_plan(owner: object = None) -> Plan | None:
    """The plan of the call that is running on this thread, where it is one of the network `owner`."""
    plan = _plan.get()
    return plan if plan is None or owner is None or plan.owner in (None, owner) else None


def current_pass() -> Pass | None:
    """The forward pass that is running on this thread, where it has a plan."""
    passes = _passes.get()
    return passes[-1] if passes else None


def is_running(plan: Plan) -> bool:
    """Whether a pass of `plan` is running on this thread."""
    return any(one is not None and one.plan is plan for one in _passes.get())


def begin_pass(value: Pass | None) -> None:
    """Begin a forward pass on this thread, within another one where a hook makes it; None where it has no plan."""
    _passes.set((*_passes.get(), value))


def end_pass() -> None:
    """End the forward pass that is running on this thread."""
    _passes.set(_passes.get()[:-1])


@contextmanager
def passing() -> Iterator[None]:
    """After the block the pass that was running before it runs again: an interrupt goes past the hook that ends one."""
    before = _passes.get()
    try:
        yield
    finally:
        running = takewhile(lambda pair: pair[0] is pair[1], zip(before, _passes.get(), strict=False))
        _passes.set(tuple(one for one, _ in running))
