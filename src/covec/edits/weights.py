"""The scope in which weight vectors are added to a network's parameters, undone to the bit.

What stood there is kept, and not computed back: while several vectors are in force, every parameter is its kept bits
plus all of them, in the order in which they came, so that scopes may also end in another order.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from covec.concepts.vector import ConceptVector
from covec.concepts.weights import module_of, numbers
from covec.errors import ModelError

_lock = threading.Lock()


@dataclass(eq=False)
class _Patch:
    """One vector in force: what it adds to each parameter, by name."""

    added: dict[str, Tensor]


@dataclass(eq=False)
class _Patched:
    """What a network was before the first patch, and the patches in force."""

    fingerprint: str | None
    kept: dict[str, Tensor] = field(default_factory=dict)
    patches: list[_Patch] = field(default_factory=list)


_patched: WeakKeyDictionary[nn.Module, _Patched] = WeakKeyDictionary()


def patch_weights(
    model: Any, vector: ConceptVector, strength: float = 1.0, *, force: bool = False
) -> AbstractContextManager[Any]:
    """Within the block, `strength` times a weight vector is added to the parameters that its sites name.

    Afterwards every bit is as before, also after an error. Unlike edits, which belong to a thread, weights belong to
    the network: all threads see the change, and the network has another fingerprint meanwhile.

    Parameters
    ----------
    model
        A text model, or a module of torch.
    force
        Take a vector that begins at another model; shapes must fit all the same.

    Raises
    ------
    ModelError
        At the call: the vector is of another kind or model, names a parameter that is not there, is quantised or has
        another shape, or the strength is no finite number.
    """
    if vector.kind != "weights":
        raise ModelError(
            f"{vector.name!r} is a {vector.kind}: model.edit(...) takes it, and patch_weights weight vectors"
        )
    if not math.isfinite(strength):
        raise ModelError(f"a steering strength must be a finite number, not {strength}")
    module = module_of(model)
    _check_model(model, module, vector, force)
    found = dict(numbers(module))
    for site, part in vector.parts.items():
        name = str(site)
        if name not in found:
            raise ModelError(f"{vector.name!r} changes {name}, and this model has no such weights of real numbers")
        if found[name].is_meta or found[name].numel() != part.write.numel():
            raise ModelError(
                f"{vector.name!r} changes {name} by {part.write.numel()} numbers, and this model has "
                f"{list(found[name].shape)} there, or has them offloaded: use the model it was made for"
            )
    return _scope(model, module, vector, strength)


def _check_model(model: Any, module: nn.Module, vector: ConceptVector, force: bool) -> None:
    mine = vector.model.get("fingerprint")
    if force or not mine or not hasattr(model, "fingerprint"):
        return
    state = _patched.get(module)
    there = state.fingerprint if state is not None and state.patches else model.fingerprint
    if there not in (mine, None):
        raise ModelError(f"{vector.name!r} begins at another model (fingerprints differ): use that one, or force it")


@contextmanager
def _scope(model: Any, module: nn.Module, vector: ConceptVector, strength: float) -> Iterator[Any]:
    patch = _Patch({str(site): strength * part.write.double() for site, part in vector.parts.items()})
    with _lock:
        state = _patched.get(module)
        if state is None or not state.patches:
            state = _patched[module] = _Patched(getattr(model, "fingerprint", None))
        state.patches.append(patch)
    try:
        with _lock:
            _renew(module, state, patch)
        yield model
    finally:
        with _lock:
            state.patches.remove(patch)
            _renew(module, state, patch)


def _renew(module: nn.Module, state: _Patched, changed: _Patch) -> None:
    """Give the parameters that `changed` names what they are under the patches in force."""
    tensors = module.state_dict(keep_vars=True)
    with torch.no_grad():
        for name in changed.added:
            tensor = tensors[name]
            mine = [one.added[name] for one in state.patches if name in one.added]
            if not mine:
                if name in state.kept:
                    tensor.copy_(state.kept.pop(name))
                continue
            kept = state.kept.setdefault(name, tensor.detach().clone())
            change = torch.stack(mine).sum(0) if len(mine) > 1 else mine[0]
            tensor.copy_((kept.double() + change.reshape(kept.shape).to(kept.device)).to(kept.dtype))
