"""A second reader of the format, made from docs/format.md without covec's own, safetensors and torch.

What it refuses covec must refuse, and what it reads covec must read alike. Sites, positions and near misses of rounding
are the words and tolerances of covec: the page refers to them.
"""

import hashlib
import json
import math
import re
import struct
import unicodedata
from itertools import pairwise

import numpy as np

from covec.errors import CovecError
from covec.models.positions import Position
from covec.models.sites import Site

DEFAULTS = {
    "read_position": "last/none", "write_position": "content/none", "aggregator": "last", "method": "",
    "threshold": 0.0, "calibration": None, "seed": None, "model": {}, "data": {}, "versions": {}, "figures": {},
    "tried": [],
}  # fmt: skip
REQUIRED = ("name", "kind", "operation", "scale_from", "parts")
KINDS = {"direction", "subspace", "prefix", "weights"}
OPERATIONS = ["add", "ablate", "set-coordinate", "to-probability", "rotate", "clamp", "replace", "project", "prepend"]
SCALES = {"class-means", "native", "codes", "spread"}
READS = {"direction", "write", "intercept", "scale"}
MEANS = {"mean_positive", "mean_negative"}
FIGURE = {"value", "low", "high", "null", "n", "how"}


class RefusedError(Exception):
    """The page says that a reader refuses this file."""


def refuse_unless(holds, why=""):
    if not holds:
        raise RefusedError(why)


def strict(text):
    """JSON without what the page forbids: keys twice, NaN, infinities, numbers and integers without bound."""

    def object_(pairs):
        refuse_unless(len({key for key, _ in pairs}) == len(pairs), "key twice")
        return dict(pairs)

    def integer(digits):
        refuse_unless(len(digits.lstrip("-")) <= 20, "integer")
        return int(digits)

    def number(digits):
        refuse_unless(math.isfinite(float(digits)), "number")
        return float(digits)

    def constant(name):
        raise RefusedError(name)

    try:
        return json.loads(
            text, object_pairs_hook=object_, parse_int=integer, parse_float=number, parse_constant=constant
        )
    except (ValueError, RecursionError) as error:
        raise RefusedError("no JSON") from error


def is_number(value):
    return type(value) in (int, float)


def is_figure(value):
    return isinstance(value, dict) and value.keys() == FIGURE


def check_values(value, level=1):
    """Nesting, valid text and figures, anywhere in metadata."""
    refuse_unless(level <= 32, "deep")
    if is_figure(value):
        ends = [value["low"], value["value"], value["high"]]
        refuse_unless(all(end is None or is_number(end) for end in [*ends, value["null"]]), "figure")
        known = [end for end in ends if end is not None]
        refuse_unless(all(a <= b + 1e-6 * max(1, abs(a)) for a, b in pairwise(known)), "interval")
        refuse_unless(value["n"] is None or (type(value["n"]) is int and value["n"] >= 0), "n")
        refuse_unless(isinstance(value["how"], str), "how")
        check_values(value["how"])
    elif isinstance(value, dict):
        for key, item in value.items():
            check_values(key)
            check_values(item, level + 1)
    elif isinstance(value, list):
        for item in value:
            check_values(item, level + 1)
    elif isinstance(value, str):
        refuse_unless(not any(0xD800 <= ord(letter) < 0xE000 for letter in value), "Unicode")
    elif type(value) is int:
        refuse_unless(abs(value) < 10**20, "integer")


def read_container(data):
    """The document and the tensors."""
    refuse_unless(len(data) >= 10, "short")
    length = struct.unpack("<Q", data[:8])[0]
    refuse_unless(2 <= length <= min(len(data) - 8, 32 * 2**20), "length")
    text, body = data[8 : 8 + length], data[8 + length :]
    refuse_unless(sum(map(text.count, b",:[{")) <= 2**22, "marks")
    try:
        header = strict(text.decode())
    except UnicodeDecodeError as error:
        raise RefusedError("UTF-8") from error
    refuse_unless(isinstance(header, dict) and isinstance(header.get("__metadata__"), dict), "metadata")
    metadata = header.pop("__metadata__")
    refuse_unless(all(isinstance(value, str) for value in metadata.values()) and "covec" in metadata, "document")
    for value in (*metadata, *metadata.values(), *header):
        check_values(value)
    tensors, spans = {}, []
    for name, entry in header.items():
        refuse_unless(isinstance(entry, dict) and entry.keys() == {"dtype", "shape", "data_offsets"}, "entry")
        shape, offsets = entry["shape"], entry["data_offsets"]
        whole = [
            isinstance(value, list) and all(type(n) is int and n >= 0 for n in value) for value in (shape, offsets)
        ]
        refuse_unless(entry["dtype"] == "F32" and all(whole) and len(offsets) == 2, "entry")
        begin, end = offsets
        refuse_unless(4 * math.prod(shape) == end - begin and end <= len(body), "shape")
        spans.append((begin, end))
        tensors[name] = np.frombuffer(body[begin:end], "<f4").reshape(shape)
    ends = [0, *(end for _, end in sorted(spans))]
    refuse_unless([begin for begin, _ in sorted(spans)] == ends[:-1] and ends[-1] == len(body), "cover")
    document = strict(metadata["covec"])
    check_values(document)
    refuse_unless(isinstance(document, dict) and isinstance(document.get("sha256"), str), "checksum")
    unsigned = metadata["covec"].replace(f'"{document["sha256"]}"', '""', 1)
    refuse_unless(document["sha256"] == hashlib.sha256(unsigned.encode() + body).hexdigest(), "checksum")
    return document, tensors


def is_name(name):
    return (
        isinstance(name, str)
        and 1 <= len(name) <= 200
        and name == name.strip()
        and not any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in name)
        and not re.search("[\\\\\u202a-\u202e\u2066-\u2069]", name)
        and not {"", ".", ".."} & set(name.split("/"))
    )


def is_line(value):
    return isinstance(value, str) and len(value) <= 200 and value.isprintable()


def is_object(value):
    return isinstance(value, dict) and not is_figure(value)


def position(text, *, writes=False):
    refuse_unless(isinstance(text, str) and len(text) <= 100, "position")
    try:
        found = Position.parse(text)
    except CovecError as error:
        raise RefusedError("position") from error
    refuse_unless(not writes or found.pool == "none", "pool")
    return str(found)


def is_site(text):
    try:
        return isinstance(text, str) and 0 < len(text) <= 200 and str(Site.parse(text)) == text
    except CovecError:
        return False


def read_concept(entry):
    """The fields of a concept with those that are absent filled in."""
    refuse_unless(is_object(entry) and all(key in entry for key in REQUIRED) and "metadata" not in entry, "concept")
    found = DEFAULTS | entry
    refuse_unless(is_name(found["name"]), "name")
    for key, known in (("kind", KINDS), ("operation", OPERATIONS), ("scale_from", SCALES)):
        refuse_unless(isinstance(found[key], str) and found[key] in known, key)
    sites = found["parts"]
    refuse_unless(isinstance(sites, list) and sites and all(map(is_site, sites)), "parts")
    refuse_unless(len(set(sites)) == len(sites), "parts")
    found["read_position"] = position(found["read_position"])
    found["write_position"] = position(found["write_position"], writes=True)
    pair = found["calibration"]
    refuse_unless(is_line(found["aggregator"]) and is_line(found["method"]), "line")
    refuse_unless(is_number(found["threshold"]), "threshold")
    refuse_unless(pair is None or (isinstance(pair, list) and len(pair) == 2 and all(map(is_number, pair))), "pair")
    refuse_unless(found["seed"] is None or type(found["seed"]) is int, "seed")
    refuse_unless(all(is_object(found[key]) for key in ("model", "data", "versions", "figures")), "object")
    refuse_unless(isinstance(found["tried"], list) and all(map(is_object, found["tried"])), "tried")
    return found


def check_part(kind, scale_from, part):
    """What the page says of the tensors of one site."""
    refuse_unless(all(np.isfinite(tensor).all() for tensor in part.values()), "finite")
    write = part["write"]
    refuse_unless(write.ndim == 2 and write.size, "write")
    if kind in ("prefix", "weights"):
        refuse_unless(part.keys() == {"write"}, "reads")
        return
    refuse_unless(part.keys() - MEANS == READS and len(part.keys() & MEANS) != 1, "tensors")
    rank, width = write.shape
    shapes = {"direction": (rank, width), "intercept": (rank,), "scale": (rank,), **dict.fromkeys(MEANS, (width,))}
    refuse_unless(all(part[name].shape == shape for name, shape in shapes.items() if name in part), "shape")
    refuse_unless(rank <= width and (rank == 1 or kind == "subspace"), "rank")
    rows, shift, scale = (part[name].astype(float) for name in ("direction", "write", "scale"))
    refuse_unless(np.abs(rows @ rows.T - np.eye(rank)).max() <= 1e-4, "orthonormal")
    miss = np.abs((rows * shift).sum(1) - scale)
    refuse_unless((scale > 0).all() and (miss <= 1e-3 * scale + 1e-5 * np.linalg.norm(shift, axis=1)).all(), "scale")
    if scale_from == "class-means":
        refuse_unless(part.keys() >= MEANS, "means")
        gap = rows @ (part["mean_positive"].astype(float) - part["mean_negative"].astype(float))
        refuse_unless(kind == "subspace" or gap[0] > 0, "gap")


def read(data):
    """Fields and tensors of every concept, and what else the document holds; raises `RefusedError`."""
    document, tensors = read_container(bytes(data))
    version = document.get("schema")
    refuse_unless(isinstance(version, str) and re.fullmatch(r"0{0,3}1\.[0-9]{1,4}", version), "schema")
    entries = document.get("concepts")
    refuse_unless(isinstance(entries, list) and entries, "concepts")
    concepts = []
    for index, entry in enumerate(entries):
        found = read_concept(entry)
        parts = {}
        for site in found["parts"]:
            keys = {name: f"{index}/{site}/{name}" for name in (*READS, *MEANS)}
            parts[site] = {name: tensors.pop(key) for name, key in keys.items() if key in tensors}
            refuse_unless("write" in parts[site], "write")
            check_part(found["kind"], found["scale_from"], parts[site])
        concepts.append((found, parts))
    refuse_unless(not tensors, "tensor")
    refuse_unless(len({found["name"] for found, _ in concepts}) == len(concepts), "names")
    own = ("schema", "sha256", "concepts")
    return concepts, {key: value for key, value in document.items() if key not in own}
