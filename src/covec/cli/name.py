"""`covec name`: what vectors stand for, in words."""

from __future__ import annotations

from typing import Annotated

import typer

from covec import registry
from covec.cli import _options as options
from covec.cli._loading import load_model
from covec.cli._output import show, visible, working
from covec.cli._progress import bars
from covec.errors import CovecError


def name(
    vector: options.Vector,
    model: options.VectorModel = None,
    by: Annotated[
        list[str] | None, typer.Option(help="A way to name, by its name; repeatable. Left out, all there are.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Words and concepts on either side.")] = 10,
    concept: options.Concept = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Say in words what vectors stand for: what they turn up and down in the model."""
    if strange := [way for way in by or () if way not in registry.names("name")]:
        raise CovecError(f"no way to name called {strange[0]!r}; there are {', '.join(registry.names('name'))}")
    with working():
        import covec
        from covec.name import describe

        chosen = [covec.load_vector(vector, concept)] if concept else [*covec.load_bank(vector).values()]
        loaded = load_model(model, chosen[0], device=device, dtype=dtype, force=force)
        found = describe(loaded, chosen, by or (), count=count, force=force, progress=bars())
    document = {"model": loaded.name, "names": [names.to_json() for names in found]}
    show(document, json, lambda: "\n\n".join(visible(str(names)) for names in found))
