"""Twenty thousand damaged files of concept vectors: each is read as the page says, or refused in one line.

A second reader (hostile/reader.py) says which. A case is named by its chunk and number, and is the same in every run.
"""

import json
import random
import struct
from copy import deepcopy

import numpy as np
import pytest
import torch

from concepts.hostile import reader
from concepts.hostile.cases import framed, packed, signed
from concepts.made import direction, part
from covec.concepts import files
from covec.concepts._plain import to_json
from covec.concepts.bank import load_bank
from covec.concepts.part import Part
from covec.concepts.vector import ConceptVector
from covec.errors import FileError
from covec.statistics.figure import Figure

CHUNKS, CASES = 20, 1000
ODD = [
    None, True, False, -1, 0, 1, 3, 0.5, 1.5, 1e308, -1e308, 5e-324, -0.0, 10**19, 10**20, 2**63, -(2**64), "", "x",
    "../x", "/etc/passwd", "a\x00b", "\ud800", "\u202e", "\U0001f600", "9" * 500, "F32", "F16", "BF16", "I64", "1.0",
    "2.0", "1.9", "resid.14", "resid.0", "resid.*", "head.1.1", "embed", "direction", "subspace", "prefix", "weights",
    "class-means", "native", "add", "ablate", "last", "mean", "content/none", "last+generated", "from-3", [], [[]], [0],
    [1, 8], [8], [0, 32], [32, 64], [0.5, 1.0], [2**62, 4], [None], ["resid.1"], {}, {"a": {}}, {"": None},
    {"value": 1}, {"value": 0.5, "low": 0.4, "high": 0.6, "null": None, "n": 9, "how": ""},
    {"value": 0.5, "low": 0.6, "high": 0.6, "null": None, "n": 9, "how": ""}, json.loads("[" * 40 + "]" * 40),
]  # fmt: skip
NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.0, 1e-45, 1e-20, 3e38, -3e38, float("inf"), -float("inf"), float("nan")]


def originals():
    """Valid files of every kind, small, so that a change anywhere is likely to matter."""
    figure = Figure(0.9, 0.8, 0.95, 0.5, 180, "DeLong")
    one = direction("one", width=3, figures={"auroc": figure}, tried=[{"site": "resid.1", "auroc": figure}], seed=3)
    plane = ConceptVector(
        "two", {"resid.1": part(2, 3, 1), "attn.3": part(3, 4, 2)}, kind="subspace", calibration=(2.0, 0.1)
    )
    native = ConceptVector("a/b", {"final": part(1, 2, 3, means=False)}, scale_from="native", metadata={"x": [1, {}]})
    prefix = ConceptVector("p", {"embed": Part.writing(torch.ones(2, 3))}, kind="prefix", operation="prepend")
    weights = ConceptVector("w", {"layers.0.q@in": Part.writing(torch.ones(1, 2))}, kind="weights", threshold=0.5)
    banks = [[one], [native], [one, plane], [prefix, weights], [plane, native, weights]]
    return [files._serialised(bank, {} if len(bank) == 1 else {"license": "CC0"}) for bank in banks]


ORIGINALS = originals()


def unpacked(data):
    """Header, document and data of a valid file."""
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    return header, json.loads(header["__metadata__"]["covec"]), data[end:]


def repacked(header, document, data, chance):
    """The file again, with a true checksum in nine of ten cases."""
    if isinstance(document, dict) and chance.random() < 0.9:
        document = {"sha256": ""} | document | {"sha256": ""}
    return framed({"__metadata__": {"covec": signed(document, data)}} | header, data)


def spots(node, path=()):
    """Paths to every value inside `node`."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*path, key)
        yield from spots(value, (*path, key))


def edit(node, chance, times=1):
    """Change values somewhere inside `node`: replace, remove, add, rename or swap."""
    for _ in range(times):
        paths = list(spots(node))
        if not paths:
            return node
        *above, key = chance.choice(paths)
        holder = node
        for step in above:
            holder = holder[step]
        match chance.randrange(6):
            case 0 | 1:
                holder[key] = deepcopy(chance.choice(ODD))
            case 2:
                del holder[key]
            case 3 if isinstance(holder, dict):
                holder[chance.choice(["x", "", "metadata", "seed", "kind", "parts", "0/resid.1/write"])] = deepcopy(
                    holder[key]
                )
            case 4 if isinstance(holder, list):
                holder.insert(chance.randrange(len(holder) + 1), deepcopy(chance.choice([holder[key], *ODD])))
            case _:
                other = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
                holder[key], holder[other] = holder[other], holder[key]
    return node


def damaged_bytes(data, chance):
    """Bytes changed, cut out, put in, copied or cut off: in the length, the header, the data, or anywhere."""
    damaged = bytearray(data)
    end = 8 + struct.unpack("<Q", data[:8])[0]
    low, high = chance.choice(((0, 8), (8, end), (end, len(data)), (0, len(data))))
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(low, max(low + 1, min(high, len(damaged))))
        match chance.randrange(6):
            case 0:
                damaged[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                damaged[at : at + 1] = bytes([damaged[at] ^ 1 << chance.randrange(8)]) if at < len(damaged) else b""
            case 2:
                del damaged[at : at + chance.randrange(1, 9)]
            case 3:
                damaged[at:at] = chance.choice((chance.randbytes(4), b"\x00" * 8, b'"', b"[[", b"NaN,", b"\xff\xfe"))
            case 4:
                other = chance.choice(ORIGINALS)
                start = chance.randrange(len(other))
                damaged[at : at + 16] = other[start : start + 16]
            case 5:
                del damaged[chance.randrange(len(damaged) + 1) :]
    return bytes(damaged)


def damaged_header_text(data, chance):
    """Characters changed in the header, whose length is told truly."""
    header, document, body = unpacked(data)
    text = json.dumps(document if chance.random() < 0.7 else {"__metadata__": {"covec": json.dumps(document)}} | header)
    for _ in range(chance.choice((1, 1, 3))):
        at = chance.randrange(len(text))
        new = chance.choice(
            ("", "", '"', ",", "{", "]", "1", "-", "e9", "\\u0000", "\\ud800", "\u2028", "NaN", " ", "0")
        )
        text = text[:at] + new + text[at + chance.randrange(3) :]
    if text.startswith('{"__metadata__'):
        return framed(text, body)
    del header["__metadata__"]
    return framed({"__metadata__": {"covec": text}} | header, body)


def damaged_document(data, chance):
    header, document, body = unpacked(data)
    del header["__metadata__"]
    return repacked(header, edit(document, chance, chance.choice((1, 1, 2))), body, chance)


def damaged_table(data, chance):
    header, document, body = unpacked(data)
    metadata = header.pop("__metadata__") if chance.random() < 0.8 else {}
    header = edit(header, chance, chance.choice((1, 1, 2)))
    if metadata:
        return repacked(header, document, body, chance)
    return framed(json.dumps(header), body)


def damaged_tensors(data, chance):
    """Numbers, shapes and names of tensors changed, everything else in order."""
    header, document, body = unpacked(data)
    del header["__metadata__"]
    tensors = {}
    for name, entry in header.items():
        numbers = np.frombuffer(body[slice(*entry["data_offsets"])], "<f4").tolist()
        tensors[name] = (entry["shape"], numbers)
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(list(tensors))
        shape, numbers = tensors[name]
        match chance.randrange(6):
            case 0 | 1 if numbers:
                numbers[chance.randrange(len(numbers))] = chance.choice([*NUMBERS, chance.gauss(0, 3)])
            case 2:
                tensors[name] = (shape, [-number for number in numbers])
            case 3:
                tensors[name] = (chance.choice([shape[::-1], [*shape, 1], shape[1:], [len(numbers)]]), numbers)
            case 4:
                tensors[name], other = tensors[chance.choice(list(tensors))], name
                if chance.random() < 0.5:
                    tensors.pop(other)
            case _:
                tensors[name.replace("write", "scale") if "write" in name else name + "x"] = tensors[name]
        if not tensors:
            break
    entries, made = packed(tensors)
    return repacked(entries, document, made, chance)


DAMAGE = (damaged_bytes, damaged_header_text, damaged_document, damaged_document, damaged_table, damaged_tensors)


def told(entry):
    """A concept as the page writes it, whatever the order of its keys."""
    return json.dumps(json.loads(to_json(entry)), sort_keys=True)


def same(bank, expected):
    """Whether covec's vectors have the fields, tensors and metadata that the second reader found."""
    concepts, more = expected
    pairs = list(zip(bank.values(), concepts, strict=True))
    return told(bank.metadata) == json.dumps(more, sort_keys=True) and all(
        json.loads(to_json(files._entry(vector))) == fields
        and {str(site): part_ for site, part_ in vector.parts.items()}.keys() == parts.keys()
        and all(
            {key: tensor.numpy().tobytes() for key, tensor in part_.tensors().items() if tensor.numel()}
            == {key: tensor.tobytes() for key, tensor in parts[str(site)].items()}
            for site, part_ in vector.parts.items()
        )
        for vector, (fields, parts) in pairs
    )


def outcome(path, data):
    """The vectors in `data`, or the line with which they are refused."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    try:
        return load_bank(path)
    except FileError as error:
        return str(error)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_damaged_file_is_read_as_the_page_says_or_refused_in_one_line(tmp_path, chunk):
    path = tmp_path / "v.safetensors"
    read = 0
    for number in range(CASES):
        chance = random.Random(f"{chunk} {number}")
        data = DAMAGE[number % len(DAMAGE)](chance.choice(ORIGINALS), chance)
        try:
            expected = reader.read(data)
        except reader.RefusedError as error:
            expected = error
        found = outcome(path, data)
        if isinstance(expected, Exception):
            assert isinstance(found, str), f"case {chunk} {number} was read; the page refuses it: {expected}"
            assert "\n" not in found
            assert len(found) < len(str(path)) + 350
        else:
            assert not isinstance(found, str), f"case {chunk} {number}: {found}"
            assert same(found, expected), f"case {chunk} {number} was read as something else"
            read += 1
    assert CASES / 50 < read < CASES / 2


def test_what_was_not_damaged_is_read(tmp_path):
    for data in ORIGINALS:
        assert same(outcome(tmp_path / "v.safetensors", data), reader.read(data))
