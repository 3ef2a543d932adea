"""The contract of concept vectors: what they read and write, and what a file keeps of them."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor

from covec.checks._check import Check, Law, checks, refusal
from covec.checks._elsewhere import read_elsewhere
from covec.concepts import _fields as fields
from covec.concepts.bank import Bank, load_bank, load_vector
from covec.concepts.exports import export
from covec.concepts.imports import load_gguf
from covec.concepts.part import Part
from covec.concepts.vector import FIELDS, ConceptVector
from covec.models.positions import Position
from covec.models.sites import Site
from covec.statistics.figure import Figure

_ROUNDING = 1e-4  # of scores in float32, in units of the scale or of the largest entry


def a_file_keeps_every_bit(vector: ConceptVector) -> None:
    """Saved and loaded, alone and in a bank, every field and every bit of every tensor is what it was."""
    other = dataclasses.replace(vector, name="another")
    with _folder() as folder:
        vector.save(folder / "one")
        Bank([other, vector]).save(folder / "two")
        for loaded in (load_vector(folder / "one"), load_bank(folder / "two")[vector.name]):
            assert loaded.identical(vector), next(
                name for name in FIELDS if getattr(loaded, name) != getattr(vector, name)
            )
            assert hash(loaded) == hash(vector)
        load_vector(folder / "one").save(folder / "again")
        assert (folder / "again").read_bytes() == (folder / "one").read_bytes()


def a_file_is_numbers_and_text(vector: ConceptVector) -> None:
    """Safetensors opens the file, every tensor of it is float32, and all of its metadata is text: nothing can run."""
    with _folder() as folder:
        vector.save(folder / "one")
        with safe_open(folder / "one", "pt") as file:
            assert {str(file.get_tensor(key).dtype) for key in file.keys()} == {"torch.float32"}  # noqa: SIM118
            assert all(isinstance(text, str) for text in file.metadata().values())


def another_process_reads_the_same(vector: ConceptVector) -> None:
    """Another process that has nothing but the file scores rows as this one does, bit for bit."""
    rows = _rows(vector)
    with _folder() as folder:
        vector.save(folder / "one")
        elsewhere = read_elsewhere(folder / "one", rows)
    assert torch.equal(elsewhere.direction, vector.direction)
    assert torch.equal(elsewhere.scores, vector.score(rows))


def use_leaves_it_alone(vector: ConceptVector) -> None:
    """Scoring, edits, printing and saving leave it bit-identical, and no field can be set."""
    before = copy.deepcopy(vector)
    for site, part in vector.parts.items():
        if part.reads:
            part.score(_rows(vector, site))
    if vector.kind in fields.READING_KINDS:
        vector.add(2.0), vector.ablate(), vector.ablate(to="zero"), vector.set_coordinate(0.5)
    with _folder() as folder:
        vector.save(folder / "one")
    assert repr(vector).count("\n") == 0
    assert vector.name in str(vector)
    assert vector.identical(before)
    assert vector == before
    try:
        vector.name = "another"  # type: ignore[misc]
    except dataclasses.FrozenInstanceError:
        return
    raise AssertionError("its name can be set")


def directions_are_orthonormal(vector: ConceptVector) -> None:
    """Rows have unit norm and right angles, scales are positive, and there is no row where it only writes."""
    for part in vector.parts.values():
        assert part.reads == (vector.kind in fields.READING_KINDS)
        rows = part.direction.double()
        torch.testing.assert_close(rows @ rows.T, torch.eye(len(rows)).double(), rtol=0, atol=_ROUNDING)
        assert (part.scale > 0).all()
        assert vector.kind == "subspace" or not part.reads or part.rank == 1


def strength_one_raises_the_score_by_one(vector: ConceptVector) -> None:
    """`write` of each row raises the score along that row by exactly 1, wherever an activation stands."""
    for site, part in vector.parts.items():
        rows = _rows(vector, site)
        for row in range(len(part.direction)):
            size = float((rows.abs().max() + part.write.abs().max()) / part.scale[row])
            raised = part.score(rows + part.write[row])[:, row] - part.score(rows)[:, row]
            torch.testing.assert_close(raised, torch.ones(len(rows)), rtol=0, atol=max(1e-3, _ROUNDING * size))


def class_means_stand_at_one_half(vector: ConceptVector) -> None:
    """The class means of one direction score -0.5 and +0.5 where its scale comes from them."""
    for part in vector.parts.values():
        if vector.kind != "direction" or part.mean_positive is None or part.mean_negative is None:
            continue
        means = torch.stack([part.mean_negative, part.mean_positive])
        size = float(means.abs().max() / part.scale[0])
        torch.testing.assert_close(
            part.score(means)[:, 0], torch.tensor([-0.5, 0.5]), rtol=0, atol=max(1e-3, _ROUNDING * size)
        )


def scores_are_linear(vector: ConceptVector) -> None:
    """A row's score is its own, of any dtype, and the score of the middle of two rows is the middle of theirs."""
    for site, part in vector.parts.items():
        if not part.reads:
            continue
        rows = _rows(vector, site)
        found = part.score(rows)
        size = float(rows.abs().max() / part.scale.min())
        assert (found.dtype, found.shape) == (torch.float32, (len(rows), part.rank))
        middle = part.score((rows[:1] + rows[1:2]) / 2)
        for one, other, near in (
            (middle, found[:2].mean(0, keepdim=True), _ROUNDING),
            (part.score(rows[3:4]), found[3:4], _ROUNDING),
            (part.score(rows.double()), found, _ROUNDING),
            (part.score(rows.bfloat16()), found, 3e-2),
        ):
            torch.testing.assert_close(one, other, rtol=0, atol=near * size)


def wrong_rows_are_refused(vector: ConceptVector) -> None:
    """One line for rows of another width or shape, and for scores of what only writes."""
    for site, part in vector.parts.items():
        rows = _rows(vector, site)
        for wrong in (rows[:, 1:], rows[0], rows[None]) if part.reads else (rows,):
            refusal(partial(part.score, wrong))


def probabilities_rise_with_scores(vector: ConceptVector) -> None:
    """Probabilities lie between 0 and 1 and rise with the score; without a calibration they are refused in a line."""
    scores = torch.linspace(-3, 3, 13)
    if vector.calibration is None:
        refusal(partial(vector.probability, scores))
        return
    found = vector.probability(scores)
    assert ((found >= 0) & (found <= 1)).all()
    assert (found.diff() * vector.calibration[0] >= 0).all()


def its_own_direction_gives_it_again(vector: ConceptVector) -> None:
    """`from_direction` of its own direction, of any length, and of its own means is the same vector."""
    part = vector.parts[vector.site]
    own: dict[str, Any] = {name: getattr(vector, name) for name in FIELDS if name not in ("name", "parts")}
    own |= {"mean_positive": part.mean_positive, "mean_negative": part.mean_negative, "write": vector.write}
    if vector.scale_from != "class-means":
        own |= {"scale": vector.scale, "intercept": vector.intercept}
    for length in (1, 7, 0.01):
        again = ConceptVector.from_direction(vector.name, vector.site, length * vector.direction, **own)
        torch.testing.assert_close(again.direction, vector.direction, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(again.score(_rows(vector)), vector.score(_rows(vector)), rtol=1e-4, atol=1e-4)
        twice = ConceptVector.from_direction(again.name, again.site, again.direction, **own)
        assert twice.identical(again), "of its own direction comes another vector"


def exports_hold_what_it_writes(vector: ConceptVector) -> None:
    """Each format gives back `write` to the bit, or refuses the vector in a line."""
    with _folder() as folder:
        if len(vector.parts) == 1:
            (part,) = vector.parts.values()
            export(vector, "npy", folder / "one.npy")
            found = np.load(folder / "one.npy", allow_pickle=False)
            assert (found.reshape(part.rank, -1) == part.write.numpy()).all()
        else:
            refusal(partial(export, vector, "npy", folder / "one.npy"))
        steerable = all(site.kind == "resid" and site.block > 0 for site in vector.parts)
        if not steerable or (vector.kind, vector.operation) != ("direction", "add"):
            refusal(partial(export, vector, "gguf", folder / "one.gguf"))
            return
        export(vector, "gguf", folder / "one.gguf")
        loaded = load_gguf(folder / "one.gguf")
    assert loaded.parts.keys() == vector.parts.keys()
    assert all(torch.equal(loaded.parts[site].write, part.write) for site, part in vector.parts.items())


def sites_are_chosen_by_their_address(vector: ConceptVector) -> None:
    """`at` gives the same vector with one part; a site that it lacks is refused in a line."""
    for site, part in vector.parts.items():
        alone = vector.at(str(site))
        assert alone.parts == {site: part}
        assert dataclasses.replace(alone, parts=vector.parts) == vector
    refusal(partial(vector.at, "resid.9999"))


LAWS: tuple[Law, ...] = (
    a_file_keeps_every_bit,
    a_file_is_numbers_and_text,
    another_process_reads_the_same,
    use_leaves_it_alone,
    directions_are_orthonormal,
    strength_one_raises_the_score_by_one,
    class_means_stand_at_one_half,
    scores_are_linear,
    wrong_rows_are_refused,
    probabilities_rise_with_scores,
    its_own_direction_gives_it_again,
    exports_hold_what_it_writes,
    sites_are_chosen_by_their_address,
)


def _single(vector: ConceptVector) -> bool:
    return vector.kind == "direction" and len(vector.parts) == 1


ONLY: dict[Law, Callable[[ConceptVector], bool]] = {  # laws that have no meaning for some
    another_process_reads_the_same: _single,
    its_own_direction_gives_it_again: _single,
}


def vector_checks(vector: ConceptVector, expected_failures: Mapping[str, str] | None = None) -> list[Check]:
    """The checks of a concept vector."""
    laws = [law for law in LAWS if law not in ONLY or ONLY[law](vector)]
    return checks("vector", vector.name, laws, vector, expected_failures or {})


def discovered() -> list[Check]:
    """The checks of a vector of every kind and of every origin of its scale, with every field filled."""
    return [check for vector in samples() for check in vector_checks(vector)]


def samples() -> Iterator[ConceptVector]:
    """Vectors that between them have every kind, scale and number of sites, and no field left as it is by default."""
    for origin in fields.SCALES_FROM:
        yield sample(f"direction in units of {origin}", scale_from=origin)
    yield sample("direction at three sites", ("resid.3", "resid.14", "resid.7"))
    yield sample("direction of a head", ("head.3.1",), calibration=(1.5, -0.25))
    for kind in fields.KINDS[1:]:
        yield sample(f"{kind} of rank 3", ("resid.3", "model.layers.7.mlp"), kind=kind, rank=3)


def sample(
    name: str,
    sites: tuple[str, ...] = ("resid.14",),
    *,
    kind: str = "direction",
    rank: int = 1,
    width: int = 24,
    scale_from: str = "class-means",
    calibration: tuple[float, float] | None = (-1.5, 0.25),
) -> ConceptVector:
    """A vector whose `write` points elsewhere than its direction, and whose optional fields are all filled."""
    parts = {Site.parse(site): _part(rank, width, seed, scale_from == "class-means") for seed, site in enumerate(sites)}
    if kind in fields.WRITING_KINDS:
        parts = {site: Part.writing(part.write) for site, part in parts.items()}
    return ConceptVector(
        name,
        parts,
        kind=kind,
        read_position=Position.parse("mean"),
        write_position=Position("last+generated"),
        aggregator="super-activators",
        threshold=0.1,
        calibration=calibration,
        method="ridge",
        operation="add",
        scale_from=scale_from,
        model={"name": "a model", "width": width, "fingerprint": "f" * 64, "model_type": "llama"},
        data={"name": "some texts", "digest": "d" * 16, "n": 120},
        seed=7,
        versions={"covec": "0.1.0"},
        figures={"auroc": Figure(0.9, 0.8, 0.95, 0.5, 120, "test rows"), "others": [Figure(1 / 3)]},
        tried=[{"site": "resid.3", "auroc": Figure(0.7)}],
        metadata={"from a later version": {"of": [1, 0.5, "text", None, True]}},
    )


def _part(rank: int, width: int, seed: int, means: bool) -> Part:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.linalg.qr(torch.randn(width, rank, generator=generator, dtype=torch.float64))[0].T
    scale = 0.5 + torch.rand(rank, generator=generator, dtype=torch.float64)
    noise = torch.randn(rank, width, generator=generator, dtype=torch.float64)
    write = scale[:, None] * rows + noise - (noise @ rows.T) @ rows
    negative = torch.randn(width, generator=generator, dtype=torch.float64)
    positive = negative + write.sum(0)
    middle = -rows @ (negative + positive) / 2
    return Part(rows, write, middle, scale, *((positive, negative) if means else ()))


def _rows(vector: ConceptVector, site: Site | None = None) -> Float[Tensor, "8 d"]:
    """Some activations as wide as the vector is there."""
    part = vector.parts[site or vector.sites[0]]
    return torch.randn(8, part.width, generator=torch.Generator().manual_seed(0))


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
