"""Races: contenders that compute the same thing, in turn, by the processor's time on one thread.

A race is a list of heats; a heat is a list of contenders, in this process (`Local`) or in an environment of a peer's
own (`Remote`: a task of a `Worker`). All results are compared before any clock starts, which also warms everybody up.
Then the contenders run in rounds, so that a ratio is one of neighbours in time; what counts is the median of the
ratios with its sign-test interval. `race` writes the result to benchmarks/results, from which page.py makes the page.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, here and in the workers

import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from covec.models.hardware import multiplies_bfloat16
from covec.writing import whole_file

RESULTS = Path(__file__).parent / "results"
ROUNDS = 7  # from six on the sign-test interval of a median holds 95%
Arrays = Mapping[str, np.ndarray]

torch.set_num_threads(1)


@dataclass(frozen=True)
class Seconds:
    """What one run took."""

    cpu: float
    wall: float


class Contender(Protocol):
    """Whoever takes part in a heat; `absent` says why it cannot, also once `result` has been tried."""

    name: str
    absent: str | None

    def result(self) -> Arrays: ...

    def time(self) -> Seconds: ...


class Local:
    """`work` in this process; what it returns is an array or a mapping of arrays.

    `times` runs are timed as one, after the scope `around` them has been entered.
    """

    absent = None

    def __init__(
        self,
        name: str,
        work: Callable[[], Any],
        times: int = 1,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.name, self.work, self.times, self.around = name, work, times, around

    def result(self) -> Arrays:
        with self.around():
            return arrays(self.work())

    def time(self) -> Seconds:
        with self.around():
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(self.times):
                self.work()
            return Seconds((time.process_time() - cpu) / self.times, (time.perf_counter() - wall) / self.times)


class Difference:
    """What `more` takes beyond `less`, run one after the other; the result is that of `more`."""

    def __init__(self, name: str, more: Contender, less: Contender) -> None:
        self.name, self.more, self.less = name, more, less
        self.absent = more.absent or less.absent

    def result(self) -> Arrays:
        self.less.result()
        return self.more.result()

    def time(self) -> Seconds:
        less, more = self.less.time(), self.more.time()
        return Seconds(more.cpu - less.cpu, more.wall - less.wall)


@dataclass(frozen=True)
class Wanted:
    """A number to reach: the time of `of`, as a ratio to that of `to` or in seconds."""

    of: str
    to: str | None = None
    at_most: float | None = None
    at_least: float | None = None


@dataclass
class Heat:
    """Contenders that compute the same, the one that the others are compared with first.

    `distance` of a result to the first one's must not exceed `tolerance`. Those `beside` run in the same rounds and
    compute something else, as a measure. `note` is a paragraph of the page; `arithmetic` makes a sentence of the median
    times, by name, where a number wanted is out of reach.
    """

    name: str
    contenders: Sequence[Contender]
    tolerance: float
    note: str = ""
    beside: Sequence[Contender] = ()
    wanted: Sequence[Wanted] = ()
    rounds: int = ROUNDS
    arithmetic: Callable[[Mapping[str, float]], str] | None = None
    distance: Callable[[Arrays, Arrays], float] = field(default=lambda found, first: largest_difference(found, first))


def arrays(result: Any) -> Arrays:
    """A result as NumPy arrays by name."""
    named = result if isinstance(result, Mapping) else {"": result}
    return {str(name): _array(value) for name, value in named.items()}


def _array(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach().float() if value.is_floating_point() else value
        return value.cpu().numpy()
    return np.asarray(value)


def largest_difference(found: Arrays, first: Arrays) -> float:
    """The largest difference of two results, each row by its largest entry, over the arrays that both have."""
    shared = found.keys() & first.keys()
    if not shared:
        raise ValueError(f"nothing to compare: {sorted(found)} and {sorted(first)}")
    if strange := next((name for name in shared if found[name].shape != first[name].shape), None):
        raise ValueError(f"{strange}: {found[strange].shape} and {first[strange].shape}")
    return max(float((_rows(found[name] - first[name]) / _rows(first[name])).max()) for name in shared)


def _rows(values: np.ndarray) -> np.ndarray:
    return np.abs(np.atleast_1d(values)).astype(float).max(-1)


def race(name: str, title: str, about: str, heats: Sequence[Heat], versions: Mapping[str, str]) -> None:
    """Run all heats and write benchmarks/results/NAME.json; a result beyond the tolerance ends the race."""
    document = {
        "title": title,
        "about": about,
        "date": date.today().isoformat(),
        "machine": machine(),
        "versions": {**own_versions(), **versions},
        "heats": [_run(heat) for heat in heats],
    }
    RESULTS.mkdir(exist_ok=True)
    with whole_file(RESULTS / f"{name}.json") as draft:
        draft.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _run(heat: Heat) -> dict[str, Any]:
    everybody = [*heat.contenders, *heat.beside]
    print(f"{heat.name}: comparing results", flush=True)
    differences = _compare(heat)
    present = [one for one in everybody if one.absent is None]
    times: dict[str, list[Seconds]] = {one.name: [] for one in present}
    for number in range(heat.rounds):
        shift = number % len(present)
        for one in (*present[shift:], *present[:shift]):
            times[one.name].append(one.time())
        print(f"  round {number + 1}", {key: round(found[-1].cpu, 5) for key, found in times.items()}, flush=True)
    rows = [_row(one, times, differences, present[0].name) for one in everybody]
    medians = {name: statistics.median(one.cpu for one in found) for name, found in times.items()}
    return {
        "name": heat.name,
        "note": heat.note,
        "rounds": heat.rounds,
        "tolerance": heat.tolerance,
        "contenders": rows,
        "wanted": [_judged(wanted, times) for wanted in heat.wanted],
        "arithmetic": "" if heat.arithmetic is None else heat.arithmetic(medians),
    }


def _compare(heat: Heat) -> dict[str, float]:
    """How far each result is from the first one; everybody who can has run once then."""
    found = {one.name: one.result() for one in (*heat.contenders, *heat.beside) if one.absent is None}
    first, *others = [one.name for one in heat.contenders if one.absent is None]
    differences = {name: heat.distance(found[name], found[first]) for name in others}
    for name, distance in differences.items():
        if not distance <= heat.tolerance:
            raise AssertionError(f"{heat.name}: {name} is {distance:.2g} from {first}")
    return differences


def _row(
    one: Contender, times: Mapping[str, list[Seconds]], differences: Mapping[str, float], first: str
) -> dict[str, Any]:
    if one.absent is not None:
        return {"name": one.name, "absent": one.absent}
    found = times[one.name]
    return {
        "name": one.name,
        "cpu": [_short(each.cpu) for each in found],
        "wall": [_short(each.wall) for each in found],
        "ratio": ratios(found, times[first]),
        "difference": _short(differences[one.name]) if one.name in differences else None,
    }


def _judged(wanted: Wanted, times: Mapping[str, list[Seconds]]) -> dict[str, Any]:
    asked = {key: value for key, value in vars(wanted).items() if value is not None}
    if wanted.of not in times or wanted.to not in (None, *times):
        return asked
    base = [Seconds(1.0, 1.0)] * len(times[wanted.of]) if wanted.to is None else times[wanted.to]
    found = ratios(times[wanted.of], base)
    low, high = wanted.at_least or 0.0, wanted.at_most or math.inf
    return {**asked, "found": found, "reached": low <= found[0] <= high}


def ratios(found: Sequence[Seconds], base: Sequence[Seconds]) -> list[float]:
    """Median of the ratios of each round's processor times, and the ends of its sign-test interval."""
    values = sorted(one.cpu / other.cpu for one, other in zip(found, base, strict=True))
    n, cut, tail = len(values), 0, 0.0
    while (tail := tail + math.comb(n, cut) / 2**n) <= 0.025:
        cut += 1
    cut = max(cut, 1)
    return [_short(value) for value in (statistics.median(values), values[cut - 1], values[n - cut])]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def machine() -> dict[str, Any]:
    """What the figures depend on, and nothing that tells whose machine it is."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": f"{round(os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30)} GiB",
        "system": platform.system(),
        "bfloat16": "native" if multiplies_bfloat16(torch.device("cpu")) else "emulated",
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def own_versions() -> dict[str, str]:
    """Versions of this environment."""
    return {"python": platform.python_version(), **{name: version(name) for name in ("covec", "torch", "transformers")}}
