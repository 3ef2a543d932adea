"""`covec steer`: text written with concepts turned up or down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from covec.cli import _options as options
from covec.cli._loading import load_model
from covec.cli._output import note, show, visible, working
from covec.cli._progress import bars
from covec.errors import CovecError

if TYPE_CHECKING:
    from covec.concepts.vector import ConceptVector
    from covec.models.text import TextModel

AUTO = {"auto": 1, "-auto": -1}


def steer(
    vector: options.Vector,
    prompt: Annotated[
        list[str] | None, typer.Option(help="Text to continue; give it several times for several.")
    ] = None,
    model: options.VectorModel = None,
    strength: Annotated[
        list[str] | None,
        typer.Option(
            help="In units of the concept: 1 is the natural difference; negative turns it down. Repeatable. `auto` "
            "(or `-auto`) takes the largest effect within the budget of damage, and shows the curve."
        ),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE[:CONCEPT]@STRENGTH", help="A further vector to add at the same time. Repeatable."),
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="First set the concept to neutral; --strength (then 0) adds to that.")
    ] = False,
    position: Annotated[
        str | None,
        typer.Option(help="Tokens to edit, such as generated or last+generated; left out, what the vector says."),
    ] = None,
    concept: options.Concept = None,
    max_kl: Annotated[
        float, typer.Option(help="Budget of `auto`: KL a token on neutral text, in nats from the unsteered model.")
    ] = 0.3,
    max_perplexity: Annotated[
        float, typer.Option(help="Budget of `auto`: perplexity of the text, as a multiple of the unsteered one.")
    ] = 2.0,
    bake: Annotated[
        Path | None,
        typer.Option(help="Write the edits of one strength into a copy of the weights: a folder for transformers."),
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Prompts are a user's turn in a chat.")] = False,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Length of the text in tokens.")] = 40,
    sample: Annotated[bool, typer.Option("--sample", help="Draw tokens instead of taking the likeliest.")] = False,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    batch_tokens: options.BatchTokens = 4096,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Continue prompts with concepts turned up or down, find how strong to steer, or bake an edit into the weights."""
    prompts = prompt or []
    if not prompts and bake is None:
        raise CovecError("there is nothing to continue: give --prompt TEXT, or --bake FOLDER to write a model")
    if not all(text.strip() for text in prompts):
        raise CovecError("a prompt is empty; write some text after --prompt")
    strengths = [_strength(one) for one in strength] if strength else [0.0 if ablate else 1.0]
    if bake is not None and len(strengths) > 1:
        raise CovecError(f"--bake writes one model, and there are {len(strengths)} strengths: give one")
    with working():
        import covec

        others = [_also(one) for one in also or ()]
        chosen = covec.load_vector(vector, concept)
        loaded = load_model(model, chosen, device=device, dtype=dtype, force=force)
        for other, _ in others:
            other.check_model(loaded.describe(), force=force)
        where = position or ("all" if bake is not None else None)  # weights act on every token
        plan = _Plan(chosen, others, ablate, where)
        _warn(plan)
        curve = None
        if any(isinstance(one, str) for one in strengths):
            curve = _auto(loaded, plan, strengths, (max_kl, max_perplexity), force)
            note(str(curve))
            strengths = [curve.strength if isinstance(one, str) else one for one in strengths]
        made = [plan.edits(float(one)) for one in strengths]
        if bake is not None:
            from covec.edits.bake import bake as written_into_weights

            written_into_weights(loaded, made[0], bake, force=force)
            note(f"model: {bake} (edits act on every token)")
        options = {"do_sample": sample, "seed": seed, "force": force, "batch_tokens": batch_tokens}
        texts = _written(loaded, prompts, made, chat, max_new_tokens=max_new_tokens, **options)
    cells = [(text, float(size)) for text in prompts for size in strengths]
    results = [
        {"prompt": text, "strength": size, "text": written} for (text, size), written in zip(cells, texts, strict=True)
    ]
    document = {
        "concept": chosen.name,
        "model": loaded.name,
        "ablate": ablate,
        "also": [{"concept": other.name, "strength": size} for other, size in others],
        "auto": None if curve is None else curve.to_json(),
        "baked": None if bake is None else str(bake),
        "results": results,
    }
    show(document, json, lambda: _told(results))


def _written(
    model: TextModel, prompts: Sequence[str], edits: Sequence[Any], chat: bool, **options: Any
) -> Sequence[str]:
    """The continuations, prompts outer and edits inner."""
    inputs: list[Any] = [[{"role": "user", "content": text}] if chat else text for text in prompts]
    rows = [(text, made) for text in inputs for made in edits]
    if not rows:
        return []
    texts: Sequence[str] = model.generate(
        [text for text, _ in rows], edits=[made for _, made in rows], progress=bars(), **options
    )
    return texts


@dataclass(frozen=True)
class _Plan:
    """What acts together, in this order: the ablation, the vector, and every further one as it was given."""

    vector: ConceptVector
    others: Sequence[tuple[ConceptVector, float]]
    ablate: bool
    position: str | None

    def edits(self, strength: float) -> tuple[Any, ...]:
        """The edits of one strength."""
        neutral = self.vector.ablate(position=self.position) if self.ablate else ()
        own = self.vector.add(strength, position=self.position) if strength else ()
        return (*neutral, *own, *(edit for one, size in self.others for edit in one.add(size, position=self.position)))


def _auto(
    model: TextModel, plan: _Plan, strengths: Sequence[float | str], budget: tuple[float, float], force: bool
) -> Any:
    """The curve of strengths, with everything else in force."""
    from covec.steer._strength import Budget, reading
    from covec.steer._strength import strength as find

    if plan.ablate:
        raise CovecError("--ablate sets the concept to neutral, and --strength auto looks for more of it: give one")
    if len(strengths) > 1:
        raise CovecError("--strength auto finds one strength: give it alone")
    return find(
        model, plan.edits, budget=Budget(*budget), effect=reading(model, [plan.vector], force=force),
        towards=AUTO[str(strengths[0])], force=force, progress=bars(),
    )  # fmt: skip


def _warn(plan: _Plan) -> None:
    """Tell where the order of edits matters: additions may bring back what was taken out before them."""
    shared = [(one.name, site) for one, _ in plan.others for site in one.sites if site in plan.vector.sites]
    if plan.ablate and shared:
        name, site = shared[0]
        note(
            f"warning: at {site} --ablate acts first and {name} is added after it, which may bring the concept back; "
            "the order is --ablate, --strength, then every --also"
        )


def _strength(text: str) -> float | str:
    if text in AUTO:
        return text
    try:
        value = float(text)
    except ValueError:
        raise CovecError(f"--strength cannot be {text!r}: give a number, or auto") from None
    if not math.isfinite(value):
        raise CovecError(f"a steering strength must be a finite number, not {text}")
    return value


def _also(text: str) -> tuple[ConceptVector, float]:
    """A further vector and its strength: FILE[:CONCEPT]@STRENGTH."""
    import covec

    name, _, size = text.rpartition("@")
    try:
        value = float(size)
    except ValueError:
        value = math.nan
    if not name or not math.isfinite(value):
        raise CovecError(f"--also cannot be {text!r}: write FILE@STRENGTH or FILE:CONCEPT@STRENGTH, such as b.st@-2")
    file, _, concept = (name, "", "") if Path(name).exists() else name.rpartition(":")
    return covec.load_vector(Path(file or name), concept or None if file else None), value


def _told(results: Sequence[dict[str, Any]]) -> str:
    return "\n\n".join(f"{row['prompt']!r} at {row['strength']:+g}:\n{visible(row['text'])}" for row in results)
