"""`covec steer`: text written with a concept turned up or down."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from covec.cli import _options as options
from covec.cli._loading import load_model
from covec.cli._output import show, visible, working
from covec.cli._progress import bars
from covec.errors import CovecError


def steer(
    vector: options.Vector,
    prompt: Annotated[list[str], typer.Option(help="Text to continue; give it several times for several.")],
    model: options.VectorModel = None,
    strength: Annotated[
        list[float] | None,
        typer.Option(help="In units of the concept: 1 is the natural difference; negative turns it down. Repeatable."),
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="First set the concept to neutral; --strength (then 0) adds to that.")
    ] = False,
    position: Annotated[
        str | None,
        typer.Option(help="Tokens to edit, such as generated or last+generated; left out, what the vector says."),
    ] = None,
    concept: options.Concept = None,
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
    """Continue prompts with a concept turned up or down."""
    with working():
        import covec

        chosen = covec.load_vector(vector, concept)
        if not all(text.strip() for text in prompt):
            raise CovecError("a prompt is empty; write some text after --prompt")
        strengths = strength if strength else [0.0 if ablate else 1.0]
        loaded = load_model(model, chosen, device=device, dtype=dtype, force=force)
        cells = [(text, value) for text in prompt for value in strengths]
        inputs: list[Any] = [[{"role": "user", "content": text}] if chat else text for text, _ in cells]
        neutral = chosen.ablate(position=position) if ablate else ()
        texts = loaded.generate(
            inputs,
            edits=[[neutral, chosen.add(value, position=position) if value else ()] for _, value in cells],
            max_new_tokens=max_new_tokens,
            do_sample=sample,
            seed=seed,
            force=force,
            batch_tokens=batch_tokens,
            progress=bars(),
        )
    results = [
        {"prompt": text, "strength": value, "text": written}
        for (text, value), written in zip(cells, texts, strict=True)
    ]
    show(
        {"concept": chosen.name, "model": loaded.name, "ablate": ablate, "results": results},
        json,
        lambda: "\n\n".join(f"{row['prompt']!r} at {row['strength']:+g}:\n{visible(row['text'])}" for row in results),
    )
