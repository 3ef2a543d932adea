"""The file of concept vectors: safetensors with one JSON document; `docs/format.md` is its specification.

Whatever a file holds, reading it ends in vectors that keep every law of `ConceptVector`, or in one `FileError`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import safetensors
import safetensors.torch
from torch import Tensor

from covec.concepts import _fields as checked
from covec.concepts._plain import from_json, to_json
from covec.concepts.part import Part
from covec.concepts.vector import FIELDS, ConceptVector
from covec.errors import CovecError, FileError
from covec.models.sites import Site
from covec.reading import ordinary_file
from covec.writing import whole_file

SCHEMA = (1, 0)  # major, minor
KEY = "covec"  # the document's entry in the metadata of the safetensors header
_DOCUMENT = ("schema", "sha256", "concepts")
_UNSIGNED = '"sha256":""'
_OWN = tuple(name for name in FIELDS if name not in ("parts", "metadata"))  # fields kept under their own name
_REQUIRED = ("name", "kind", "operation", "scale_from", "parts")  # what the numbers mean is never guessed
_READS = ("direction", "write", "intercept", "scale")
_TENSORS = (*_READS, "mean_positive", "mean_negative")
_ENTRY = {"dtype", "shape", "data_offsets"}
_LONGEST_HEADER = 32 * 2**20  # bytes; a hundred concepts with all that was tried need less than ten million
_MARKS, _MOST_MARKS = (b",", b":", b"[", b"{"), 2**22  # what begins another value; ten million bytes have a million


def write(path: str | Path, vectors: Sequence[ConceptVector], metadata: Mapping[str, Any] | None = None) -> None:
    """Write `vectors` to `path`, whole or not at all; the same vectors always make the same bytes.

    Raises
    ------
    FileError
        The place cannot be written; what was there before is untouched.
    """
    data = _serialised(vectors, metadata or {})
    with whole_file(path) as draft:
        draft.write_bytes(data)


def read(path: str | Path) -> tuple[list[ConceptVector], dict[str, Any]]:
    """The vectors in a file, and what its document holds under keys that this version does not know.

    Raises
    ------
    FileError
        There is no such file, or it is not a whole, valid file of concept vectors of this major version.
    """
    with ordinary_file(path) as file:
        try:
            return _parsed(file)
        except (CovecError, ValueError, safetensors.SafetensorError) as error:
            reason = " ".join(str(error).split())[:300]
            raise FileError(f"{path} is no valid file of concept vectors: {reason}") from error


def _serialised(vectors: Sequence[ConceptVector], metadata: Mapping[str, Any]) -> bytes:
    tensors = {
        f"{index}/{site}/{name}": tensor.clone()  # safetensors refuses memory that vectors or sites share
        for index, vector in enumerate(vectors)
        for site, part in vector.parts.items()
        for name, tensor in part.tensors().items()
        if tensor.numel()
    }
    data = safetensors.torch.save(tensors)
    data = data[8 + int.from_bytes(data[:8], "little") :]
    own = {"schema": "{}.{}".format(*SCHEMA), "sha256": "", "concepts": [_entry(vector) for vector in vectors]}
    text = to_json(own | checked.document(metadata, "metadata") | own)  # its own keys first, and as they are
    # One entry only: safetensors writes several in an order that changes from run to run.
    signed = text.replace(_UNSIGNED, f'"sha256":"{_digest(text, data)}"', 1)
    whole = safetensors.torch.save(tensors, {KEY: signed})
    if reason := _too_much(whole[8 : len(whole) - len(data)]):
        raise FileError(f"the metadata of these vectors is {reason}: shorten `tried`")
    return whole


def _digest(text: str, data: bytes | memoryview) -> str:
    """The checksum of a document's text without its own checksum, and the numbers."""
    digest = hashlib.sha256(text.encode())
    digest.update(data)
    return digest.hexdigest()


def _entry(vector: ConceptVector) -> dict[str, Any]:
    own = {name: getattr(vector, name) for name in _OWN}
    own |= {"read_position": str(vector.read_position), "write_position": str(vector.write_position)}
    return own | {"parts": [str(site) for site in vector.parts]} | vector.metadata


def _parsed(file: BinaryIO) -> tuple[list[ConceptVector], dict[str, Any]]:
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= size - 8:
        raise FileError(
            "it is empty, cut off or not a safetensors file, such as vectors.safetensors that a study writes"
        )
    text = file.read(min(length, _LONGEST_HEADER + 1))
    if reason := _too_much(text):
        raise FileError(f"its header is {reason}")
    header = from_json(text.decode(), figures=False)
    said, document = _document(header)
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.keys() != _ENTRY or entry["dtype"] != "F32":
            raise FileError(f"tensor {name[:100]!r} is not float32, or its entry is not {', '.join(sorted(_ENTRY))}")
    _check_offsets([entry["data_offsets"] for entry in header.values()], size - 8 - length)
    file.seek(0)
    whole = file.read()
    digest = document.get("sha256")
    unsigned = said.replace(f'"{digest}"', '""', 1)
    if digest != _digest(unsigned, memoryview(whole)[8 + length :]):
        raise FileError("what it holds does not match its checksum: it is damaged")
    tensors = safetensors.torch.load(whole)
    vectors = [_vector(index, entry, tensors) for index, entry in enumerate(document["concepts"])]
    if len({vector.name for vector in vectors}) < len(vectors):
        raise FileError("two of its concepts have one name")
    if tensors:
        raise FileError(f"tensor {min(tensors)[:100]!r} belongs to no part")
    unknown = {key: value for key, value in document.items() if key not in _DOCUMENT}
    return vectors, checked.document(unknown, "metadata")


def _document(header: Any) -> tuple[str, dict[str, Any]]:
    """The covec document, as text and as values, taken out of a safetensors header; its version is checked first."""
    found = header.pop("__metadata__", None) if isinstance(header, dict) else None
    metadata = found if isinstance(found, dict) else {}
    if not all(isinstance(value, str) for value in metadata.values()) or KEY not in metadata:
        raise FileError(f"its metadata has no {KEY!r} entry, so it holds other tensors")
    document = from_json(metadata[KEY])
    schema = document.get("schema") if isinstance(document, dict) else None
    version = re.fullmatch(r"(\d{1,4})\.\d{1,4}", schema, re.ASCII) if isinstance(schema, str) else None
    if version is None:
        raise FileError("its document names no schema")
    if int(version[1]) != SCHEMA[0]:
        raise FileError(f"its schema is {version[0]} and this covec reads {SCHEMA[0]}.x: use another version of covec")
    if not isinstance(document.get("concepts"), list) or not document["concepts"]:
        raise FileError("it holds no concepts")
    return metadata[KEY], document


def _vector(index: int, entry: Any, tensors: dict[str, Tensor]) -> ConceptVector:
    """The vector described by `entry`; takes its tensors out of `tensors`."""
    if not isinstance(entry, dict) or not isinstance(entry.get("parts"), list):
        raise FileError(f"concept {index} is not described")
    if missing := [name for name in _REQUIRED if name not in entry]:
        raise FileError(f"concept {index} lacks {missing[0]!r}")
    parts: dict[Site, Part] = {}
    for text in entry["parts"]:
        site = checked.site(text)
        if site in parts:
            raise FileError(f"concept {index} has two parts at {site}")
        keys = {name: f"{index}/{site}/{name}" for name in _TENSORS}
        found = {name: tensors.pop(key) for name, key in keys.items() if key in tensors}
        if found.keys() == {"write"}:
            parts[site] = Part.writing(found["write"])
        elif found.keys() >= set(_READS):
            parts[site] = Part(**found)
        else:
            raise FileError(f"concept {index} lacks tensors at {site}")
    known = {name: entry[name] for name in _OWN if name in entry}
    unknown = {key: value for key, value in entry.items() if key not in (*_OWN, "parts")}
    return ConceptVector(parts=parts, **known, metadata=unknown)


def _too_much(header: bytes) -> str:
    """What is too much in a header, in words: a file of megabytes must not become gigabytes of objects."""
    if len(header) > _LONGEST_HEADER:
        return f"longer than {_LONGEST_HEADER >> 20} MiB"
    return f"of more than {_MOST_MARKS} of the marks , : [ {{" if sum(map(header.count, _MARKS)) > _MOST_MARKS else ""


def _check_offsets(offsets: Sequence[Any], size: int) -> None:
    """Refuse tensors that overlap, leave a hole, or do not end where the data end, before any of them is read."""
    if not all(isinstance(pair, list) and [type(end) for end in pair] == [int, int] for pair in offsets):
        raise FileError("the data_offsets of a tensor are not two whole numbers")
    end = 0
    for begin, after in sorted(offsets):
        if begin != end or after < begin:
            raise FileError(f"its tensors overlap or leave a hole at byte {min(begin, end)} of the data")
        end = after
    if end != size:
        raise FileError(f"its tensors cover {end} bytes of {size}: it is cut off, or has something added")
