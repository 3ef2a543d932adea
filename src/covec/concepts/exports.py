"""Concept vectors as files for other tools.

llama.cpp adds the tensor `direction.k` of a control vector, times the scale given on its command line, to the output of
its block k (blocks from 0), after the block's residual sum: the site `resid.k`. It never steers block 0 and refuses a
file that names it. See docs/format.md.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from covec.concepts.vector import ConceptVector
from covec.errors import CovecError
from covec.models.sites import Site
from covec.writing import whole_file


def export(vector: ConceptVector, format: str, path: str | Path) -> None:
    """Write `vector` for another tool, whole or not at all.

    Parameters
    ----------
    format
        `gguf`: a llama.cpp control vector whose scale 1 is strength 1 here. `npy`: the shift of strength 1.0, `write`
        [d], or [r, d] for several rows.

    Raises
    ------
    CovecError
        The format is not known, or cannot hold this vector.
    FileError
        The place cannot be written; what was there before is untouched.
    """
    if format not in _WRITERS:
        raise CovecError(f"no export format {format!r}; known: {', '.join(_WRITERS)}")
    prepare, write = _WRITERS[format]
    content = prepare(vector)
    with whole_file(path) as draft:
        write(draft, vector, content)


def _shift(vector: ConceptVector) -> np.ndarray[Any, Any]:
    if len(vector.parts) > 1:
        raise CovecError(f"npy holds one site and {vector.name!r} has {len(vector.parts)}: choose one with .at(site)")
    (part,) = vector.parts.values()
    return part.write.numpy() if part.rank > 1 else part.write[0].numpy()


def _write_npy(draft: Path, vector: ConceptVector, content: np.ndarray[Any, Any]) -> None:
    whole = io.BytesIO()  # into a file NumPy writes by a way that does not notice a full disk
    np.save(whole, content, allow_pickle=False)
    draft.write_bytes(whole.getbuffer())


def _control_vector(vector: ConceptVector) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a control vector, by name; what llama.cpp cannot do is refused."""
    if (vector.kind, vector.operation) != ("direction", "add"):
        raise CovecError(f"gguf holds directions to add, and {vector.name!r} is a {vector.kind} to {vector.operation}")
    if odd := [site for site in vector.sites if site.kind != "resid"]:
        raise CovecError(f"llama.cpp steers the residual stream after a block (resid.k) only, not {odd[0]}")
    if Site("resid", 0) in vector.parts:
        raise CovecError(
            f"llama.cpp never steers block 0, and {vector.name!r} has a part at resid.0: choose a later site"
        )
    return {f"direction.{site.block}": part.write[0].numpy() for site, part in sorted(vector.parts.items())}


def _write_gguf(draft: Path, vector: ConceptVector, content: dict[str, np.ndarray[Any, Any]]) -> None:
    from gguf import GGUFReader, GGUFWriter

    writer = GGUFWriter(draft, "controlvector")
    writer.add_string("general.name", vector.name)
    writer.add_string("controlvector.model_hint", str(vector.model.get("model_type") or "unknown"))
    writer.add_uint32("controlvector.layer_count", len(content))
    for name, tensor in content.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    try:
        written = {tensor.name: tensor.data for tensor in GGUFReader(draft).tensors}
    except (ValueError, IndexError):  # it is cut off
        written = {}
    if not all(np.array_equal(tensor, written.get(name, ())) for name, tensor in content.items()):
        # The library hands tensors to NumPy, which does not notice a full disk.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


_WRITERS: dict[str, tuple[Callable[[ConceptVector], Any], Callable[[Path, ConceptVector, Any], None]]] = {
    "gguf": (_control_vector, _write_gguf),
    "npy": (_shift, _write_npy),
}
