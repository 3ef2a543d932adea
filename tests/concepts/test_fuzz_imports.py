"""Damaged files of other tools and of examples: each is read, or refused in one line, quickly and in little memory."""

import csv
import datetime
import io
import json
import random
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concepts.made import part
from covec.activations.corpus import texts
from covec.concepts.examples import read_concepts
from covec.concepts.exports import export
from covec.concepts.imports import load_gguf
from covec.concepts.vector import ConceptVector
from covec.errors import ExamplesError, FileError

CHUNKS, CASES = 4, 1000
ROWS = [
    {
        "text": f'She said "yes {row}", twice.' if row % 2 else f"a comma, a; semi {row}",
        "label": str(row % 2),
        "group": str(row // 2),
        "span_start": 0,
        "span_end": 3,
        "split": "train",
        "concept": "a" if row < 6 else "b",
    }
    for row in range(12)
]
MARKS = [
    b"\x00", b'"', b"\r", b"\n", b",", b"\xff\xfe", b"\xef\xbb\xbf", b"null", b"NaN", b"-1", b"1e999", b"9" * 400,
    b"9" * 5000, b"{", b"]", b"\\ud800", b"\xe2\x80\xa8", b"true", b"\t", b'"text"', b"label", b"\x1f\x8b", b"\xd9\xa3",
    b"-Infinity", b"3.0", b"\\u0000", b"[" * 2000,
]  # fmt: skip
WORDS = [
    bytes(8), b"\xff" * 8, *(struct.pack("<Q", 2**power) for power in (31, 40, 62, 63)),
    *(struct.pack("<I", kind) for kind in (0, 1, 8, 9, 2**31 - 1)), struct.pack("<f", float("nan")),
]  # fmt: skip


def damaged(data, chance, extra):
    """Bytes changed, cut out, put in, written over, copied or cut off."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(made) + 1)
        new = chance.choice(extra)
        match chance.randrange(7):
            case 0:
                made[at : at + 1] = chance.randbytes(1)
            case 1:
                del made[at : at + chance.randrange(1, 20)]
            case 2:
                made[at:at] = new
            case 3:
                made[at : at + len(new)] = new
            case 4:
                start = chance.randrange(len(data))
                made[at : at + 16] = data[start : start + 16]
            case 5 if at < len(made):
                made[at] ^= 1 << chance.randrange(8)
            case 6 if chance.random() < 0.3:
                del made[at:]
    return bytes(made)


def delimited(delimiter):
    page = io.StringIO(newline="")
    writer = csv.DictWriter(page, list(ROWS[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(ROWS)
    return page.getvalue().encode()


def parquet(**options):
    more = [{"when": datetime.datetime(2020, 1, 1 + row), "many": [1, row], "sub": {"a": row}} for row in range(12)]
    made = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row | other for row, other in zip(ROWS, more, strict=True)]), made, **options)
    return made.getvalue()


EXAMPLES = {
    ".jsonl": ["\n".join(map(json.dumps, ROWS)).encode()],
    ".json": [json.dumps(ROWS, indent=1).encode()],
    ".csv": [delimited(",")],
    ".tsv": [delimited("\t")],
    ".parquet": [
        parquet(),
        parquet(compression="zstd", data_page_version="2.0"),
        parquet(compression="none", use_dictionary=False),
    ],
}


def lines_of(read, path, cases, error):
    """The refusals of `cases`, each of them one line that names the file."""
    refusals = []
    for data in cases:
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        try:
            read(path)
        except error as refusal:
            refusals.append(str(refusal))
    assert all("\n" not in line and len(line) <= 600 for line in refusals)
    assert all(path.name in line for line in refusals)
    return refusals


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("ending", EXAMPLES)
def test_damaged_examples_are_read_or_refused_in_one_line(tmp_path, ending, chunk):
    def cases():
        for number in range(CASES):
            chance = random.Random(f"{ending} {chunk} {number}")
            yield damaged(chance.choice(EXAMPLES[ending]), chance, MARKS)

    refusals = lines_of(
        lambda path: read_concepts(path, each_class=chunk % 2 == 0), tmp_path / f"any{ending}", cases(), ExamplesError
    )
    assert CASES / 2 < len(refusals) < CASES


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".tsv", ".parquet", ".txt"])
def test_a_damaged_corpus_is_read_or_refused_in_one_line(tmp_path, ending):
    def cases():
        for number in range(CASES):
            chance = random.Random(f"corpus {ending} {number}")
            yield damaged(chance.choice(EXAMPLES.get(ending, EXAMPLES[".tsv"])), chance, MARKS)

    refusals = lines_of(lambda path: list(texts(path)), tmp_path / f"any{ending}", cases(), ExamplesError)
    assert 0 < len(refusals) < CASES


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_damaged_control_vectors_are_read_or_refused_in_one_line(tmp_path, chunk):
    vector = ConceptVector("joy", {"resid.3": part(1, 3, 1), "resid.5": part(1, 3, 2)}, model={"model_type": "llama"})
    export(vector, "gguf", tmp_path / "good.gguf")
    good = (tmp_path / "good.gguf").read_bytes()

    def cases():
        for number in range(CASES):
            yield damaged(good, random.Random(f"gguf {chunk} {number}"), WORDS)

    refusals = lines_of(load_gguf, tmp_path / "v.gguf", cases(), FileError)
    assert CASES / 2 < len(refusals) < CASES


def text(value):
    return struct.pack("<Q", len(value)) + value


def tensor(name, dimensions, offset=0):
    """The entry of a float32 tensor."""
    return text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, 0, offset)


def gguf(values=(), tensors=(), data=b""):
    """A GGUF file by hand, as nobody's library would write it."""
    values = [text(b"general.architecture") + struct.pack("<I", 8) + text(b"controlvector"), *values]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + data


ARRAY = text(b"x") + struct.pack("<I", 9)
ROW = np.ones(4, "<f4").tobytes()
HOSTILE = {
    "an array of a million bytes": gguf([ARRAY + struct.pack("<IQ", 0, 10**6) + bytes(10**6)]),
    "an array of a million empty texts": gguf([ARRAY + struct.pack("<IQ", 8, 10**6) + bytes(8 * 10**6)]),
    "arrays in arrays": gguf([ARRAY + struct.pack("<IQ", 9, 1) * 5000]),
    "an array longer than any file": gguf([ARRAY + struct.pack("<IQ", 0, 2**62)]),
    "a hundred thousand values": gguf([text(b"%d" % n) + struct.pack("<IB", 0, 1) for n in range(10**5)]),
    "a hundred thousand tensors": gguf(tensors=[tensor(b"direction.%d" % n, [1]) for n in range(10**5)], data=ROW),
    "a thousand tensors in one place": gguf(tensors=[tensor(b"direction.%d" % n, [4]) for n in range(99)], data=ROW),
    "a tensor larger than any memory": gguf(tensors=[tensor(b"direction.1", [2**62, 4])], data=ROW),
    "a tensor of a thousand axes": gguf(tensors=[tensor(b"direction.1", [1] * 1000)], data=ROW),
    "a tensor of no axis": gguf(tensors=[tensor(b"direction.1", [])], data=ROW),
    "a tensor of no number": gguf(tensors=[tensor(b"direction.1", [0])], data=ROW),
    "a tensor twice": gguf(tensors=[tensor(b"direction.1", [4])] * 2, data=2 * ROW),
    "a tensor beyond the end": gguf(tensors=[tensor(b"direction.1", [4], 2**63)], data=ROW),
    "tensors of unequal length": gguf(
        tensors=[tensor(b"direction.1", [4]), tensor(b"direction.2", [3], 32)], data=ROW + bytes(16) + ROW
    ),
    "a name that is a number": gguf([text(b"general.name") + struct.pack("<II", 4, 7)]),
    "no tensors": gguf(),
}


def test_the_builder_of_hostile_control_vectors_also_builds_good_ones(tmp_path):
    (tmp_path / "v.gguf").write_bytes(gguf(tensors=[tensor(b"direction.7", [4])], data=ROW))
    assert load_gguf(tmp_path / "v.gguf").write.tolist() == [1.0] * 4


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_control_vector_is_refused(tmp_path, name):
    (refusal,) = lines_of(load_gguf, tmp_path / "v.gguf", [HOSTILE[name]], FileError)
    assert "no valid control vector" in refusal


def unpacking_to(size):
    """A Parquet file of a kilobyte that unpacks to `size` bytes of text."""
    made = io.BytesIO()
    text = pa.DictionaryArray.from_arrays([0] * (size >> 20), ["x" * 2**20])
    pq.write_table(pa.table({"text": text}), made, compression="zstd")
    return made.getvalue()


def test_a_small_parquet_file_that_unpacks_to_gigabytes_is_refused(tmp_path):
    bomb = unpacking_to(2**42)
    assert len(bomb) < 2**20
    (refusal,) = lines_of(read_concepts, tmp_path / "bomb.parquet", [bomb], ExamplesError)
    assert "unpacks to more than 1.1 GB" in refusal


def test_two_columns_of_one_name_are_refused_in_parquet_too(tmp_path):
    made = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["text", "text"]), made)
    (refusal,) = lines_of(read_concepts, tmp_path / "twice.parquet", [made.getvalue()], ExamplesError)
    assert "two columns called 'text'" in refusal


@pytest.mark.parametrize(
    "row", ['{"text": "a", "text": "b", "label": 1}', '{"text": "a", "label": ' + "9" * 5000 + "}"]
)
def test_a_key_twice_or_a_boundless_number_is_refused_in_json(tmp_path, row):
    (refusal,) = lines_of(read_concepts, tmp_path / "any.jsonl", [row.encode()], ExamplesError)
    assert "stands twice" in refusal or "4300" in refusal
