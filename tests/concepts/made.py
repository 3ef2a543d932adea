"""Concept vectors for tests: any kind, any shape, any metadata that a file may hold."""

import torch
from hypothesis import strategies as st

from covec.concepts.part import Part
from covec.concepts.vector import ConceptVector
from covec.statistics.figure import Figure

SITES = (
    "embed",
    "resid.0",
    "resid.14",
    "attn.3",
    "head.3.1",
    "key.0.0",
    "final",
    "features.7@in",
    "model.layers.3.q_proj",
)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
FIGURE = st.builds(
    lambda value, n, how: Figure(value, value - 1, value + 1, None, n, how), st.floats(-9, 9), st.integers(0, 99), TEXT
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | NUMBER | TEXT | FIGURE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
DOCUMENT = st.dictionaries(TEXT, JSON, max_size=3)


def part(rank=1, width=8, seed=0, means=True):
    """A valid part that reads: random orthonormal rows, `write` off their line, class means a `write` apart."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.linalg.qr(torch.randn(width, rank, generator=generator, dtype=torch.float64))[0].T
    scale = 0.1 + 5 * torch.rand(rank, generator=generator, dtype=torch.float64)
    noise = torch.randn(rank, width, generator=generator, dtype=torch.float64)
    write = scale[:, None] * rows + noise - (noise @ rows.T) @ rows
    negative = torch.randn(width, generator=generator, dtype=torch.float64)
    intercept = -rows @ (negative + write.sum(0) / 2)
    return Part(rows, write, intercept, scale, *((negative + write.sum(0), negative) if means else ()))


def direction(name="sentiment", site="resid.14", width=8, seed=0, **fields):
    """A vector of the usual kind."""
    return ConceptVector(name, {site: part(1, width, seed)}, **fields)


# What a name never has, and what it has only in some places; control characters are none of TEXT.
UNNAMEABLE = {*"/\\.\u2028\u2029", *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A)))}


@st.composite
def vectors(draw, kinds=("direction", "subspace", "prefix", "weights")):
    """Any valid concept vector."""
    kind = draw(st.sampled_from(kinds))
    scale_from = draw(st.sampled_from(("class-means", "native", "codes", "spread")))
    parts = {}
    for site in draw(st.lists(st.sampled_from(SITES), min_size=1, max_size=3, unique=True)):
        rank = 1 if kind == "direction" else draw(st.integers(1, 3))
        made = part(rank, draw(st.integers(rank, 9)), draw(st.integers(0, 2**31)), scale_from == "class-means")
        parts[site] = made if kind in ("direction", "subspace") else Part.writing(made.write)
    return ConceptVector(
        draw(TEXT.filter(lambda text: text == text.strip() != "" and not set(text) & UNNAMEABLE)),
        parts,
        kind=kind,
        read_position=draw(st.sampled_from(("last", "mean", "content/max", "from-3", "answer/mean"))),
        write_position=draw(st.sampled_from(("content", "all", "last+generated", "from-3", "2"))),
        aggregator=draw(st.sampled_from(("last", "mean", "super-activators"))),
        threshold=draw(NUMBER),
        calibration=draw(st.none() | st.tuples(NUMBER, NUMBER)),
        method=draw(st.sampled_from(("", "ridge", "mean-difference"))),
        operation=draw(st.sampled_from(("add", "ablate", "project"))),
        scale_from=scale_from,
        model=draw(DOCUMENT),
        data=draw(DOCUMENT),
        seed=draw(st.none() | st.integers(0, 2**32)),
        versions=draw(st.dictionaries(TEXT, TEXT, max_size=2)),
        figures=draw(st.dictionaries(TEXT, FIGURE | JSON, max_size=3)),
        tried=draw(st.lists(DOCUMENT, max_size=2)),
        metadata=draw(st.dictionaries(TEXT.map("x-{}".format), JSON, max_size=2)),
    )
