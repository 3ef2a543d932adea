"""`covec capture`: what a model shows for a corpus, kept on disk."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from covec.cli import _options as options
from covec.cli._loading import load
from covec.cli._output import note, show, working
from covec.cli._progress import bars
from covec.errors import CovecError


def capture(
    file: Annotated[Path, typer.Argument(help=options.CORPUS)],
    out: Annotated[Path, typer.Option(help="Folder to write; an interrupted run goes on when run again.")],
    model: options.Model = options.DEFAULT_MODEL,
    sites: Annotated[str, typer.Option(help="Where to read, such as resid.* or resid.10:20,mlp.50%.")] = "resid.*",
    position: Annotated[
        str,
        typer.Option(help="What to read: content/none (every token but the first and special ones), last, mean, ..."),
    ] = "content/none",
    moments: Annotated[
        bool,
        typer.Option("--moments", help="Keep means and covariances alone: some megabytes, for a corpus of any size."),
    ] = False,
    rows_dtype: Annotated[
        str | None, typer.Option(help="Numbers the rows are kept in: float32 (the default), float16 or bfloat16.")
    ] = None,
    text_column: options.TextColumn = None,
    label_column: Annotated[str | None, typer.Option(help="Column of labels to keep beside the rows.")] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    batch_tokens: options.BatchTokens = 512,
    json: options.Json = False,
) -> None:
    """Keep what a model shows for a corpus: the rows of every text, or their moments."""
    if moments and rows_dtype is not None:
        raise CovecError("--rows-dtype is for rows, and with --moments none are kept; leave one of the two out")
    with working():
        import covec
        from covec.activations import corpus
        from covec.activations.store import write_store
        from covec.activations.tally import tally

        texts = corpus.Texts(file, text_column)
        total = len(texts)  # finds what is wrong with the file before any work
        labels = None if label_column is None else corpus.labels(file, label_column)
        loaded = load(model, device=device, dtype=dtype)
        given: dict[str, Any] = {"labels": labels, "batch_tokens": batch_tokens, "progress": bars()}
        start = time.perf_counter()
        if moments:
            found = tally(loaded, texts, sites, position, folder=out, **given)
            rows, read, resumed = next(iter(found.moments.values())).count(), found.read, found.resumed
            known = tuple(found.moments)
        else:
            store = write_store(loaded, texts, out, sites, position, dtype=rows_dtype or "float32", **given)
            rows, read, resumed, known = store.rows, store.read, store.resumed, store.sites
        seconds = time.perf_counter() - start
    document = {
        "path": str(out),
        "content": "moments" if moments else "rows",
        "model": loaded.name,
        "sites": [str(site) for site in known],
        "position": str(covec.Position.parse(position)),
        "dtype": "float64" if moments else store.dtype,
        "inputs": total,
        "tokens": read,
        "rows": rows,
        "bytes": sum(part.stat().st_size for part in out.iterdir() if part.is_file()),
        "resumed": resumed,
        "seconds": seconds,
    }
    if resumed:
        note(f"{resumed} of {total} texts were there from an earlier run")
    show(document, json, lambda: _told(document))


def _told(document: dict[str, Any]) -> str:
    """The document in two lines."""
    counts = " ".join(f"{document[name]:,} {name}," for name in ("inputs", "tokens", "rows"))
    sites = f"{len(document['sites'])} site{'' if len(document['sites']) == 1 else 's'}"
    kept = f"{document['content']} at {sites} in {document['dtype']}, {document['bytes'] / 2**20:,.1f} MiB"
    return f"{counts} {document['position']}: {kept}\nwritten to {document['path']}"
