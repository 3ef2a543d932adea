"""Files that no reader may trust, each with words that its refusal must hold.

They are built from bytes alone, without covec or the safetensors library, so this is also a second writer of the format
after docs/format.md: `GOOD` is a file that must be read. Writing the cases to a folder: `python cases.py FOLDER`.
"""

import bz2
import gzip
import hashlib
import io
import json
import struct
import sys
import zipfile
from pathlib import Path

SITE = "resid.3"
CONCEPT = {"name": "joy", "kind": "direction", "operation": "add", "scale_from": "class-means", "parts": [SITE]}
TENSORS = {
    "direction": ([1, 2], [0.0, 1.0]),
    "write": ([1, 2], [3.0, 2.0]),
    "intercept": ([1], [-1.0]),
    "scale": ([1], [2.0]),
    "mean_positive": ([2], [3.0, 2.0]),
    "mean_negative": ([2], [0.0, 0.0]),
}


def named(tensors, site=SITE, index=0):
    return {f"{index}/{site}/{name}": value for name, value in tensors.items()}


def packed(tensors):
    """Header entries and data of float32 `tensors`: name -> (shape, numbers)."""
    entries, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        more = struct.pack(f"<{len(numbers)}f", *numbers)
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    return entries, data


def framed(header, data=b""):
    """A safetensors file with `header` (text, bytes or a value to write as JSON) before `data`."""
    header = header if isinstance(header, str | bytes) else json.dumps(header)
    header = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(header)) + header + data


def document(data, concepts=(CONCEPT,), **changes):
    """The text of a document with its checksum, unless `changes` give another."""
    whole = {"schema": "1.0", "sha256": "", "concepts": list(concepts)} | changes
    return signed({key: value for key, value in whole.items() if value is not None}, data)


def signed(whole, data):
    """`whole` as text; an empty checksum is filled in."""
    text = json.dumps(whole)
    digest = hashlib.sha256(text.encode() + data).hexdigest()
    return text.replace('"sha256": ""', f'"sha256": "{digest}"', 1)


def built(concepts=(CONCEPT,), tensors=None, data=None, entries=None, metadata=None, **changes):
    """The good file with changes: to the concepts, the tensors, the data, the header's entries or the document."""
    made, made_data = packed(named(TENSORS) if tensors is None else tensors)
    data = made_data if data is None else data
    text = document(data, concepts, **changes)
    header = {"__metadata__": {"covec": text} if metadata is None else metadata} | made | (entries or {})
    return framed(header, data)


def concept(**changes):
    """The good file with one concept changed."""
    return built([{key: value for key, value in (CONCEPT | changes).items() if value is not ...}])


def numbers(**changes):
    """The good file with some tensors changed."""
    kept = {name: value for name, value in (TENSORS | changes).items() if value is not ...}
    return built(tensors=named(kept))


def text(document_text):
    """A file whose document is this text."""
    entries, data = packed(named(TENSORS))
    return framed({"__metadata__": {"covec": document_text}} | entries, data)


def edited(old, new):
    """The good file with something replaced in the text of its header."""
    length = struct.unpack("<Q", GOOD[:8])[0]
    header = GOOD[8 : 8 + length].decode()
    assert old in header
    return framed(header.replace(old, new, 1), GOOD[8 + length :])


def tall(rows):
    """Tensors of one column, whose product of all pairs of rows would fill any memory."""
    ones = [1.0] * rows
    return {
        name: ([rows] + [1] * matrix, ones)
        for name, matrix in {"direction": 1, "write": 1, "intercept": 0, "scale": 0}.items()
    }


def zipped(files):
    """A zip archive, as torch.save and numpy.savez make them."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return made.getvalue()


def bomb(item, count=2**22):
    """A file whose document repeats a few bytes into millions of objects."""
    return text('{"schema": "1.0", "x": [' + item * count + "0]}")


GOOD = built()
PICKLE = b"\x80\x04\x95\x1a" + bytes(7) + b"\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."
FIGURE = {"value": 0.5, "low": 0.4, "high": 0.6, "null": None, "n": 9, "how": ""}
SECOND = f'"0/{SITE}/write": {{"dtype": "F32", "shape": [1, 2], "data_offsets": [8, 16]}}'
LM_HEAD = {"lm_head": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
LAST = '"data_offsets": [32, 40]'

CASES = {
    # Not a safetensors file at all
    "empty": (b"", "not a safetensors"),
    "seven-bytes": (GOOD[:7], "not a safetensors"),
    "no-header": (struct.pack("<Q", 0), "not a safetensors"),
    "no-bytes-but-zeros": (bytes(4096), "not a safetensors"),
    "header-of-2-to-the-63": (struct.pack("<Q", 2**63) + GOOD[8:], "cut off"),
    "header-of-minus-one": (struct.pack("<q", -1) + GOOD[8:], "cut off"),
    "header-beyond-the-file": (struct.pack("<Q", 1000) + b"{}", "cut off"),
    "header-of-all-memory": (struct.pack("<Q", 2**64 - 1) + GOOD[8:], "cut off"),
    "header-of-33-MiB": (framed(b"{" + b" " * (33 * 2**20) + b"}"), "longer than 32 MiB"),
    "pickle": (PICKLE, "not a safetensors"),
    "old-pickle": (b"cposix\nsystem\n(S'touch /tmp/covec-was-here'\ntR.", "not a safetensors"),
    "zip": (b"PK\x03\x04" + bytes(60), "not a safetensors"),
    "torch": (zipped({"archive/data.pkl": PICKLE, "archive/version": b"3"}), "not a safetensors"),
    "npz": (zipped({"write.npy": b"\x93NUMPY\x01\x00"}), "not a safetensors"),
    "gzip": (gzip.compress(GOOD, mtime=0), "not a safetensors"),
    "bzip2": (bz2.compress(GOOD), "not a safetensors"),
    "tar": (b"data.pkl".ljust(512, b"\x00") + PICKLE.ljust(512, b"\x00"), "not a safetensors"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(64), "not a safetensors"),
    "gguf": (b"GGUF\x03\x00\x00\x00" + bytes(64), "no valid control vector"),
    "parquet": (b"PAR1" + bytes(60) + b"PAR1", "not a safetensors"),
    "pickle-behind-a-header": (framed('{"__metadata__": {"format": "pt"}}', PICKLE), "holds other tensors"),
    "text": (b"positive,negative\nyes,no\n" * 9, "not a safetensors"),
    # A header that is no JSON, or more than JSON
    "header-is-no-json": (framed("{'a': 1}"), "property name"),
    "header-is-no-utf8": (framed(b'{"\xff\xfe": 1}'), "utf-8"),
    "header-is-utf16": (framed('{"a": 1}'.encode("utf-16")), "utf-8"),
    "header-is-a-list": (framed("[1]"), "holds other tensors"),
    "header-is-deep": (framed('{"a":' * 100_000 + "1" + "}" * 100_000), "nested too deep"),
    "header-of-a-million-tensors": (framed("{" + ",".join(f'"{i}":[]' for i in range(2**21)) + "}"), "of the marks"),
    "header-has-a-mark-of-order": (framed("\ufeff" + json.dumps({"a": 1})), "BOM"),
    "header-goes-on": (framed('{"a": 1} {"b": 2}'), "Extra data"),
    "tensor-twice": (edited(SECOND, f"{SECOND}, {SECOND}"), "twice"),
    "document-twice": (edited('{"covec":', '{"covec": "{}", "covec":'), "twice"),
    "offset-of-5000-digits": (edited("[32, 40]", f"[32, {'4' * 5000}]"), "20 digits"),
    "offset-is-nan": (edited("[32, 40]", "[32, NaN]"), "NaN is not a number"),
    # Somebody else's tensors
    "checkpoint": (framed({"__metadata__": {"format": "pt"}} | LM_HEAD, bytes(4)), "holds other tensors"),
    "no-metadata": (framed(LM_HEAD, bytes(4)), "holds other tensors"),
    "document-is-no-text": (built(metadata={"covec": {}}), "holds other tensors"),
    "metadata-is-no-text": (edited('{"covec":', '{"a": 1, "covec":'), "holds other tensors"),
    # The document
    "document-is-no-json": (text("{"), "Expecting"),
    "document-is-a-list": (text("[]"), "no schema"),
    "document-is-deep": (text("[" * 100_000), "nested too deep"),
    "document-key-twice": (text('{"schema": "1.0", "schema": "1.0"}'), "twice"),
    "document-holds-nan": (text('{"schema": "1.0", "x": NaN}'), "NaN is not a number"),
    "document-holds-infinity": (text('{"schema": "1.0", "x": -Infinity}'), "Infinity is not a number"),
    "document-holds-1e999": (text('{"schema": "1.0", "x": 1e999}'), "too large"),
    "document-holds-huge-integer": (text(f'{{"schema": "1.0", "x": {"9" * 5000}}}'), "20 digits"),
    "document-holds-a-long-number": (text('{"schema": "1.0", "x": 1.' + "1" * 2**20 + "e999}"), "too large"),
    "bomb-of-lists": (bomb("[],"), "of the marks"),
    "bomb-of-objects": (bomb("{},"), "of the marks"),
    "bomb-of-numbers": (bomb("1.5,", 2**22 + 1), "of the marks"),
    "bomb-of-keys": (text("{" + ",".join(f'"{i}":0' for i in range(2**21)) + "}"), "of the marks"),
    "no-schema": (built(schema=None), "no schema"),
    "schema-is-a-number": (built(schema=1.0), "no schema"),
    "schema-is-odd": (built(schema="1.0\n"), "no schema"),
    "schema-of-the-future": (built(schema="2.0"), "schema is 2.0"),
    "schema-of-the-past": (built(schema="0.9"), "schema is 0.9"),
    "no-concepts": (built(concepts=[]), "no concepts"),
    "concepts-are-no-list": (text('{"schema": "1.0", "concepts": {"a": 1}}'), "no concepts"),
    "concept-is-no-object": (built(concepts=["joy"]), "not described"),
    "two-of-one-name": (built([CONCEPT, CONCEPT], named(TENSORS) | named(TENSORS, index=1)), "one name"),
    "unknown-metadata-is-deep": (built(x=json.loads("[" * 40 + "]" * 40)), "nested"),
    "lone-surrogate": (built(x="\ud800"), "Unicode"),
    # The concept
    **{f"no-{key}": (concept(**{key: ...}), key if key != "parts" else "not described") for key in CONCEPT},
    "unknown-kind": (concept(kind="virus"), "kind 'virus'"),
    "method-has-an-escape": (concept(method="ridge\x1b[2J"), "method is a line"),
    "aggregator-is-endless": (concept(aggregator="a" * 1000), "aggregator is a line"),
    "unknown-operation": (concept(operation="exec"), "operation 'exec'"),
    "unknown-scale": (concept(scale_from="luck"), "scale_from 'luck'"),
    "kind-is-a-list": (concept(kind=["direction"]), "kind is a line"),
    "kind-only-writes": (concept(kind="weights"), "has a direction"),
    "name-climbs": (concept(name="../../home/.bashrc"), "concept's name"),
    "name-is-absolute": (concept(name="/etc/passwd"), "concept's name"),
    "name-is-windows": (concept(name="..\\..\\a"), "concept's name"),
    "name-climbs-later": (concept(name="a/../../b"), "concept's name"),
    "name-is-a-step": (concept(name=".."), "concept's name"),
    "name-is-here": (concept(name="./joy"), "concept's name"),
    "name-is-a-folder": (concept(name="joy/"), "concept's name"),
    "name-runs-backwards": (concept(name="joy\u202etxt.exe"), "concept's name"),
    "name-is-isolated": (concept(name="\u2066joy\u2069"), "concept's name"),
    "name-is-half-a-pair": (concept(name="joy\ud800"), "concept's name|Unicode"),
    "name-has-an-escape": (concept(name="joy\x1b[2J"), "concept's name"),
    "name-ends-in-a-space": (concept(name="joy\u00a0"), "concept's name"),
    "name-is-empty": (concept(name=""), "concept's name"),
    "name-is-endless": (concept(name="a" * 100_000), "concept's name"),
    "name-has-lines": (concept(name="a\nb"), "concept's name"),
    "name-has-nul": (concept(name="a\x00b"), "concept's name"),
    "name-is-a-number": (concept(name=3), "concept's name"),
    "parts-is-empty": (concept(parts=[]), "no parts"),
    "parts-is-text": (concept(parts=SITE), "not described"),
    "site-climbs": (concept(parts=["../../etc/passwd"]), "not a site"),
    "site-is-a-pattern": (concept(parts=["resid.*"]), "not a site"),
    "site-is-a-number": (concept(parts=[3]), "not the address"),
    "site-is-not-canonical": (concept(parts=["features.7@"]), "not the address"),
    "site-is-endless": (concept(parts=["resid." + "9" * 5000]), "not the address"),
    "site-is-elsewhere": (concept(parts=["resid.4"]), "lacks tensors at resid.4"),
    "site-twice": (concept(parts=[SITE, SITE]), "two parts"),
    "position-is-odd": (concept(read_position="nowhere"), "not a position"),
    "position-is-endless": (concept(read_position="9" * 5000), "not a position"),
    "position-pools-a-write": (concept(write_position="content/mean"), "no pooling"),
    "threshold-is-text": (concept(threshold="0"), "finite number"),
    "threshold-is-true": (concept(threshold=True), "finite number"),
    "threshold-is-null": (concept(threshold=None), "finite number"),
    "calibration-is-short": (concept(calibration=[1.0]), "slope and an offset"),
    "calibration-is-text": (concept(calibration="ab"), "slope of the calibration"),
    "seed-is-half": (concept(seed=0.5), "whole number"),
    "model-is-text": (concept(model="smollm2"), "model must be a dict"),
    "tried-is-text": (concept(tried=["all"]), "tried must be a dict"),
    "figure-is-text": (concept(figures={"auroc": FIGURE | {"value": "high"}}), "not a figure"),
    "figure-is-outside": (concept(figures={"auroc": FIGURE | {"value": 3.0}}), "not a figure"),
    "figure-of-minus-one": (concept(figures={"auroc": FIGURE | {"n": -1}}), "not a figure"),
    "figure-of-countless": (concept(figures={"auroc": FIGURE | {"n": 1e308}}), "n is a count"),
    "figure-of-half-a-row": (concept(figures={"auroc": FIGURE | {"n": 1.5}}), "n is a count"),
    "figure-is-true": (concept(figures={"auroc": FIGURE | {"value": True, "low": None, "high": None}}), "numbers or"),
    "figure-by-number": (concept(figures={"auroc": FIGURE | {"how": 3}}), "how a text"),
    "metadata-shadows-a-field": (concept(metadata={"kind": "x"}), "field of its own"),
    # The table of tensors
    "float64": (edited('"F32"', '"F64"'), "not float32"),
    "integers": (edited('"F32"', '"I32"'), "not float32"),
    "unknown-type": (edited('"F32"', '"Q4_K"'), "not float32"),
    "entry-is-a-list": (built(entries={"x": []}), "not float32"),
    "entry-lacks-offsets": (built(entries={"x": {"dtype": "F32", "shape": [0]}}), "data_offsets"),
    "entry-says-more": (edited('"dtype"', '"x": 1, "dtype"'), "its entry is not"),
    "overlap": (edited("[8, 16]", "[4, 12]"), "overlap or leave a hole at byte 4"),
    "overlap-of-all": (edited("[8, 16]", "[0, 8]"), "overlap or leave a hole at byte 0"),
    "hole": (edited(LAST, '"data_offsets": [36, 44]'), "overlap or leave a hole at byte 32"),
    "hole-at-the-start": (edited("[0, 8]", "[4, 8]"), "overlap or leave a hole at byte 0"),
    "backwards": (edited("[32, 40]", "[40, 32]"), "overlap or leave a hole"),
    "offsets-are-three": (edited("[32, 40]", "[32, 40, 40]"), "two whole numbers"),
    "offsets-are-text": (edited("[32, 40]", '["32", "40"]'), "two whole numbers"),
    "offsets-are-true": (edited("[0, 8]", "[false, 8]"), "two whole numbers"),
    "offsets-are-half": (edited("[32, 40]", "[32.0, 40.0]"), "two whole numbers"),
    "negative": (edited("[0, 8]", "[-8, 0]"), "overlap or leave a hole"),
    "beyond-the-data": (edited("[32, 40]", "[32, 4000]"), "cover 4000 bytes of 40"),
    "beyond-all-addresses": (edited("[32, 40]", f"[32, {2**63}]"), "bytes of 40"),
    "bytes-after-the-end": (built(data=packed(named(TENSORS))[1] + b"\x00" * 4), "cover 40 bytes of 44"),
    "too-few-bytes": (built(data=packed(named(TENSORS))[1][:-4]), "cover 40 bytes of 36"),
    "shape-is-too-large": (edited('"shape": [2]', '"shape": [3]'), "shape|tensor|[Ii]nvalid"),
    "shape-of-halves": (edited('"shape": [2]', '"shape": [2.0]'), "expected usize|invalid"),
    "shape-is-negative": (edited('"shape": [2]', '"shape": [-2]'), "expected usize|invalid"),
    "shape-is-text": (edited('"shape": [2]', '"shape": "2"'), "expected|invalid"),
    "shape-overflows": (edited('"shape": [2]', f'"shape": [{2**40}, {2**40}]'), "overflow|shape|tensor|[Ii]nvalid"),
    "tensor-nobody-asked-for": (built(tensors=named(TENSORS) | {"0/../../evil": ([1], [0.0])}), "belongs to no part"),
    "tensor-of-no-concept": (built(tensors=named(TENSORS) | named(TENSORS, index=1)), "belongs to no part"),
    "tensor-missing": (numbers(scale=...), "lacks tensors"),
    "no-tensors": (built(tensors={}), "lacks tensors"),
    # The numbers
    "checksum-is-wrong": (built(sha256="0" * 64), "checksum"),
    "checksum-is-missing": (built(sha256=None), "checksum"),
    "bit-flip": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "checksum"),
    "nan": (numbers(intercept=([1], [float("nan")])), "not finite"),
    "infinity": (numbers(write=([1, 2], [float("inf"), 2.0])), "not finite"),
    "not-unit": (numbers(direction=([1, 2], [0.0, 2.0])), "orthonormal"),
    "reversed": (numbers(direction=([1, 2], [0.0, -1.0])), "raise the score|lacking"),
    "scale-of-zero": (numbers(scale=([1], [0.0])), "not positive"),
    "scale-below-zero": (numbers(scale=([1], [-2.0])), "not positive"),
    "write-does-nothing": (numbers(write=([1, 2], [3.0, 0.0])), "raise the score"),
    "means-the-wrong-way": (numbers(mean_negative=([2], [3.0, 4.0])), "lacking"),
    "means-missing": (numbers(mean_positive=..., mean_negative=...), "no class means"),
    "one-mean": (numbers(mean_negative=...), "together"),
    "means-too-wide": (numbers(mean_negative=([3], [0.0] * 3)), "mean_negative has shape"),
    "rows-that-are-none": (numbers(write=([0, 2], [])), "write has shape"),
    "more-rows-than-numbers": (
        built([CONCEPT | {"kind": "subspace", "scale_from": "native"}], named(tall(50_000))), "not orthonormal"
    ),
    "direction-of-three-axes": (numbers(direction=([1, 1, 2], [0.0, 1.0])), "direction has shape"),
    "scalar": (numbers(scale=([], [2.0])), "scale has shape"),
}  # fmt: skip

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (data, _) in CASES.items():
        (folder / f"{name}.safetensors").write_bytes(data)
