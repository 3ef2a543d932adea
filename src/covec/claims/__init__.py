"""Claims: what each published system says of itself, tested at laptop scale by code anyone can run.

One file a system, `claims/<id with underscores>.py`, with a function `claim(reduced=False) -> Claim`. A rule is written
down before the run and never loosened to fit: a claim that does not hold here is reported as such. On two cores a claim
takes two minutes at most, and one that trains an edit five; the latter say so.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from covec.catalog import packaged_texts, result_path, system
from covec.errors import CovecError
from covec.statistics.figure import Figure
from covec.writing import whole_file

SHOWN = "shown, no rule"  # of a figure that the claim does not rest on
VERSIONS_OF = ("covec", "torch", "transformers", "numpy", "scikit-learn")


@dataclass(frozen=True)
class ClaimFigure:
    """One number a claim rests on: what it is compared with, the rule in words, and whether that holds."""

    name: str
    figure: Figure
    baseline: Figure | float | None
    rule: str
    holds: bool

    @property
    def beside(self) -> str:
        """The figure and, where there is one, its baseline."""
        baseline = self.baseline if isinstance(self.baseline, Figure | None) else Figure(self.baseline)
        return f"{self.figure}" + ("" if baseline is None else f"; baseline {baseline}")

    def to_json(self) -> dict[str, Any]:
        """As `covec claims --json` prints it."""
        baseline = self.baseline.to_json() if isinstance(self.baseline, Figure) else self.baseline
        return {
            "name": self.name,
            "figure": self.figure.to_json(),
            "baseline": baseline,
            "rule": self.rule,
            "holds": bool(self.holds),
        }


@dataclass(frozen=True)
class Claim:
    """What the run of a system's claim gave; it passes where every figure's rule holds.

    `processor_seconds` are those of all cores together: an idle machine needs no more `seconds` than that.
    """

    id: str
    figures: tuple[ClaimFigure, ...]
    seconds: float = 0.0
    processor_seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every rule holds."""
        return bool(self.figures) and all(figure.holds for figure in self.figures)

    @property
    def rules(self) -> tuple[ClaimFigure, ...]:
        """The figures that it rests on: those that are only shown left out."""
        return tuple(figure for figure in self.figures if figure.rule != SHOWN)

    def __str__(self) -> str:
        outcome = "holds" if self.passed else "fails here"
        lines = [f"{self.id}: {outcome}, {self.seconds:.0f} s ({self.processor_seconds:.0f} s of processor time)"]
        for figure in self.figures:
            holds = "   " if figure.rule == SHOWN else "yes" if figure.holds else "NO "
            lines.append(f"  {holds}  {figure.name}: {figure.beside}; {figure.rule}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """As `covec claims ID --json` prints it."""
        return {
            "id": self.id,
            "passed": self.passed,
            "figures": [figure.to_json() for figure in self.figures],
            "seconds": round(self.seconds, 2),
            "processor_seconds": round(self.processor_seconds, 2),
        }


def available() -> tuple[str, ...]:
    """Ids of all systems whose claim can be run."""
    files = Path(__file__).parent.glob("*.py")
    return tuple(sorted(file.stem.replace("_", "-") for file in files if not file.stem.startswith("_")))


def run(id: str, *, reduced: bool = False) -> Claim:
    """Run the claim of the system `id`; `reduced` runs the same code on a setting of seconds, which proves nothing."""
    known = system(id)  # an unknown id is told from one without a claim
    if id not in available():
        raise CovecError(f"the claim of {known.name} is not written yet; these are: {', '.join(available())}")
    begun, worked = time.perf_counter(), time.process_time()
    claim: Claim = importlib.import_module(f"covec.claims.{id.replace('-', '_')}").claim(reduced=reduced)
    return replace(claim, seconds=time.perf_counter() - begun, processor_seconds=time.process_time() - worked)


def write(claim: Claim) -> Path:
    """Record `claim` in the catalog, with what it ran on; returns the file."""
    texts = packaged_texts()
    document = {
        **claim.to_json(),
        "date": datetime.now(UTC).date().isoformat(),
        "digest": system(claim.id).digest(texts),
        "texts": texts,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version(), **{name: version(name) for name in VERSIONS_OF}},
    }
    path = result_path(claim.id)
    with whole_file(path) as draft:
        draft.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
