"""Detection in corpora: streamed from one file to another, and taken up again where a run was interrupted.

Beside the output stands a folder of finished shards, `OUT.parts`, until all are there. Its ledger says what they were
made from; a run goes on only with the same vectors, model and corpus.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from covec.activations import corpus, shards
from covec.activations.identity import identity_at_rest
from covec.concepts.vector import ConceptVector
from covec.detect._detect import Detection, detect_tokens
from covec.detect._scores import Readers, Vectors, listed
from covec.errors import ExamplesError, FileError
from covec.models.batching import TOKEN_BUDGET
from covec.models.positions import Position, mask
from covec.models.text import TextModel
from covec.models.tokens import Input, Tokenized
from covec.progress import Progress, silent
from covec.writing import check_name, place_of_file, whole_file

if TYPE_CHECKING:
    import pyarrow as pa

SHARD_ROWS = 4096
SHARD_CHARACTERS = 1 << 20  # so that long texts do not fill the memory
_ENDING = ".parquet"
_OF = b"covec"  # what a shard keeps of its ledger


@dataclass(frozen=True)
class Corpus:
    """What was written: the file, the number of texts, and in how many of them each concept was found."""

    path: Path
    rows: int
    fires: dict[str, int]
    resumed: int  # texts that an interrupted run had done before


def detect_file(
    model: TextModel,
    vectors: Vectors,
    path: str | Path,
    out: str | Path,
    *,
    text_column: str | None = None,
    keep_text: bool = True,
    batch_tokens: int = TOKEN_BUDGET,
    force: bool = False,
    progress: Progress = silent,
) -> Corpus:
    """Look for concepts in every text of the corpus at `path` and write a Parquet file `out`.

    It has one row a text and concept, texts in the order of the corpus: `row` (from 0), `concept`, `text` (with
    `keep_text`), `score`, `probability`, `fires`, and the content token of the highest score: `token`, its characters
    `start` and `end`, `token_score`. The memory needed does not grow with the corpus. A run that is killed goes on
    where it was when it is started again; no row is repeated or lost.

    Parameters
    ----------
    path
        `.jsonl`, `.csv`, `.tsv`, `.parquet`, or `.txt` with one text a line.
    text_column
        Column of the texts; `text` or `messages` unless given.

    Raises
    ------
    CovecError
        Before any work: the corpus has a row that is no text, a vector does not fit the model, edits are in force,
        `out` cannot be written or was begun from something else. Later: a text is longer than the model's context, or
        the corpus changed meanwhile.
    """
    path, out, chosen = Path(path), Path(out), listed(vectors)
    readers = Readers.of(model, chosen, force=force)
    place_of_file(out)
    check_name(out)
    texts = corpus.Texts(path, text_column)
    total = len(texts)
    made_of = _identity(model, chosen, path, text_column, keep_text)
    own = shards.digest(made_of)
    with _parts(out, made_of) as parts:
        before = shards.finished(parts, _ENDING)
        resumed = done = before[-1].end if before else 0
        with progress(f"reading {total} texts", total) as bar:
            bar.advance(done)
            for places, some in _chunks(texts.placed(), done):
                tokens = model.tokenize(some, places=places)
                found = detect_tokens(model, chosen, readers, tokens, batch_tokens=batch_tokens)
                _write_shard(parts, found, done, tokens, len(chosen), keep_text, own)
                done += len(some)
                bar.advance(len(some))
        if corpus.digest(path) != made_of["corpus"]:
            raise ExamplesError(f"{path} changed while it was read: begin anew once it is whole")
        with whole_file(out) as draft:
            fires = _join(parts, draft, keep_text, own)
    shutil.rmtree(parts)
    return Corpus(out, total, {vector.name: fires.get(vector.name, 0) for vector in chosen}, resumed)


def _chunks(texts: Iterator[tuple[str, Input]], skip: int) -> Iterator[tuple[list[str], list[Input]]]:
    """Places and texts that a shard holds, those after the first `skip`."""
    places: list[str] = []
    chunk: list[Input] = []
    size = 0
    for place, text in islice(texts, skip, None):
        places.append(place)
        chunk.append(text)
        size += len(str(text))
        if len(chunk) == SHARD_ROWS or size >= SHARD_CHARACTERS:
            yield places, chunk
            places, chunk, size = [], [], 0
    if chunk:
        yield places, chunk


def _identity(
    model: TextModel, vectors: Sequence[ConceptVector], path: Path, column: str | None, keep_text: bool
) -> dict[str, Any]:
    """What the shards depend on, by the words that an error names it with."""
    made_of = hashlib.sha256()
    for vector in vectors:
        rule = [vector.name, vector.aggregator, vector.threshold, vector.calibration]
        made_of.update(json.dumps(rule).encode())
        for site, part in vector.parts.items():
            made_of.update(str(site).encode())
            for tensor in part.tensors().values():
                made_of.update(tensor.numpy().tobytes())
    return {
        "corpus": corpus.digest(path),
        "text column": column,
        "vectors": made_of.hexdigest(),
        **identity_at_rest(model),
        "choice of columns": keep_text,
    }


@contextmanager
def _parts(out: Path, identity: dict[str, Any]) -> Iterator[Path]:
    """The folder of shards for `out`, in this process's hands; removed where the corpus must be mended."""
    parts = out.with_name(out.name + ".parts")
    made = shards.missing(parts)
    try:
        with shards.in_hand(parts, identity, "another file"):
            yield parts
    except ExamplesError:  # once mended, the corpus is another one
        shards.remove(parts, made)
        raise


def _schema(keep_text: bool) -> pa.Schema:
    import pyarrow as pa

    fields = {
        "row": pa.int64(), "concept": pa.string(), "text": pa.string(), "score": pa.float64(),
        "probability": pa.float64(), "fires": pa.bool_(), "token": pa.string(), "start": pa.int64(), "end": pa.int64(),
        "token_score": pa.float64(),
    }  # fmt: skip
    return pa.schema([(name, kind) for name, kind in fields.items() if keep_text or name != "text"])


def _write_shard(
    parts: Path,
    found: Sequence[Detection],
    first: int,
    texts: Sequence[Tokenized],
    concepts: int,
    keep_text: bool,
    own: str,
) -> None:
    """Write what was found, with the digest of what it was made from."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = [mask(Position("content"), text.layout) for text in texts]
    rows = [_row(one, first + index // concepts, content[index // concepts]) for index, one in enumerate(found)]
    with whole_file(shards.place(parts, first, first + len(texts), _ENDING)) as draft:
        table = pa.Table.from_pylist(rows, schema=_schema(keep_text)).replace_schema_metadata({_OF: own})
        pq.write_table(table, draft, write_page_checksum=True)


def _row(detection: Detection, row: int, content: Bool[np.ndarray, "tokens"]) -> dict[str, Any]:
    scored = [token for token, own in zip(detection.tokens, content, strict=True) if own and token.score is not None]
    top = max(scored, key=lambda token: token.score or 0.0, default=None)
    return {
        "row": row,
        "concept": detection.concept,
        "text": detection.text,
        "score": detection.score,
        "probability": detection.probability,
        "fires": detection.fires,
        "token": top and top.token,
        "start": top and top.start,
        "end": top and top.end,
        "token_score": top and top.score,
    }


def _join(parts: Path, draft: Path, keep_text: bool, own: str) -> dict[str, int]:
    """All shards in one file, a row group each; counts where each concept fires. Others' shards are refused."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    fires: dict[str, int] = {}
    with pq.ParquetWriter(draft, _schema(keep_text)) as writer:
        for shard in shards.finished(parts, _ENDING):
            table = _read_shard(shard, own).replace_schema_metadata(None)
            writer.write_table(table)
            for entry in pc.value_counts(table.filter(table["fires"])["concept"]).to_pylist():
                fires[entry["values"]] = fires.get(entry["values"], 0) + entry["counts"]
    return fires


def _read_shard(shard: shards.Shard, own: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(shard.path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"{shard.path} is damaged: delete {shard.path.parent} and begin anew") from error
    rows = table["row"]
    places = (rows[0].as_py(), rows[-1].as_py() + 1)
    if (table.schema.metadata or {}).get(_OF) != own.encode() or places != (shard.first, shard.end):
        raise FileError(
            f"{shard.path} was made from something else than its name and folder say: delete {shard.path.parent} and "
            "begin anew"
        )
    return table
