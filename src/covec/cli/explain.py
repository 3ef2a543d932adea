"""`covec explain`: what a model's answer rests on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from covec import registry
from covec.cli import _options as options
from covec.cli._loading import load
from covec.cli._output import show, visible, working
from covec.cli._progress import bars
from covec.errors import CovecError


def explain(
    text: Annotated[list[str], typer.Option(help="A text whose continuation is explained; repeatable.")],
    word: Annotated[list[str], typer.Option(help="A word that may come next: what makes it likely? Repeatable.")],
    against: Annotated[
        list[str] | None, typer.Option(help="A word that may come instead, which counts against; repeatable.")
    ] = None,
    model: options.Model = options.DEFAULT_MODEL,
    by: Annotated[str, typer.Option(help="The way to explain, by its name.")] = "pax",
    position: Annotated[
        str | None, typer.Option(help="The tokens that are looked at, such as from-8; left out, all of the content.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=2, help="More rounds make intervals shorter; left out, what is usual.")
    ] = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    json: options.Json = False,
) -> None:
    """Say what a model's next word rests on: a figure a token, and a figure a place."""
    if by not in registry.names("explain"):
        raise CovecError(f"no way to explain called {by!r}; there are {', '.join(registry.names('explain'))}")
    if not all(given.strip() for given in text):
        raise CovecError("a text is empty; write something after --text")
    if both := sorted(set(word).intersection(against or ())):
        raise CovecError(f"{both[0]!r} counts for and against itself; give it with --word or --against, one of the two")
    with working():
        from covec.explain import explain as explained

        settings: dict[str, Any] = {"position": position, "rounds": rounds, "seed": seed}
        given = {name: value for name, value in settings.items() if value is not None}
        explainer = registry.get("explain", by)(**given)
        loaded = load(model, device=device, dtype=dtype)
        weights = dict.fromkeys(word, 1.0) | dict.fromkeys(against or (), -1.0)
        with bars()(f"explaining {len(text)} texts"):
            found = explained(loaded, text, weights, explainer=explainer)
        assert isinstance(found, list)
    document = {"model": loaded.name, "by": by, "target": weights, "explanations": [one.to_json() for one in found]}
    show(document, json, lambda: "\n\n".join(visible(str(one)) for one in found))
