"""Edits with tensors that training finds: what the one trainer (`covec.edits.training`) asks of them, and the simplest.

An edit stays frozen. The trainer holds the tensors, and makes a new edit of them at every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from covec.concepts.vector import ConceptVector, Part
from covec.edits.algebra import Edit
from covec.errors import CovecError
from covec.models.plan import Pass
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Input

if TYPE_CHECKING:
    from typing import Self

_MEASURED = 16  # texts on which the usual size of an activation is measured


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TrainableEdit(Edit):
    """An edit of which the fields named in `trained` are found by training; all else about it stays as it was made."""

    trained: ClassVar[tuple[str, ...]] = ()

    def parameters(self) -> dict[str, Tensor]:
        """The tensors that training changes, by name."""
        return {name: getattr(self, name) for name in self.trained}

    def with_parameters(self, values: Mapping[str, Tensor]) -> Self:
        """The same edit with other tensors in their place."""
        return replace(self, **values)  # type: ignore[arg-type]

    def loss(self, batch: Any, outputs: Tensor) -> Tensor:
        """What it adds to the loss of the objective; nothing, unless it has a term of its own.

        Parameters
        ----------
        batch
            The rows of this step, and the tokens that they are to be followed by.
        outputs
            Logits of these tokens [m, v].
        """
        return outputs.new_zeros(())


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TrainableAdd(TrainableEdit):
    """h + unit x shift, the shift trained.

    A step of training moves every tensor by about its rate; `unit`, the usual size of an entry of h, makes of it a
    share of that, in every model and at every site.
    """

    trained: ClassVar[tuple[str, ...]] = ("shift",)

    shift: Float[Tensor, "d"]
    unit: float = 1.0

    @property
    def added(self) -> Float[Tensor, "d"]:
        """What is added, in units of h."""
        return self.unit * self.shift

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        return h + self.added.to(h.dtype)


def zero_shifts(model: TextModel, sites: Any, texts: Sequence[Input], **others: Any) -> tuple[TrainableAdd, ...]:
    """Shifts of nothing at `sites`, from which training begins.

    Parameters
    ----------
    texts
        A few of those at hand: how large activations usually are is measured on them.
    others
        `position` and the like, as of every edit.
    """
    common = {"fingerprint": model.fingerprint, **others}
    return tuple(
        TrainableAdd(site=site, shift=torch.zeros(width), unit=unit, **common)
        for site, (unit, width) in usual_sizes(model, sites, texts).items()
    )


def usual_sizes(model: TextModel, sites: Any, texts: Sequence[Input]) -> dict[Site, tuple[float, int]]:
    """The root mean square of an activation's entries at each site, and the site's width."""
    rows = model.capture(list(texts)[:_MEASURED], sites, "content/none")
    return {site: (float(rows[site].square().mean().sqrt()), rows[site].shape[1]) for site in rows.sites}


def as_vector(name: str, edits: Sequence[TrainableAdd], **others: Any) -> ConceptVector:
    """Trained shifts as one concept vector, of which strength 1 is what was trained (`scale_from` is `native`).

    Raises
    ------
    CovecError
        Training left a shift at zero, so that it points nowhere.
    """
    parts: dict[Site, Part] = {}
    for edit in edits:
        shift = edit.added.detach()
        if not bool(shift.any()):
            raise CovecError(f"training {name!r} moved nothing at {edit.site}: give more steps, or a higher rate")
        made = ConceptVector.from_direction(
            name, edit.site, shift, write=shift, scale=float(shift.norm()), scale_from="native"
        )
        parts |= made.parts
    position = edits[0].position
    return ConceptVector(name, parts, scale_from="native", write_position=position, **others)
