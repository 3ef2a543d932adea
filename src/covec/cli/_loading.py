"""Models that the command line names, or that a vector named there belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covec.cli._progress import bars
from covec.errors import CovecError

if TYPE_CHECKING:
    from covec.concepts.vector import ConceptVector
    from covec.models.text import TextModel


def load(name: str, *, device: str, dtype: str) -> TextModel:
    """`covec.load` with a bar, which also stands while torch is imported."""
    progress = bars()
    with progress(f"loading {name}"):
        import covec

        return covec.load(name, device=device, dtype=dtype, progress=progress)


def load_model(name: str | None, vector: ConceptVector, *, device: str, dtype: str, force: bool) -> TextModel:
    """The model called `name`, or else the one that `vector` was found in; another one is refused unless forced."""
    name = name or vector.model.get("name")
    if not name:
        raise CovecError(f"the vector {vector.name!r} does not say which model it was found in; give --model")
    model = load(name, device=device, dtype=dtype)
    vector.check_model(model.describe(), force=force)
    return model
