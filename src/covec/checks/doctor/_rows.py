"""Padding and batches: a row shows the same whatever stands beside it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from covec.checks.doctor._patient import DoesNotApply, Failed, Patient, Rows, listening
from covec.edits.algebra import Add
from covec.edits.scope import edit
from covec.models.positions import Position
from covec.models.sites import Site

_MANY = 48  # rows


def padding_left(patient: Patient) -> str:
    """A row padded on the left, as in generation, shows what it shows alone, and edits find their tokens there."""
    if not patient.model.generates:
        raise DoesNotApply("the model writes no text, and only there does covec pad on the left")
    plain = patient.agree("rows padded on the left and alone", _padded(patient, left=True), patient.alone)
    _edits_land(patient, left=True)
    return f"{_told(patient)}: {plain:.1e} from the row alone ({patient.allowed}); edits land on their tokens"


def padding_right(patient: Patient) -> str:
    """A row padded on the right shows what it shows alone, also as covec captures it; edits find their tokens."""
    plain = patient.agree("rows padded on the right and alone", _padded(patient, left=False), patient.alone)
    captured = patient.agree("captured rows and plain ones", capture(patient, 1 << 20), patient.alone)
    _edits_land(patient, left=False)
    told = f"{_told(patient)}: {plain:.1e} from the row alone, captured {captured:.1e} ({patient.allowed})"
    return f"{told}; edits land on their tokens"


def batch(patient: Patient) -> str:
    """Rows do not see one another: captured one by one, in threes, all at once and in another order, and in tens."""
    longer = sorted(range(len(patient.ids)), key=lambda row: len(patient.ids[row]))[len(patient.ids) // 2 :]
    width = len(patient.ids[longer[0]])
    cut = [patient.ids[row][:width] for row in longer]
    alone = [patient.see(torch.tensor([row]))[0] for row in cut]
    many = _MANY // len(cut)  # covec's own captures run tens of short rows together
    worst = [
        patient.agree("rows of one length together and alone", patient.see(torch.tensor(cut * times)), alone * times)
        for times in (1, many)
    ]
    given = list(range(len(patient.ids)))
    for size, order in ((1, given), (3, given), (len(given), given[1::2] + given[::2])):
        found = capture(patient, 1 if size == 1 else size * max(map(len, patient.ids)), order)
        expected = [patient.alone[row] for row in order]
        worst.append(patient.agree(f"rows captured {size} at a time and plain ones", found, expected))
    sizes = f"1, 3 and {len(given)} texts at a time, reordered, and {many * len(cut)} rows"
    return f"{sizes}: {max(worst):.1e} from the row alone ({patient.allowed})"


def capture(patient: Patient, budget: int, order: Sequence[int] | None = None) -> list[Rows]:
    """What covec captures of every token of the texts (all, or those in `order`), named as a plain call names it."""
    rows = range(len(patient.texts)) if order is None else order
    found = patient.model.capture(
        [patient.texts[row] for row in rows],
        [Site("resid", depth) for depth in patient.depths],
        "all/none",
        batch_tokens=budget,
    )
    return [
        {f"block {depth}": found.of(place, Site("resid", depth)) for depth in patient.depths}
        for place in range(len(rows))
    ]


def _told(patient: Patient) -> str:
    lengths = [len(row) for row in patient.ids]
    return f"{len(lengths)} texts of {min(lengths)} to {max(lengths)} tokens"


def _padded(patient: Patient, *, left: bool) -> list[Rows]:
    return patient.see(*patient.padded(range(len(patient.ids)), left=left))


def _edits_land(patient: Patient, *, left: bool) -> None:
    """Under a plain padded call an edit at the first and last token moves those, by its shift, and no other."""
    depth = patient.middle
    ids, mask = patient.padded(range(0, len(patient.ids), 3), left=left)
    shift = Add(site=Site("resid", depth), position=Position("first+last"), shift=patient.shift)
    with listening({"block": patient.blocks[depth]}) as plain:
        patient.logits(ids, mask)
    with edit(patient.model, shift), listening({"block": patient.blocks[depth]}) as edited:
        patient.logits(ids, mask)
    before, after = plain["block"][0], edited["block"][0]
    for row, keep in enumerate(mask.bool()):
        size = int(keep.sum())
        moved = {place for place in range(size) if not torch.equal(before[row][keep][place], after[row][keep][place])}
        if moved != {0, size - 1}:
            raise Failed(f"an edit at the first and last of {size} tokens moved tokens {sorted(moved)}")
