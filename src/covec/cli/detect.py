"""`covec detect`: where texts have a concept, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from covec.cli import _options as options
from covec.cli._loading import load_model
from covec.cli._output import show, visible, working
from covec.cli._progress import bars
from covec.errors import CovecError
from covec.writing import check_apart

if TYPE_CHECKING:
    from covec.concepts.vector import ConceptVector
    from covec.detect.activation_reasoning import ActivationReasoning
    from covec.models.text import TextModel


def detect(
    vector: options.Vector,
    model: options.VectorModel = None,
    text: Annotated[list[str] | None, typer.Option(help="A text to look at; repeatable.")] = None,
    file: Annotated[Path | None, typer.Option(help=options.CORPUS)] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the corpus' scores to this Parquet file; an interrupted run goes on when run again."),
    ] = None,
    text_column: options.TextColumn = None,
    rules: Annotated[
        Path | None,
        typer.Option(help="A text file of rules over the vectors' concepts, such as: bridge and not city -> rural"),
    ] = None,
    concept: options.Concept = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    batch_tokens: options.BatchTokens = 512,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Score texts for concepts: the text, its probability, and every token."""
    if bool(text) == (file is not None):
        raise CovecError("give texts with --text or a corpus with --file, one of the two")
    if out is not None and file is None:
        raise CovecError("--out is for a corpus; give it with --file, or leave --out out")
    if text_column is not None and file is None:
        raise CovecError("--text-column is for a corpus; give it with --file, or leave it out")
    if rules is not None and out is not None:
        raise CovecError("--rules are for texts that are printed; leave --out out, or the rules")
    if not all(given.strip() for given in text or ()):
        raise CovecError("a text is empty; write something after --text")
    if out is not None and file is not None:
        check_apart(out, file, vector)
        if out.suffix.lower() not in ("", ".parquet", ".pq"):
            raise CovecError(f"--out is written as Parquet, and not as {out.suffix}: name it {out.stem}.parquet")
    with working():
        import covec
        from covec.activations.corpus import placed_texts
        from covec.cli import _colour

        # What is wrong with a corpus that is printed is told before a model is loaded.
        placed = list(placed_texts(file, text_column)) if file is not None and out is None else []
        chosen = [covec.load_vector(vector, concept)] if concept else [*covec.load_bank(vector).values()]
        reasoner = None if rules is None else _reasoner(rules, chosen)
        loaded = load_model(model, chosen[0], device=device, dtype=dtype, force=force)
        settings: dict[str, Any] = {"batch_tokens": batch_tokens, "force": force, "progress": bars()}
        if file is not None and out is not None:
            document, lines = _corpus(loaded, chosen, file, out, text_column, settings)
        else:
            places, inputs = [place for place, _ in placed] or None, [read for _, read in placed] or text
            found = loaded.detect(chosen, inputs, places=places, **settings)
            reasoned = [] if reasoner is None else reasoner.follow(found, chosen)
            document = {**found.to_json(), "reasoned": [one.to_json() for one in reasoned]}
            proofs = [[visible(str(proof)) for proof in one.derived] for one in reasoned]
            lines = _below([_colour.line(one) for one in found], proofs)
    show(document, json, lambda: "\n".join(lines))


def _reasoner(rules: Path, vectors: list[ConceptVector]) -> ActivationReasoning:
    """What follows from the concepts of `vectors`; wrong rules are refused before a model is loaded."""
    from covec.detect.activation_reasoning import ActivationReasoning

    reasoner = ActivationReasoning.read(rules)
    reasoner.check(vectors)
    return reasoner


def _below(lines: list[str], proofs: list[list[str]]) -> Iterator[str]:
    """The lines of every text, each text's proofs below its own."""
    if not proofs:
        return iter(lines)
    each = len(lines) // len(proofs)
    return chain.from_iterable((*lines[row * each : (row + 1) * each], *proof) for row, proof in enumerate(proofs))


def _corpus(
    model: TextModel, vectors: list[ConceptVector], file: Path, out: Path, column: str | None, settings: dict[str, Any]
) -> tuple[dict[str, Any], Iterator[str]]:
    """The document of a corpus whose scores were written to `out`, and the lines that show it."""
    from covec.detect import detect_file

    corpus = detect_file(model, vectors, file, out, text_column=column, **settings)
    document = {"path": str(out), "rows": corpus.rows, "fires": corpus.fires, "resumed": corpus.resumed}
    lines = [f"{name} fires in {count} of {corpus.rows} texts" for name, count in corpus.fires.items()]
    return document, iter([*lines, f"written to {out}"])
