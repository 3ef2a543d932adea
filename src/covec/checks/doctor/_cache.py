"""The cache: what a model writes under an edit is the same with and without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from covec.checks.doctor._patient import DoesNotApply, Failed, Patient, first_tensor, listening
from covec.edits.algebra import Add
from covec.edits.scope import edit
from covec.models.plan import Pass
from covec.models.positions import Position
from covec.models.sites import Site

_NEW = 5  # tokens
_PROMPTS = (1, 2, 3)  # of unequal length


@dataclass(frozen=True, eq=False, kw_only=True)
class _Counted(Add):
    """Adds, and counts the columns of every pass in which it acts."""

    passes: list[int] = field(default_factory=list)

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        self.passes.append(h.shape[1])
        return super().apply(h, context)


def cache(patient: Patient) -> str:
    """Greedy texts under an edit: equal with and without the cache, as a plain hook would have it, at every pass."""
    if not patient.model.generates:
        raise DoesNotApply("the model writes no text")
    alone, _ = _write(patient, *patient.padded(_PROMPTS[:1], left=True), use_cache=True)
    ids, mask = patient.padded(_PROMPTS, left=True)
    cached, passes = _write(patient, ids, mask, use_cache=True)
    whole, _ = _write(patient, ids, mask, use_cache=False)
    if len(passes) != _NEW:
        raise Failed(f"the edit acted in {len(passes)} passes, and {_NEW} tokens were written with the cache")
    worst = max(
        _forced(patient, f"{name} the cache", written, place, row)
        for name, written, rows in (
            ("alone with", alone, _PROMPTS[:1]),
            ("with", cached, _PROMPTS),
            ("without", whole, _PROMPTS),
        )
        for place, row in enumerate(rows)
    )
    same = torch.equal(cached.sequences, whole.sequences)
    if not same and patient.exact:
        raise Failed("greedy texts with and without the cache differ")
    told = "equal texts" if same else "texts equal but for ties within the limit"
    if passes[-1] > 1:
        told = "the model keeps no cache"
    return f"{told}; log-probabilities {worst:.1e} from a plain hook's ({patient.allowed}); edited in all {_NEW} passes"


def _write(patient: Patient, ids: Tensor, mask: Tensor, *, use_cache: bool) -> tuple[Any, list[int]]:
    """What transformers' own `generate` returns under an edit, and the columns of each pass in which it acted."""
    shift = _Counted(site=Site("resid", patient.middle), position=Position("all"), shift=patient.shift)
    block = {"block": patient.blocks[patient.middle]}
    device = patient.model.device
    with edit(patient.model, shift), listening(block) as heard, torch.no_grad():
        written = patient.module.generate(  # type: ignore[operator]
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            use_cache=use_cache,
            max_new_tokens=_NEW,
            min_new_tokens=_NEW,
            do_sample=False,
            num_beams=1,
            pad_token_id=patient.model.pad_id,
            return_dict_in_generate=True,
            output_logits=True,
        )
    if shift.passes != [hidden.shape[1] for hidden in heard["block"]]:
        raise Failed(f"the edit acted in {len(shift.passes)} of {len(heard['block'])} passes")
    return written, shift.passes


def _forced(patient: Patient, how: str, written: Any, place: int, row: int) -> float:
    """How far the log-probabilities of the tokens of one text are from those under a plain hook.

    They come from one plain call of prompt and text alone, and are compared by the largest one of each step.
    """
    prompt, new = patient.ids[row], written.sequences[place, -_NEW:].cpu()
    with _adding(patient):
        logits = patient.logits(torch.tensor([prompt + new[:-1].tolist()]))[0, len(prompt) - 1 :]
    expected = logits.log_softmax(1)
    found = torch.stack([step[place] for step in written.logits]).float().cpu().log_softmax(1)
    apart = (found - expected).gather(1, new[:, None]).abs()[:, 0] / expected.abs().amax(1)
    if not (far := patient.measure(apart)) <= patient.limit:
        raise Failed(
            f"{how}, log-probabilities of written tokens differ by {far:.1e} of the largest from those under a plain "
            f"hook, {patient.allowed}"
        )
    return far


@contextmanager
def _adding(patient: Patient) -> Iterator[None]:
    """Within the block, a plain hook adds the shift after the middle block."""

    def add(_: Any, __: Any, output: Any) -> None:
        hidden = first_tensor(output)
        hidden += patient.shift.to(hidden.device, hidden.dtype)  # in place, whatever container holds it

    handle = patient.blocks[patient.middle].register_forward_hook(add)
    try:
        yield
    finally:
        handle.remove()
