"""Stores beside their peers, and a capture through a store beside the bare forward pass.

Usage: python benchmarks/store.py [FILE.jsonl]   (texts for the capture; without one only the storage is raced)

Storage: 50,000 rows of width 576 at four sites in float32, written, then 1,000 random rows of one site read; the raw
floor is one `numpy.memmap` a site, flushed and synced as the store's shards are. Zarr takes part where it is installed.
All sides write the same rows and must read the same ones; times are the best of interleaved rounds. Capture: the same
texts in batches of similar length through the blocks up to the site and nothing else, into memory, into moments and
into a store, in turn, by the processor's time on one thread; all sites see a quarter of the texts.
"""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import covec
from covec.activations import shards
from covec.activations.capture import forward, read
from covec.activations.corpus import Texts
from covec.activations.identity import CONTENT
from covec.activations.rows import Activations
from covec.activations.shard_files import write_shard
from covec.activations.store import ActivationStore
from covec.activations.stream import WINDOW_BYTES, WINDOW_TOKENS, Window
from covec.models.batching import TOKEN_BUDGET, pack, pad
from covec.models.positions import Position
from covec.models.sites import Site
from covec.writing import sync

ROWS, WIDTH, READ, ROUNDS = 50_000, 576, 1000, 9
SITES = [Site("resid", block) for block in (5, 10, 15, 20)]


def main(files: list[str]) -> None:
    """Print both races."""
    torch.set_num_threads(1)
    storage()
    if files:
        capture(Texts(Path(files[0])))


def storage() -> None:
    """Write and random read, a row a side."""
    rows = {site: torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(site.block)) for site in SITES}
    index = np.random.default_rng(0).integers(0, ROWS, READ)
    expected = rows[SITES[2]][torch.from_numpy(index)].numpy()
    sides: dict[str, tuple[Callable[..., None], Callable[..., Callable[[np.ndarray], Any]]]] = {
        "store": (write_store, read_store),
        "numpy.memmap": (write_memmap, lambda folder: lambda index: opened(folder, SITES[2])[index]),
    }
    if importlib.util.find_spec("zarr"):
        sides["zarr"] = (write_zarr, read_zarr)
    times: dict[str, list[tuple[float, ...]]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, (write, reader) in sides.items():
            with tempfile.TemporaryDirectory() as folder:
                written = timed(lambda write=write, folder=folder: write(Path(folder), rows))
                take = reader(Path(folder))
                reads = [timed(lambda take=take: take(index)) for _ in range(2)]  # the first one checks
                assert np.array_equal(take(index), expected), name
                times[name].append((written, *reads))
    size = ROWS * WIDTH * 4 * len(SITES) / 2**20
    for name, rounds in times.items():
        written, first, later = map(min, zip(*rounds, strict=True))
        reading = f"{READ} random rows {1000 * first:6.1f} ms, again {1000 * later:6.1f} ms"
        print(f"{name:<14} write {size / written:7.0f} MiB/s   {reading}")


def write_store(folder: Path, rows: dict[Site, torch.Tensor]) -> None:
    position, each = Position.parse("last"), WINDOW_BYTES // (4 * WIDTH * len(SITES))
    shards.write_ledger(
        folder,
        {CONTENT: "rows", "position": str(position), "dtype": "float32", "sites": [str(site) for site in SITES],
         "label sets": []},
    )  # fmt: skip
    for first in range(0, ROWS, min(each, WINDOW_TOKENS)):
        part = {site: whole[first : first + min(each, WINDOW_TOKENS)] for site, whole in rows.items()}
        inputs = range(first, first + len(part[SITES[0]]))
        write_shard(folder, Window(inputs, Activations(part, position), {}, "", len(inputs)), torch.float32)


def opened(folder: Path, site: Site, mode: str = "r") -> Any:
    return np.memmap(folder / f"{site}.bin", np.float32, mode, shape=(ROWS, WIDTH))


def write_memmap(folder: Path, rows: dict[Site, torch.Tensor]) -> None:
    for site, whole in rows.items():
        file = opened(folder, site, "w+")
        file[:] = whole.numpy()
        file.flush()


def write_zarr(folder: Path, rows: dict[Site, torch.Tensor]) -> None:
    import zarr

    for site, whole in rows.items():
        made = zarr.create_array(folder / f"{site}.zarr", shape=whole.shape, chunks=(4096, WIDTH), dtype="float32")
        made[:] = whole.numpy()
    sync(folder)


def read_store(folder: Path) -> Callable[[np.ndarray], Any]:
    store = ActivationStore(folder)
    return lambda index: store.at(SITES[2], index).numpy()


def read_zarr(folder: Path) -> Callable[[np.ndarray], Any]:
    import zarr

    array = zarr.open_array(folder / f"{SITES[2]}.zarr", mode="r")
    return lambda index: array.oindex[index]


def capture(texts: Texts) -> None:
    """Tokens a second of the bare pass, and of what covec makes of it."""
    model = covec.load("smollm2-135m", dtype="float32", device="cpu")
    for sites, inputs in (("resid.15", list(texts)), ("resid.*", list(texts)[::4])):
        addresses, tokens = model.select(sites), model.tokenize(inputs)
        total = sum(len(item.ids) for item in tokens)

        def bare(addresses: Any = addresses, tokens: Any = tokens) -> None:
            with torch.no_grad():
                for rows in pack([len(item.ids) for item in tokens], TOKEN_BUDGET):
                    batch = pad(tokens, rows, pad_id=model.pad_id, masked=False, device=model.device)
                    with read(model, [addresses[-1]], lambda *_: None):
                        forward(model, batch)

        def kept(sites: str = sites, inputs: Any = inputs) -> None:
            folder = tempfile.mkdtemp()
            model.store(inputs, folder + "/store", sites, dtype="float16")
            shutil.rmtree(folder)

        sides: dict[str, Callable[[], object]] = {
            "bare pass": bare,
            "capture": lambda sites=sites, inputs=inputs: model.capture(inputs, sites, "content/none"),
            "moments": lambda sites=sites, inputs=inputs: model.moments(inputs, sites),
            "store": kept,
        }
        times: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(2):
            for name, side in sides.items():
                times[name].append(timed(side, time.process_time))
        floor = statistics.median(times["bare pass"])
        for name, seconds in times.items():
            ratios = [one / base for one, base in zip(seconds, times["bare pass"], strict=True)]
            print(f"{sites:<10} {name:<10} {total / statistics.median(seconds):7.0f} tokens/s   "
                  f"{statistics.median(ratios):.2f} of the bare pass ({floor:.1f} s)", flush=True)  # fmt: skip


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


if __name__ == "__main__":
    main(sys.argv[1:])
