"""Streams: ten million tokens in the memory of one, shards that merge to the whole, runs that resume bit for bit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from covec.activations import stream, tally
from covec.activations.moments import Moments
from covec.activations.store import write_store
from covec.activations.tally import Tally, load_moments
from covec.errors import CovecError, FileError, ModelError
from covec.models.text import TextModel
from progresses import Remembered
from streams import LABELS, LENGTH, TEXTS, content, endless, endless_model, interrupting, killed_and_resumed
from tiny import tiny_model

MEMORY = """
import sys
sys.path.insert(0, sys.argv[1])
import psutil, torch
from streams import endless, endless_model

torch.set_num_threads(1)
model, kind, folder, most = endless_model(), *sys.argv[2:]
for tokens in (200_000, 1_000_000, int(most)):
    seen = []
    texts = endless(tokens, lambda: seen.append(psutil.Process().memory_info().rss))
    if kind == "store":
        rows = model.store(texts, f"{folder}/{tokens}", "resid.0", dtype="float16", batch_tokens=8192).rows
    else:
        rows = next(iter(model.moments(texts, "resid.0", batch_tokens=8192).values())).count()
    print(rows, max(seen))
"""


@pytest.fixture
def llama() -> TextModel:
    return TextModel(*tiny_model("llama"), name="tiny")


@pytest.mark.parametrize(("kind", "tokens"), [("store", 10_000_000), ("moments", 4_000_000)])
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is counted as Linux does")
def test_ten_million_tokens_take_the_memory_of_one_million(tmp_path: Path, kind: str, tokens: int) -> None:
    """Every token but the first of each text is a row (K-16); moments alone show it with fewer, in less time."""
    arguments = [sys.executable, "-c", MEMORY, str(Path(__file__).parents[1]), kind, str(tmp_path), str(tokens)]
    output = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    (_, _), (rows, before), (many, after) = (map(int, line.split()) for line in output.splitlines())
    assert (rows, many) == (1_000_000 - 1_000_000 // LENGTH, tokens - tokens // LENGTH)
    assert after - before <= 8e6
    for shard in tmp_path.glob("*/*.safetensors"):
        shard.unlink()  # a third of a gigabyte


def badly_conditioned(n: int, d: int, shift: float) -> torch.Tensor:
    """Rows whose axes differ by a factor of ten thousand, turned, far from zero, as float32."""
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    rows = rng.normal(size=(n, d)) * np.logspace(0, -4, d) @ turn * 100 + shift * rng.normal(size=d)
    return torch.from_numpy(rows).float()


def off(found: torch.Tensor, exact: torch.Tensor, scale: torch.Tensor) -> float:
    return float(((found - exact).abs() / scale).max())


@pytest.mark.parametrize("shift", [0, 1e4])
@pytest.mark.parametrize("sizes", [[30_000], [1] * 50 + [29_950], [4096, 4097, 1, 9000, 12_806]])
def test_moments_of_shards_are_those_of_the_whole(shift: float, sizes: list[int]) -> None:
    """To 1e-6 of the standard deviations, against float64, with every label its own covariance."""
    rows = badly_conditioned(sum(sizes), 24, shift)
    labels = np.arange(len(rows)) * 7 % 3
    whole = Moments(24, per_label=True).update(rows, labels)
    parts = [
        Moments(24, per_label=True).update(*part)
        for part in zip(rows.split(sizes), np.split(labels, np.cumsum(sizes)[:-1]), strict=True)
    ]
    merged = Moments(24, per_label=True)
    for part in parts:
        merged.merge(part)
    exact = rows.double()
    for label in (None, 0, 1, 2):
        chosen = exact if label is None else exact[torch.from_numpy(labels == label)]
        mean, covariance = chosen.mean(0), torch.cov(chosen.T, correction=0)
        deviation = covariance.diagonal().sqrt()
        for moments in (whole, merged):
            assert moments.count(label) == len(chosen)
            assert off(moments.mean(label), mean, deviation) < 1e-6
            assert off(moments.covariance(label), covariance, torch.outer(deviation, deviation)) < 1e-6


def test_a_state_is_all_of_the_moments() -> None:
    rows, labels = badly_conditioned(500, 8, 1), np.arange(500) % 2 == 0
    moments = Moments(8, per_label=True)
    moments.update(rows, labels, sets={"day": np.arange(500) % 3}, targets={"t": torch.arange(500.0)})
    again = Moments.from_state(*moments.state())
    for kept in (moments, again):
        kept.update(rows * 2, labels, targets={"t": torch.arange(500.0)})
    assert torch.equal(again.covariance(), moments.covariance())
    assert torch.equal(again.covariance(True), moments.covariance(True))
    assert torch.equal(again.mean(2, "day"), moments.mean(2, "day"))
    assert torch.equal(again.cross_covariance("t"), moments.cross_covariance("t"))
    assert again.labels() == moments.labels()


def test_moments_are_those_of_the_rows(tiny: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW_TOKENS", 150)
    days = [row % 7 for row in range(60)]
    found = tiny.moments(
        iter(TEXTS), ["resid.0", "final"], labels={"": iter(LABELS), "day": np.array(days)}, per_label=True
    )
    rows = tiny.capture(TEXTS, ["resid.0", "final"], "content/none")
    assert rows.offsets is not None
    labels, day = (np.repeat(column, rows.offsets.diff().numpy()) for column in (LABELS, days))
    for site, moments in found.items():
        exact = rows[site].double()
        deviation = exact.std(0, correction=0)
        assert moments.count() == len(exact)
        assert off(moments.covariance(), torch.cov(exact.T, correction=0), torch.outer(deviation, deviation)) < 1e-4
        for name, column, label in (("", labels, True), ("day", day, 3)):
            chosen = exact[torch.from_numpy(column == label)]
            assert moments.count(label, name) == len(chosen)
            assert off(moments.mean(label, name), chosen.mean(0), deviation) < 1e-4


@pytest.mark.parametrize("pool", ["last", "mean", "max"])
def test_pooled_rows_are_one_an_input(llama: TextModel, pool: str) -> None:
    (moments,) = llama.moments(iter(TEXTS), "resid.2", pool).values()
    exact = llama.capture(TEXTS, "resid.2", pool)["resid.2"].double()
    assert moments.count() == 60
    torch.testing.assert_close(moments.mean(), exact.mean(0), rtol=0, atol=1e-5)


def test_a_stream_is_never_gathered(llama: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken from the stream when a window comes out is that window and the texts tokenised with it."""
    monkeypatch.setattr(stream, "WINDOW_TOKENS", 150)
    monkeypatch.setattr(stream, "_AT_ONCE", 4)
    taken: list[str] = []
    texts = (taken.append(text) or text for text in TEXTS)
    for window in stream.stream(llama, texts, "resid.0", "content/none"):
        assert window.inputs[-1] < len(taken) <= window.inputs[-1] + 1 + 4


def test_a_window_keeps_its_rows_within_the_budget(llama: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW_BYTES", 20_000)
    sizes = [
        sum(rows.nbytes for rows in window.activations.rows.values())
        for window in stream.stream(llama, iter(TEXTS), "resid.*", "content/none")
    ]
    assert max(sizes) <= 20_000
    assert len(sizes) < 60


def test_windows_without_a_row_are_passed_over(llama: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW_TOKENS", 1)
    longest = max(len(item.ids) for item in llama.tokenize(TEXTS))
    (moments,) = llama.moments(iter(TEXTS), "resid.0", f"from-{longest - 1}/none").values()
    assert moments.count() == sum(len(item.ids) == longest for item in llama.tokenize(TEXTS))


def test_progress_counts_the_inputs(llama: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW_TOKENS", 150)
    known, unknown = Remembered(), Remembered()
    llama.moments(TEXTS, "resid.0", progress=known)
    assert known.told == [("reading 60 inputs", 60)]
    assert sum(known.steps) == pytest.approx(60)
    llama.moments(iter(TEXTS), "resid.0", progress=unknown)
    assert unknown.told == [("reading inputs", None)]


# Moments in a folder


@pytest.mark.usefixtures("_before_forks")
@pytest.mark.parametrize("seed", range(3))
def test_moments_killed_at_random_points_end_in_the_same_bits(
    llama: TextModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(stream, "WINDOW_TOKENS", 150)
    monkeypatch.setattr(stream, "_AT_ONCE", 7)
    whole = llama.moments(TEXTS, "resid.*", labels=LABELS, folder=tmp_path / "whole")
    monkeypatch.setattr(tally, "CHECKPOINT_SECONDS", 0.0)

    def work() -> object:
        return llama.moments(iter(TEXTS), "resid.*", labels=LABELS, folder=tmp_path / "killed")

    assert killed_and_resumed(work, seed) > 0
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
    for site, moments in load_moments(tmp_path / "killed").items():
        assert torch.equal(moments.covariance(), whole[site].covariance())
        assert torch.equal(moments.mean(True), whole[site].mean(True))


def test_an_interrupted_run_goes_on_from_its_checkpoint(
    llama: TextModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "WINDOW_TOKENS", 150)
    monkeypatch.setattr(stream, "_AT_ONCE", 7)
    monkeypatch.setattr(tally, "CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        llama.moments(interrupting(40), "resid.1", folder=tmp_path / "m")
    with pytest.raises(FileError, match="was interrupted: run it again"):
        load_moments(tmp_path / "m")
    found = tally.tally(llama, TEXTS, "resid.1", folder=tmp_path / "m")
    assert 0 < found.resumed < 40
    assert found.inputs == 60
    assert tally.tally(llama, TEXTS, "resid.1", folder=tmp_path / "m").resumed == 60


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "position": ({"position": "last"}, "the position changed"),
    "sites": ({"sites": "resid.2"}, "the sites changed"),
    "covariances": ({"per_label": True}, "the covariances changed"),
    "text": ({"inputs": ["x", *TEXTS[1:]]}, "the first 60 inputs changed"),
    "more": ({"inputs": [*TEXTS, "x"], "labels": [*LABELS, True]}, "there were 60, now there are more"),
    "labels": ({"labels": None}, "the label sets changed"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_moments_of_something_else_are_refused(llama: TextModel, tmp_path: Path, change: str) -> None:
    given: dict[str, Any] = {"inputs": TEXTS, "sites": "resid.1", "labels": LABELS, "folder": tmp_path / "m"}
    llama.moments(**given)
    before = content(tmp_path / "m")
    other, message = CHANGES[change]
    with pytest.raises(FileError, match=message):
        llama.moments(**{**given, **other})
    with pytest.raises(FileError, match="the choice of rows or moments changed"):
        write_store(llama, TEXTS, tmp_path / "m", "resid.1")
    with torch.no_grad():
        llama.anatomy.blocks[0].mlp.down_proj.weight[0, 0] += 0.5
    with pytest.raises(FileError, match="the model changed"):
        llama.moments(**given)
    assert content(tmp_path / "m") == before


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_damaged_moments_are_told_in_one_line(llama: TextModel, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    llama.moments(TEXTS, "resid.1", folder=tmp_path / "m")
    damage(tmp_path / "m" / "moments.safetensors")
    with pytest.raises(FileError, match="is damaged: delete it") as told:
        load_moments(tmp_path / "m")
    assert "\n" not in str(told.value)
    (tmp_path / "m" / "moments.safetensors").unlink(missing_ok=True)
    assert llama.moments(TEXTS, "resid.1", folder=tmp_path / "m")


def test_what_selects_nothing_is_refused(llama: TextModel) -> None:
    with pytest.raises(ModelError, match="selects nothing in any input"):
        llama.moments(TEXTS, "resid.1", "from-120/none")
    with pytest.raises(CovecError, match="there are no inputs"):
        llama.moments([], "resid.1")


def test_a_tally_of_the_endless_is_that_of_its_rows() -> None:
    """The model of the memory test is a model: its moments are those of its rows."""
    model = endless_model()
    (moments,) = model.moments(endless(10_000), "resid.0").values()
    rows = model.capture(list(endless(10_000)), "resid.0", "content/none")["resid.0"]
    torch.testing.assert_close(moments.mean().float(), rows.mean(0), rtol=0, atol=1e-5)
    assert moments.count() == len(rows) == 10_000 - 10_000 // LENGTH
    assert Tally().inputs == 0
