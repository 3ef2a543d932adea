"""One call and the next: nothing is drawn by chance, nothing stays behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from covec.checks.doctor._patient import Failed, Patient
from covec.checks.doctor._rows import capture
from covec.edits.algebra import Add
from covec.edits.scope import edit
from covec.models.positions import Position
from covec.models.sites import Site

_EVEN = 1000.0  # a temperature at which all tokens are nearly as likely: noise decides, and no rounding
_NEW = 4  # tokens
_FEW = (1, 2, 3)  # texts of unequal length


def noop(patient: Patient) -> str:
    """A scope without edits, and one that adds nothing, change no bit; a capture has the bits of a plain call."""
    ids, mask = patient.padded(_FEW, left=False)
    plain = patient.logits(ids, mask)
    nothing = Add(site=Site("resid", patient.middle), position=Position("all"), shift=torch.zeros(len(patient.shift)))
    with edit(patient.model):
        _same("in a scope without edits", patient.logits(ids, mask), plain)
    with edit(patient.model, nothing):
        _same("under Add(0)", patient.logits(ids, mask), plain)
    _same("after the scopes", patient.logits(ids, mask), plain)
    for found, true in zip(capture(patient, 1, _FEW), [patient.alone[row] for row in _FEW], strict=True):
        for name, rows in found.items():
            _same(f"captured after {name}", rows, true[name], of="activations")
    return f"{plain.numel()} logits and the captured rows are those of a plain call, bit for bit"


def determinism(patient: Patient) -> str:
    """Calls, captures and sampled texts come out the same twice; a text depends on no neighbour but on its seed."""
    ids, mask = patient.padded(_FEW, left=False)
    _same("of a second call", patient.logits(ids, mask), patient.logits(ids, mask))
    for first, second in zip(capture(patient, 64, _FEW), capture(patient, 64, _FEW), strict=True):
        for name, rows in first.items():
            _same(f"captured again after {name}", rows, second[name], of="activations")
    told = "a second call and a second capture are bit-identical"
    if not patient.model.generates:
        return f"{told}; the model writes no text to sample"
    texts = [patient.texts[row] for row in _FEW]
    sampled = _sample(patient, texts)
    if _sample(patient, texts[::-2]) != sampled[::-2]:
        raise Failed("a text sampled again with one seed, beside other neighbours, is another")
    if _sample(patient, texts, seed=1) == sampled:
        raise Failed("texts sampled with another seed are the same")
    return f"{told}; texts sampled with one seed too, beside any neighbour"


def restore_after_error(patient: Patient) -> str:
    """An error within a scope, a call, a capture or a generation comes out as it was, and leaves nothing behind."""
    model, ids, error = patient.model, torch.tensor([patient.ids[1]]), _Interruption("on purpose")
    shift = Add(site=Site("resid", patient.middle), position=Position("all"), shift=patient.shift)

    def fail(*_: Any) -> None:
        raise error

    ways: dict[str, Callable[[], Any]] = {
        "a scope": fail,
        "a call": lambda: patient.logits(ids),
        "a capture": lambda: model.capture(patient.texts[:2], "resid.*"),
    }
    if model.generates:
        ways["a generation"] = lambda: model.generate(patient.texts[:2], max_new_tokens=2)
    before, plain = _belongings(patient.module), patient.logits(ids)
    for name, way in ways.items():
        handle = patient.blocks[patient.middle].register_forward_hook(fail)
        try:
            with edit(model, shift):
                way()
            raise Failed(f"an error within {name} does not come out")
        except _Interruption as found:
            if found is not error:
                raise Failed(f"an error within {name} comes out as another") from found
        finally:
            handle.remove()
        if left := _belongings(patient.module) - before:
            raise Failed(f"an error within {name} leaves behind: {', '.join(sorted(left))[:200]}")
        _same(f"after an error within {name}", patient.logits(ids), plain)
    return f"errors within {', '.join(ways)} came out as they were; no hook is left, logits are bit-identical"


class _Interruption(Exception):
    """Raised on purpose."""


def _belongings(module: nn.Module) -> set[str]:
    """Hooks of every part of a model, and what was put on it besides."""
    found = set()
    for name, part in module.named_modules():
        for key, value in vars(part).items():
            if key.endswith("_hooks"):
                found |= {f"{key[1:]} of {name or 'the model'} ({handle})" for handle in value}
            else:
                found.add(f"{key} of {name or 'the model'}")
    return found


def _sample(patient: Patient, texts: list[str], seed: int = 0) -> list[str]:
    return list(patient.model.generate(texts, max_new_tokens=_NEW, do_sample=True, seed=seed, temperature=_EVEN))


def _same(what: str, found: Tensor, expected: Tensor, of: str = "logits") -> None:
    if not torch.equal(found, expected):
        far = float((found - expected).abs().max()) if found.shape == expected.shape else float("inf")
        raise Failed(f"{of} {what} differ by up to {far:.1e}, and must be bit-identical")
