"""Weight vectors: what fine-tuning changed in every parameter of a network.

Ilharco et al., "Editing Models with Task Arithmetic", arXiv:2212.04089, section 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from covec.concepts.part import Part
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError, ModelError
from covec.models.sites import Site


def weight_vector(base: Any, tuned: Any, name: str = "", **others: Any) -> ConceptVector:
    """The concept vector of kind `weights` that leads from `base` to `tuned`: `tuned - base`, tensor by tensor.

    Only what differs is kept, under the tensor's dotted name; tied tensors once. A matrix keeps its shape, a tensor of
    one dimension is a row, of more a matrix of its first dimension and the rest.

    Parameters
    ----------
    base, tuned
        Text models or plain modules, with tensors of the same names and shapes.
    name
        The concept; the tuned model's name unless given.
    others
        Further fields of the vector.

    Raises
    ------
    ModelError
        A tensor of one is missing in the other or has another shape, or nothing differs.
    """
    before, after = dict(numbers(module_of(base))), dict(numbers(module_of(tuned)))
    for key in before.keys() | after.keys():
        if key not in before or key not in after or before[key].shape != after[key].shape:
            raise ModelError(
                f"{key} is missing in one of the models or has another shape: give a model and its tuned copy"
            )
    changes = {key: (after[key].detach().cpu().double() - before[key].detach().cpu().double()) for key in before}
    parts = {Site.parse(key): Part.writing(_matrix(change)) for key, change in changes.items() if change.any()}
    if not parts:
        raise ModelError("the two models do not differ in any weight: give a model and what fine-tuning made of it")
    model = {"model": base.describe()} if hasattr(base, "describe") else {}
    kept = {"method": "task-arithmetic", "scale_from": "native", **model, **others}
    return ConceptVector(name or getattr(tuned, "name", "") or "tuned", parts, "weights", **kept)


def combined(name: str, *weighted: tuple[float, ConceptVector]) -> ConceptVector:
    """The sum of weight vectors, each times its number: -1 forgets, sums learn several tasks, B - A + C is an analogy.

    Raises
    ------
    CovecError
        There is none, one is no weight vector, or they are of different models or cancel out.
    """
    if not weighted or any(vector.kind != "weights" for _, vector in weighted):
        raise CovecError("only weight vectors can be summed: give some of kind 'weights'")
    if len({vector.model.get("fingerprint") for _, vector in weighted} - {None}) > 1:
        raise CovecError("these weight vectors begin at different models: their sum means nothing")
    written: dict[Site, Tensor] = {}
    for number, vector in weighted:
        for site, part in vector.parts.items():
            written[site] = written.get(site, 0.0) + number * part.write.double()
    parts = {site: Part.writing(change) for site, change in written.items() if change.any()}
    if not parts:
        raise CovecError("these weight vectors cancel out: nothing is left to add")
    first = weighted[0][1]
    return ConceptVector(name, parts, "weights", method="task-arithmetic", scale_from="native", model=first.model)


def cosine(one: ConceptVector, other: ConceptVector) -> float:
    """Cosine between two weight vectors, over all their parameters."""
    shared = one.parts.keys() & other.parts.keys()
    product = sum(float((one.parts[site].write.double() * other.parts[site].write).sum()) for site in shared)
    return product / (length(one) * length(other))


def length(vector: ConceptVector) -> float:
    """Norm of a weight vector, over all its parameters."""
    return float(sum(part.write.double().square().sum() for part in vector.parts.values())) ** 0.5


def module_of(model: Any) -> nn.Module:
    """The network of a text model, or the module itself."""
    found = model if isinstance(model, nn.Module) else getattr(model, "module", None)
    if not isinstance(found, nn.Module):
        raise ModelError(f"{type(model).__name__} is no model: give a loaded one, or a module of torch")
    return getattr(found, "_orig_mod", found)  # torch.compile wraps it


def numbers(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a network's state that hold real numbers, by name; tied ones once."""
    seen: set[int] = set()
    for name, tensor in module.state_dict(keep_vars=True).items():
        if tensor.is_floating_point() and id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor


def _matrix(change: Tensor) -> Tensor:
    return change.reshape(1, -1) if change.ndim < 2 else change.reshape(len(change), -1)
