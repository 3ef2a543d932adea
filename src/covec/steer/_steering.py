"""The contract of the verb *steer*."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from covec import registry
from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.edits.algebra import Edit
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.registry import Entry


class Steering:
    """What every way to steer shares.

    `fit` learns `vectors` from the examples of one concept; `edits` then moves any input along it, within
    `model.edit(*steering.edits(strength))` or a row at a time in `model.generate(..., edits=[...])`.

    Attributes
    ----------
    vectors
        What was learned, as concept vectors that every other verb takes.
    """

    entry: ClassVar[Entry]  # what `@method` registered it as

    vectors: Bank

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        """Learn the concept of `examples` in `model`."""
        raise NotImplementedError

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        """The edits of one strength: 1.0 is the method's natural amount, a negative one steers away, 0 gives none.

        Raises
        ------
        CovecError
            Nothing was fitted, or the strength is not a finite number.
        """
        raise NotImplementedError

    def _fitted(self) -> Bank:
        if not hasattr(self, "vectors"):
            raise CovecError(f"{type(self).__name__} was not fitted: call fit(model, examples) first")
        return self.vectors


def steerings() -> tuple[str, ...]:
    """Names of the methods of this verb that learn one concept: what changes weights is another thing."""
    found = ((name, registry.get("steer", name)) for name in registry.names("steer"))
    return tuple(name for name, kind in found if isinstance(kind, type) and issubclass(kind, Steering))


def provenance(model: TextModel, examples: Examples, entry: Entry) -> dict[str, Any]:
    """The fields of a concept vector that say where it came from."""
    return {"method": entry.name, "model": model.describe(), "data": examples.describe()}
