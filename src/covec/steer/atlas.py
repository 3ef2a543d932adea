"""aTLAS: a learned coefficient for every task vector and every tensor of the network.

Zhang et al., "Knowledge Composition using Task Vectors with Learned Anisotropic Scaling", arXiv:2407.02880, equation 3:
`theta_j = theta_0j + sum_i c_ij tau_ij`, with the network and the task vectors frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from covec.concepts.part import Part
from covec.concepts.vector import ConceptVector
from covec.concepts.weights import module_of, numbers
from covec.errors import CovecError
from covec.models.sites import Site
from covec.progress import Progress, silent
from covec.registry import Entry, method

Call = Callable[..., Any]  # the network under the coefficients of the moment


@method("atlas", verb="steer", needs="weights", card="atlas")
class Atlas:
    """Task vectors composed with one learned coefficient for each of their tensors, from 0 on.

    Parameters
    ----------
    steps, rate
        Of AdamW, whose rate falls to nothing along a cosine; coefficients take rates far larger than weights do.
    check
        After how many steps the validation score is asked for; the best coefficients are kept.

    Attributes
    ----------
    coefficients
        One row a task vector, one column a tensor [n, m].
    tensors
        The names of the columns.
    vector
        What they come to: a weight vector for `model.patch_weights(vector)`.
    """

    entry: ClassVar[Entry]
    coefficients: Float[Tensor, "n m"]
    tensors: tuple[str, ...]
    vector: ConceptVector

    def __init__(self, steps: int = 100, rate: float = 0.1, check: int = 10) -> None:
        self.steps, self.rate, self.check = steps, rate, check

    def fit(
        self,
        model: Any,
        vectors: Sequence[ConceptVector],
        loss: Callable[[Call, int], Tensor],
        score: Callable[[Call], float],
        *,
        progress: Progress = silent,
    ) -> Self:
        """Learn the coefficients; the model itself stays as it is.

        Parameters
        ----------
        loss
            The loss of one step, given the network to call and the number of the step.
        score
            What a network to call scores on validation data.

        Raises
        ------
        CovecError
            There are no vectors, one is no weight vector of this model, or no coefficients do better than none.
        """
        module = module_of(model)
        taken = _stacked(module, vectors)
        self.tensors = tuple(taken)
        found = torch.zeros(len(vectors), len(taken), requires_grad=True)
        best, kept = score(module), found.detach().clone()
        optimiser = torch.optim.AdamW([found], lr=self.rate, weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.steps)
        with progress("learning coefficients", self.steps) as bar:
            for step in range(self.steps):
                (found.grad,) = torch.autograd.grad(loss(_call(module, taken, found), step), [found])
                nn.utils.clip_grad_norm_([found], 1.0)
                optimiser.step()
                schedule.step()
                if (step + 1) % self.check == 0 or step + 1 == self.steps:
                    with torch.no_grad():
                        reached = score(_call(module, taken, found))
                    if reached > best:
                        best, kept = reached, found.detach().clone()
                bar.advance(1)
        if not kept.any():
            raise CovecError("no coefficients do better than none on validation: give more steps, or other vectors")
        self.coefficients, self.vector = kept, _composed(taken, kept, vectors[0])
        return self


def _stacked(module: nn.Module, vectors: Sequence[ConceptVector]) -> dict[str, Float[Tensor, "n size"]]:
    """For every tensor that some vector changes the changes by all of them, zero where one has none."""
    if not vectors or any(vector.kind != "weights" for vector in vectors):
        raise CovecError("coefficients belong to weight vectors: give one at least, and no other kind")
    named = {str(site) for vector in vectors for site in vector.parts}
    there = {name: tensor for name, tensor in numbers(module) if name in named}
    if missing := named - there.keys():
        raise CovecError(f"{min(missing)} is no weight of this model: give vectors that were made of it")
    taken = {}
    for name, tensor in there.items():
        parts = [vector.parts.get(Site.parse(name)) for vector in vectors]
        rows = [torch.zeros(tensor.numel()) if part is None else part.write.flatten() for part in parts]
        if any(len(row) != tensor.numel() for row in rows):
            raise CovecError(
                f"{name} has {list(tensor.shape)} numbers here and others in a vector: give this model's own"
            )
        taken[name] = torch.stack(rows).to(tensor.device, tensor.dtype)
    return taken


def _call(module: nn.Module, taken: dict[str, Tensor], coefficients: Float[Tensor, "n m"]) -> Call:
    """The network with its weights moved, as a function of its inputs."""
    before = dict(numbers(module))
    moved = {
        name: before[name].detach() + (coefficients[:, place].to(rows) @ rows).view_as(before[name])
        for place, (name, rows) in enumerate(taken.items())
    }
    return lambda *inputs, **named: functional_call(module, moved, inputs, named)


def _composed(taken: dict[str, Tensor], coefficients: Tensor, first: ConceptVector) -> ConceptVector:
    parts = {}
    for place, (name, rows) in enumerate(taken.items()):
        change = coefficients[:, place].double() @ rows.cpu().double()
        shape = next((part.write.shape for site, part in first.parts.items() if str(site) == name), (1, -1))
        if change.any():
            parts[Site.parse(name)] = Part.writing(change.reshape(shape))
    return ConceptVector("composed", parts, "weights", method="atlas", scale_from="native", model=first.model)
