"""Capture: one forward pass serves every site and position that is asked for.

Inputs are tokenised once, identical ones run once, the rest is sorted by length and packed by a token budget. Pooling
happens in the hook, and the pass stops after the deepest site; the language head never runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.rows import Activations
from covec.errors import BudgetError, ModelError
from covec.models.anatomy import Tap
from covec.models.batching import TOKEN_BUDGET, Batch, pack, pad, unique
from covec.models.hardware import hand_back_freed_memory, out_of_memory
from covec.models.plan import Plan, edits_in_force, planned
from covec.models.positions import Layout, Position, is_bare, mask, warn_of_bare
from covec.models.sites import Site
from covec.models.taps import by_token, hook, uncompiled
from covec.models.text import TextModel
from covec.models.tokens import Input, Span, Tokenized
from covec.progress import Progress, silent

MEMORY_BUDGET = 8 << 30  # bytes of rows kept by one capture, unless the caller says otherwise
_LARGE = 8 << 20  # bytes of rows after which what the passes freed is worth handing back


class _Done(Exception):
    """Every site that was asked for has been read: the rest of the network need not run."""


def capture(
    model: TextModel,
    inputs: Sequence[Input],
    sites: str | Site | Sequence[str | Site] = "resid.*",
    position: str | Position = "last",
    *,
    spans: Sequence[Span | None] | None = None,
    batch_tokens: int = TOKEN_BUDGET,
    memory_budget: int = MEMORY_BUDGET,
    progress: Progress = silent,
) -> Activations:
    """Activations of `inputs` at `sites`, read at `position`.

    Parameters
    ----------
    sites
        Addresses or patterns, such as `resid.*` or `["resid.10:20", "final"]`.
    position
        Where in every input: `last`, `mean` (of the content), `content/none`, `from-3/max`, ...
    spans
        Character range of every input, where the position is `span`.
    batch_tokens
        Padded tokens a forward pass.
    memory_budget
        Bytes of rows that may be kept; more is refused before any work.

    Returns
    -------
    Activations
        Rows in the order of `inputs`, independent of batch, order and padding.
    """
    tokens = model.tokenize(inputs, spans=spans, offsets=False)
    chosen = Position.parse(position)
    found = capture_tokens(
        model, tokens, sites, [chosen], batch_tokens=batch_tokens, memory_budget=memory_budget, progress=progress
    )[chosen]
    del tokens  # they weigh as much as narrow rows do
    if sum(rows.nbytes for rows in found.rows.values()) > _LARGE:
        hand_back_freed_memory()
    return found


def capture_tokens(
    model: TextModel,
    tokens: Sequence[Tokenized],
    sites: str | Site | Sequence[str | Site],
    positions: Sequence[Position],
    *,
    batch_tokens: int = TOKEN_BUDGET,
    memory_budget: int = MEMORY_BUDGET,
    progress: Progress = silent,
) -> dict[Position, Activations]:
    """As `capture`, of inputs that are already tokenised and at several positions in the same pass."""
    kept = read_rows(
        model, tokens, sites, positions, batch_tokens=batch_tokens, memory_budget=memory_budget, progress=progress
    )
    for found in kept.values():
        _check_finite(found)
        warn_of_bare(found.fallbacks)
    return kept


def _check_finite(found: Activations) -> None:
    """Refuse rows that are no numbers, by the first input that has one."""
    for site, rows in found.rows.items():
        if torch.isfinite(rows.sum()) or (good := torch.isfinite(rows).all(1)).all():  # a sum is faster, and shows it
            continue
        bad = torch.nonzero(~good).flatten()
        inputs = bad if found.offsets is None else torch.searchsorted(found.offsets, bad, right=True) - 1
        count = len(inputs.unique())
        others = f" and {count - 1} more" if count > 1 else ""
        raise ModelError(
            f"{site} has NaN or infinite numbers in input {int(inputs[0]) + 1}{others}: load the model in float32, or "
            "use smaller strengths"
        )


def read_rows(
    model: TextModel,
    tokens: Sequence[Tokenized],
    sites: str | Site | Sequence[str | Site],
    positions: Sequence[Position],
    *,
    batch_tokens: int = TOKEN_BUDGET,
    memory_budget: int = MEMORY_BUDGET,
    progress: Progress = silent,
) -> dict[Position, Activations]:
    """As `capture_tokens`, and it leaves to the caller to tell of inputs without content."""
    addresses = model.select(sites)
    first, places = unique(tokens)
    sinks = {position: _Sink(position, tokens, first, addresses, model, memory_budget) for position in positions}

    def keep(site: Site, hidden: Tensor, batch: Batch) -> None:
        for sink in sinks.values():
            sink.put(site, hidden, batch)

    run_batches(model, tokens, first, addresses, keep, batch_tokens=batch_tokens, progress=progress)
    kept = {position: sink.result(places) for position, sink in sinks.items()}
    sinks.clear()
    if sum(rows.nbytes for found in kept.values() for rows in found.rows.values()) > _LARGE:
        hand_back_freed_memory()
    return kept


def run_batches(
    model: TextModel,
    tokens: Sequence[Tokenized],
    rows: Sequence[int],
    sites: Sequence[Site],
    visit: Callable[[Site, Float[Tensor, "rows columns d"], Batch], Any],
    *,
    batch_tokens: int = TOKEN_BUDGET,
    progress: Progress = silent,
) -> None:
    """Run `tokens[row]` for every one of `rows`, in batches, and call `visit(site, hidden, batch)` at every site.

    `batch.rows` are indices into `tokens`; `hidden` is padded on the right. A batch that runs out of memory is halved
    and visited again, so a visit must bear to see a row twice.
    """
    model.check_settled()
    model.check_addends(sites)
    lengths = [len(tokens[row].ids) for row in rows]
    with progress(f"reading {len(rows)} inputs", sum(lengths)) as bar, torch.no_grad():
        for packed in pack(lengths, batch_tokens, model.together):
            _run(model, tokens, [rows[place] for place in packed], sites, visit, batch_tokens)
            bar.advance(sum(lengths[place] for place in packed))


def selected(position: Position, layout: Layout, place: str) -> int:
    """Number of tokens that `position` selects in the input at `place`; none is refused where it must give a row."""
    count = int(mask(position, layout).sum())
    if position.single and not count:
        size = f"{layout.length} token{'s' if layout.length > 1 else ''}"
        raise ModelError(f"position {position} selects nothing in {place}, which has {size}")
    return count


class _Sink:
    """Rows of one position as they come: storage for every site, and where each distinct input's rows go."""

    def __init__(
        self,
        position: Position,
        tokens: Sequence[Tokenized],
        first: Sequence[int],
        sites: Sequence[Site],
        model: TextModel,
        budget: int,
    ) -> None:
        self.position, self.sites = position, sites
        self.tokens, self.first = tokens, first
        self.places = {row: place for place, row in enumerate(first)}
        counts = np.zeros(len(first), dtype=np.int64)
        self.bare = np.zeros(len(first), dtype=bool)
        for place, row in enumerate(first):
            layout = tokens[row].layout
            counts[place] = selected(position, layout, f"input {row + 1}")
            self.bare[place] = "content" in position.select and is_bare(layout)
        if not counts.any():
            raise ModelError(f"position {position} selects nothing in any input")
        if position.pool != "none":
            counts[:] = 1
        self.offsets = np.concatenate([[0], np.cumsum(counts)])
        need = int(self.offsets[-1]) * model.width * 4 * len(sites)
        if need > budget:
            raise BudgetError(
                f"capturing {self.offsets[-1]} rows at {len(sites)} sites keeps about {need / 2**30:.1f} GiB, over the "
                f"memory budget of {budget / 2**30:.1f} GiB: name fewer sites, pool, or raise memory_budget"
            )
        self.rows: dict[Site, Tensor] = {}
        self.batch: Batch | None = None

    def put(self, site: Site, hidden: Tensor, batch: Batch) -> None:
        """Keep what the position asks for of `hidden` [rows, columns, d]."""
        if batch is not self.batch:  # the same for all sites of a batch
            self.batch, self.chosen = batch, _chosen([mask(self.position, layout) for layout in batch.layouts], batch)
            self.where = torch.from_numpy(np.concatenate([self._range(self.places[row]) for row in batch.rows]))
        if site not in self.rows:
            shape = int(self.offsets[-1]), hidden.shape[-1]
            self.rows[site] = torch.empty(shape, dtype=torch.float32, device="cpu")
        self.rows[site][self.where] = _pool(hidden, self.chosen, self.position).to("cpu", torch.float32)

    def result(self, places: Sequence[int]) -> Activations:
        """The rows in the caller's order, repeats filled in."""
        fallbacks = int(self.bare[places].sum())
        order, offsets, tokens = None, None, None
        if list(places) != list(range(len(self.first))):
            order = torch.from_numpy(np.concatenate([self._range(place) for place in places]))
        if not self.position.single:
            counts = [len(self._range(place)) for place in places]
            offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]))
            chosen = (mask(self.position, self.tokens[self.first[place]].layout) for place in places)
            tokens = torch.from_numpy(np.concatenate([np.flatnonzero(one) for one in chosen]))
        rows = {site: self.rows[site] if order is None else self.rows[site][order] for site in self.sites}
        return Activations(rows, self.position, offsets, tokens, fallbacks)

    def _range(self, place: int) -> np.ndarray:
        return np.arange(self.offsets[place], self.offsets[place + 1])


def _chosen(masks: Sequence[np.ndarray], batch: Batch) -> np.ndarray:
    """Where the masks of a batch's rows hold [rows, columns]."""
    chosen = np.zeros(batch.ids.shape, dtype=bool)
    for row, known in enumerate(masks):
        chosen[row, : len(known)] = known
    return chosen


def _pool(hidden: Tensor, chosen: np.ndarray, position: Position) -> Tensor:
    """Rows of `hidden` [rows, columns, d] at the chosen tokens, pooled as the position says."""
    if position.pool == "none":
        rows, columns = np.nonzero(chosen)
        return hidden[torch.from_numpy(rows).to(hidden.device), torch.from_numpy(columns).to(hidden.device)]
    keep = torch.from_numpy(chosen).to(hidden.device)
    if position.pool == "mean":
        weights = keep.float() / keep.sum(1, keepdim=True)
        return torch.einsum("rc,rcd->rd", weights, hidden.float())
    return hidden.float().masked_fill(~keep[..., None], -torch.inf).amax(1)


def _run(
    model: TextModel,
    tokens: Sequence[Tokenized],
    rows: Sequence[int],
    sites: Sequence[Site],
    visit: Callable[[Site, Tensor, Batch], Any],
    budget: int,
) -> None:
    """One batch; where memory runs out it is halved, down to single rows."""
    batch = pad(tokens, rows, pad_id=model.pad_id, masked=not model.causal, device=model.device)
    try:
        with read(model, sites, lambda site, hidden: visit(site, by_token(hidden, batch.ids.shape, site), batch)):
            forward(model, batch)
        return
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        if len(rows) == 1:
            raise BudgetError(
                f"out of memory on a single input of {len(tokens[rows[0]].ids)} tokens (batch budget {budget} tokens): "
                "shorten it, or use a smaller model or a device with more memory"
            ) from error
    half = len(rows) // 2
    _run(model, tokens, rows[:half], sites, visit, budget)
    _run(model, tokens, rows[half:], sites, visit, budget)


@contextmanager
def read(model: TextModel, sites: Sequence[Site], visit: Any) -> Iterator[None]:
    """Within the block, a forward pass on this thread calls `visit(site, hidden)` at every site once, then stops."""
    thread = threading.get_ident()
    by_end: dict[tuple[Any, str], list[tuple[Site, Tap]]] = {}
    for site in sites:
        tap = model.anatomy.tap(site)
        by_end.setdefault((tap.module, tap.end), []).append((site, tap))
    pending = set(by_end)

    def visitor(key: tuple[Any, str]) -> Any:
        def see(hidden: Tensor) -> None:
            if key not in pending or threading.get_ident() != thread:
                return
            for site, tap in by_end[key]:
                visit(site, tap.read(hidden))
            pending.discard(key)
            if not pending:
                raise _Done

        return see

    with uncompiled(), ExitStack() as hooks:
        for module, end in by_end:
            hooks.callback(hook(module, end, visitor((module, end))).remove)
        with suppress(_Done):
            yield
        if pending:  # else a module may have swallowed what ended the pass
            raise ModelError(f"the forward pass does not reach {by_end[pending.pop()][0][0]}: name another site")


def forward(model: TextModel, batch: Batch, *, edits: Sequence[Any] | None = None, **options: Any) -> Any:
    """The body's forward pass over `batch`, under the edits in force on this thread.

    `edits` has a tuple for each row where rows have edits of their own, for which hooks must be there; these alone act.
    """
    body = model.anatomy.body
    each = [edits_in_force(body)] * len(batch.rows) if edits is None else edits
    plan = Plan(batch.layouts, "right", each, batch.rows, owner=body) if any(each) else None
    options = {"use_cache": False, **options} if model.causal else options
    with planned(plan):
        return body(input_ids=batch.ids, attention_mask=batch.mask, **options)
