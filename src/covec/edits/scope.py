"""The scope in which edits act: hooks that are there only while it lasts, and leave the model bit-identical."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from covec.edits.algebra import Add, Edit, Gate
from covec.edits.calls import follow, follow_generation
from covec.edits.schedules import Unsure
from covec.errors import ModelError
from covec.models.anatomy import Tap
from covec.models.plan import Pass, Plan, current_pass, passing, stacked
from covec.models.sites import Site
from covec.models.taps import by_token, hook
from covec.models.text import TextModel

_lock = threading.Lock()
_installed: WeakKeyDictionary[nn.Module, dict[Any, _Counted]] = WeakKeyDictionary()  # a network's, by what is hooked


@dataclass
class _Counted:
    remove: Callable[[], None]
    uses: int = 0


def flatten(edits: Iterable[Any]) -> tuple[Edit, ...]:
    """Edits out of nested tuples and lists, in order."""
    flat: list[Edit] = []
    for edit in edits:
        if isinstance(edit, Edit):
            flat.append(edit)
        elif isinstance(edit, tuple | list):
            flat.extend(flatten(edit))
        else:
            raise ModelError(f"{type(edit).__name__} is no edit: write for example model.edit(v.add(3))")
    return tuple(flat)


def check(model: TextModel, edits: Sequence[Edit], *, force: bool = False) -> None:
    """Refuse edits that `model` cannot honour: another model's, of another width, at unknown sites, with late gates."""
    model.check_whole()
    order = {site: index for index, site in enumerate(_in_order(model))}
    for edit in edits:
        model.anatomy.tap(edit.site)
        edit.position.for_edits()
        if not force and edit.fingerprint is not None and edit.fingerprint != model.fingerprint:
            raise ModelError(
                f"this vector was made for another model than {model.name} (fingerprints differ): use the model it was "
                "made for, or force it"
            )
        tap = model.anatomy.tap(edit.site)
        width = model.width if edit.site.kind in ("resid", "embed", "final", "attn", "mlp", "mixer") else None
        if tap.columns is not None:
            width = tap.columns.stop - tap.columns.start
        if "generated" in edit.position.select and not model.causal:
            raise ModelError(
                f"{model.name} generates no text: an edit's position there cannot be {edit.position.select!r}"
            )
        if width is not None and edit.width not in (None, width):
            raise ModelError(f"the edit at {edit.site} has width {edit.width}, {model.name} has {width} there")
        if edit.gate is not None and order.get(edit.gate.site, -1) > order.get(edit.site, len(order)):
            raise ModelError(f"the gate reads {edit.gate.site}, which comes after the edit at {edit.site}")
    model.check_addends(edit.site for edit in edits)


def _in_order(model: TextModel) -> list[Site]:
    """Sites as a pass meets them: a block's sublayers before the stream after it."""
    rank = {"embed": -1, "key": 0, "value": 0, "head": 1, "attn": 2, "mixer": 2, "neuron": 3, "mlp": 4, "resid": 5}
    return sorted(model.sites, key=lambda site: (site.kind == "final", site.block, rank.get(site.kind, 6)))


def edit(model: TextModel, *edits: Any, force: bool = False) -> AbstractContextManager[TextModel]:
    """Within the block, `edits` act on every pass of `model` on this thread, in the order given.

    They act in captures, in `model.generate`, and when `model.module` is called or generates by itself. The model is
    bit-identical afterwards, also after an error. A copy that is made of it meanwhile (`copy.deepcopy`, `torch.save`,
    `save_pretrained`) is another model: no edit acts there.

    Raises
    ------
    ModelError
        At the call, where an edit does not fit the model; `force` lets another model's vector through.
    """
    flat = flatten(edits)
    check(model, flat, force=force)
    return _scope(model, flat)


@contextmanager
def _scope(model: TextModel, flat: tuple[Edit, ...]) -> Iterator[TextModel]:
    with hooks(model, flat), stacked(model.anatomy.body, flat):
        yield model


@contextmanager
def hooks(model: TextModel, edits: Sequence[Edit]) -> Iterator[None]:
    """Keep the hooks that `edits` need while the block lasts; scopes share them, the last one removes them."""
    taps = {_key(model, site) for item in edits for site in _sites(item)}
    keys = [("pass",), (model.module, "generate"), *taps] if taps else []
    with _lock:
        mine = _installed.setdefault(model.anatomy.body, {})
        for key in keys:
            if key not in mine:
                mine[key] = _Counted(_install(model, key))
            mine[key].uses += 1
    try:
        with passing():
            yield
    finally:
        with _lock:
            for key in keys:
                mine[key].uses -= 1
                if not mine[key].uses:
                    mine.pop(key).remove()


def _sites(item: Edit) -> tuple[Site, ...]:
    return (item.site,) if item.gate is None else (item.site, item.gate.site)


def _key(model: TextModel, site: Site) -> tuple[Any, str]:
    tap = model.anatomy.tap(site)
    return (tap.module, tap.end)


def _install(model: TextModel, key: tuple[Any, ...]) -> Callable[[], None]:
    if key == ("pass",):
        return follow(model)
    module, end = key
    if end == "generate":
        return follow_generation(model)
    return hook(module, end, lambda hidden: _act(model, key, hidden)).remove


def _act(model: TextModel, key: tuple[Any, str], hidden: Tensor) -> Tensor | None:
    """At one tap: what its gates find, then its edits in order."""
    now = current_pass()
    if now is None or not now.plan.edits:
        return None
    steps = now.plan.prepared.get((key, hidden.device, hidden.dtype))
    if steps is None:
        steps = _steps(model, key, now.plan, hidden)
        now.plan.prepared[(key, hidden.device, hidden.dtype)] = steps
    if not steps:
        return None
    shape, hidden = hidden.shape, by_token(hidden, (now.rows, now.columns), f"an edited {type(key[0]).__name__}")
    for step in steps:
        hidden = step(hidden, now)
    return hidden if hidden.shape == shape else hidden.reshape(shape)


Step = Callable[[Tensor, Pass], Tensor]


def _steps(model: TextModel, key: tuple[Any, str], plan: Plan, hidden: Tensor) -> list[Step]:
    """The edits of `plan` at one tap as functions of the batch, tensors moved and rows grouped once."""

    def here(site: Site) -> bool:
        return _key(model, site) == key

    lists = [sorted((item for item in row if here(item.site)), key=lambda item: item.observes) for row in plan.edits]
    gates = {item.gate: None for row in plan.edits for item in row if item.gate is not None and here(item.gate.site)}
    steps: list[Step] = [_note(model, gate, hidden.device) for gate in gates]
    for place in range(max(map(len, lists), default=0)):
        items = [row[place] if place < len(row) else None for row in lists]
        distinct = {id(item): item for item in items if item is not None}
        first = next(iter(distinct.values()))
        if len(distinct) > 1 and all(_stackable(item, first) for item in distinct.values()):
            nothing = torch.zeros(first.width or 0, dtype=torch.float32, device="cpu")
            shifts = [item.shift if isinstance(item, Add) else nothing for item in items]
            joined = Add(site=first.site, position=first.position, shift=torch.stack(shifts)[:, None])
            steps.append(_step(joined.prepare(hidden.device, hidden.dtype), model.anatomy.tap(first.site), None))
            continue
        for item in distinct.values():
            rows = None if len(distinct) == 1 and None not in items else [other is item for other in items]
            make = _watch if item.observes else _step
            steps.append(make(item.prepare(hidden.device, hidden.dtype), model.anatomy.tap(item.site), rows))
    return steps


def _stackable(item: Edit, first: Edit) -> bool:
    same = item.site == first.site and item.position == first.position
    plain = item.gate is None and item.schedule is None
    return type(item) is Add and type(first) is Add and plain and same


def _note(model: TextModel, gate: Gate | Unsure, device: torch.device) -> Step:
    tap, fires = model.anatomy.tap(gate.site), gate.bind(model, device)

    def step(hidden: Tensor, now: Pass) -> Tensor:
        now.notes[gate] = fires(tap.read(hidden))
        return hidden

    return step


def _watch(item: Edit, tap: Tap, rows: list[bool] | None) -> Step:
    """An observer as a function of the batch: it sees every token and changes none."""

    def step(hidden: Tensor, now: Pass) -> Tensor:
        item.apply(tap.read(hidden), now)
        return hidden

    return step


def _step(item: Edit, tap: Tap, rows: list[bool] | None) -> Step:
    """One edit as a function of the batch: masked by position, gate and rows; the rest of the tokens is untouched."""

    def step(hidden: Tensor, now: Pass) -> Tensor:
        part = tap.read(hidden)
        edited = _per_row(item, now).apply(part, now)
        keep = now.mask(item.position)
        keep = None if keep is None else keep.to(part.device)
        if item.gate is not None:
            if item.gate not in now.notes:  # where modules stand is not known before they run
                raise ModelError(f"the gate reads {item.gate.site}, which comes after the edit at {item.site}")
            fires = now.notes[item.gate].to(part.device)  # a gate may stand on another one
            keep = fires if keep is None else keep & fires
        if item.schedule is not None:
            weights = item.schedule.weights(now).to(part.device)
            edited = _part_of_the_way(part, edited, weights)
            keep = weights != 0 if keep is None else keep & (weights != 0)
        if rows is not None:
            mine = torch.tensor([rows[now.row(row)] for row in range(now.rows)], device=hidden.device)[:, None]
            keep = mine.expand(now.rows, now.columns) if keep is None else keep & mine
        if keep is not None:
            edited = torch.where(keep[..., None], edited, part)
        _check_range(item, part, edited)
        return tap.write(hidden, edited)

    return step


def _part_of_the_way(before: Tensor, after: Tensor, weights: Tensor) -> Tensor:
    """What lies between, computed in float32 at least; what was edited itself, to the bit, where a weight is 1."""
    wide = torch.promote_types(before.dtype, torch.float32)
    share = weights[..., None]
    between = before.to(wide) + share * (after.to(wide) - before.to(wide))
    return torch.where(share == 1, after, between.to(after.dtype))


def _check_range(item: Edit, before: Tensor, after: Tensor) -> None:
    """Refuse an edit that goes beyond the range of float16; no edit goes beyond that of the other dtypes."""
    if after.dtype == torch.float16 and not after.isfinite().all() and before.isfinite().all():
        raise ModelError(f"the edit at {item.site} goes beyond float16: use a smaller strength, or float32")


def _per_row(item: Edit, now: Pass) -> Edit:
    """A stacked shift [rows, 1, d] repeated for the beams of each row."""
    if not isinstance(item, Add) or item.shift.ndim == 1 or len(item.shift) == now.rows:
        return item
    return Add(
        site=item.site, position=item.position, shift=item.shift.repeat_interleave(now.rows // len(item.shift), 0)
    )
