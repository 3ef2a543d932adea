"""`covec demo`: the whole main job on the embedded model and the example concept that come with covec."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from covec.cli import _options as options
from covec.cli._loading import load
from covec.cli._output import working
from covec.cli._progress import bars

if TYPE_CHECKING:
    from covec.concepts.vector import ConceptVector
    from covec.models.text import TextModel

TEXTS = (
    "The soup was cold and the waiter never came back.",
    "What a wonderful evening, every song made us smile.",
    "The room was lovely, but the noise kept us awake all night.",
    "The train leaves at nine from the second platform.",
)
PROMPTS = ("I ordered the soup, and it was", "My first week in the new job was")
STRENGTHS = (-3.0, 0.0, 3.0)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and the vector.")] = Path("covec-demo"),
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
) -> None:
    """Find, prove, see and steer an example concept in the embedded model."""
    from covec.writing import whole_folder

    with whole_folder(out) as folder:
        import covec
        from covec.concepts.packaged import example_concept

        examples = example_concept()
        _say("1. Find", f"{len(examples)} labelled sentences, read in {options.DEFAULT_MODEL} at all its blocks.")
        with working():
            model = load(options.DEFAULT_MODEL, device=device, dtype=dtype)
            study = covec.study(model, examples, progress=bars())
            assert isinstance(study, covec.Study)  # of one concept
            study.write(folder)
        print(study)
        _see(model, study.best)
        _steer(model, study.best)
    _say("4. Read on", f"The report: {(out / 'report.html').absolute()}", f"The vector: {out / 'vectors.safetensors'}")
    _say(
        "",
        f"Your own: covec study FILE --out DIR; covec steer {out / 'vectors.safetensors'} --prompt TEXT --strength 3",
    )


def _see(model: TextModel, vector: ConceptVector) -> None:
    from covec.cli import _colour

    _say("2. See", "Score, probability and answer for sentences that it has not met (warm tokens have more of it):")
    with working():
        found = model.detect(vector, list(TEXTS))
    print(*map(_colour.line, found), sep="\n")


def _steer(model: TextModel, vector: ConceptVector) -> None:
    _say("3. Steer", "What the model writes with the concept turned down, as it is, and up:")
    cells = [(prompt, strength) for prompt in PROMPTS for strength in STRENGTHS]
    with working():
        edits = [vector.add(strength) if strength else () for _, strength in cells]
        texts = model.generate([prompt for prompt, _ in cells], edits=edits, max_new_tokens=30, progress=bars())
    for (prompt, strength), text in zip(cells, texts, strict=True):
        shown = textwrap.shorten(f"{prompt} {text}", 220, placeholder=" ...")
        print(textwrap.fill(shown, 100, initial_indent=f"{strength:+.1f}  ", subsequent_indent="      "))


def _say(title: str, *lines: str) -> None:
    print(*(["", title] if title else []), *lines, sep="\n", flush=True)
