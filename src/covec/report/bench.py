"""The page of a bench: methods by rank, what SuperActivators gain, every row, and every concept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from covec.bench.result import CHOSEN, REFERENCE, DetectionBench, Difference, Ranking
from covec.report.pages import digest, environment
from covec.report.svg import colour, drawing, inline, name_below
from covec.report.sweep import level
from covec.report.words import number
from covec.statistics.figure import Figure
from covec.writing import whole_file

KINDS = {"finder": "vector", "control": "control", "text": "raw text"}


@dataclass(frozen=True)
class Shade:
    """A method's AUROC on one concept, with the colour it has."""

    text: str
    level: int
    title: str


def write_bench(bench: DetectionBench, path: str | Path) -> None:
    """Write the page of `bench` to `path`, whole or not at all.

    Raises
    ------
    FileError
        `path` cannot be written.
    """
    with whole_file(path) as draft:
        draft.write_bytes(page(bench))


def page(bench: DetectionBench) -> bytes:
    """The page as one HTML document that fetches nothing."""
    text = environment().get_template("bench.html").render(
        bench=bench, kinds=KINDS, pictures=[(one, ranks(one)) for one in bench.rankings],
        gains=_by_finder(bench.differences),
        forest=forest(bench), map=heat(bench), reference=REFERENCE, script_digest=digest("script.js"),
    )  # fmt: skip
    return text.encode("utf-8", "xmlcharrefreplace")


def ranks(ranking: Ranking) -> Markup:
    """Mean ranks, the best on top; what lies in the band is within the critical difference of the best."""
    order = np.argsort(ranking.ranks.mean, kind="stable")
    means, critical = ranking.ranks.mean[order], ranking.ranks.critical_difference
    with drawing(44 + 21 * len(order), left=132, top=6) as (figure, (axis,)):
        if critical is not None:
            axis.axvspan(means[0], means[0] + critical, color=colour("chance"), alpha=0.18, linewidth=0)
        axis.hlines(range(len(order)), 1, means, color=colour("rule"), linewidth=1)
        axis.plot(means, range(len(order)), "o", color=colour("accent"), markersize=7)
        for place, mean in enumerate(means):
            text = axis.annotate(number(mean, 1), (mean, place), (7, 0), textcoords="offset points", va="center")
            text.set(fontsize=10, color=colour("muted"))
        axis.set(xlim=(0.8, len(order) + 0.7), ylim=(len(order) - 0.5, -0.6))
        axis.set_yticks(range(len(order)), [ranking.names[one] for one in order])
        axis.grid(visible=False)
        name_below(axis, f"mean rank over {ranking.ranks.n} concepts, 1 is best")
        said = "; ".join(f"{ranking.names[one]} {number(mean, 1)}" for one, mean in zip(order, means, strict=True))
        return inline(figure, f"Mean ranks by {ranking.by}. {said}")


def forest(bench: DetectionBench) -> Markup | None:
    """What SuperActivators gain over each other aggregator in F1, over all concepts and for each."""
    gains: list[Difference] = [one for one in bench.differences if one.finder == CHOSEN]
    if not gains:
        return None
    rows = [(f"{gain.rival}", gain.overall, "accent") for gain in gains]
    for gain in gains:
        rows += [(f"{gain.rival}: {name}", figure, "muted") for name, figure in gain.concepts.items()]
    with drawing(44 + 19 * len(rows), left=150, top=6) as (figure, (axis,)):
        axis.axvline(0, color=colour("chance"), linewidth=1, dashes=(4, 3))
        for place, (_, value, ink) in enumerate(rows):
            low, high = (value.value if end is None else end for end in (value.low, value.high))
            axis.plot([low, high], [place, place], color=colour(ink), linewidth=2, solid_capstyle="butt")
            axis.plot(value.value, place, "D" if ink == "accent" else "o", color=colour(ink), markersize=5)
        axis.set_ylim(len(rows) - 0.5, -0.7)
        axis.set_yticks(range(len(rows)), [name[:26] for name, _, _ in rows])
        axis.grid(visible=False)
        name_below(axis, f"gain in test F1 by {REFERENCE}")
        return inline(figure, "Paired differences of F1. " + "; ".join(f"{name} {value}" for name, value, _ in rows))


def heat(bench: DetectionBench) -> Mapping[str, list[Shade]]:
    """Test AUROC of each method on each concept, the best mean rank first."""
    (by_auroc, *_) = bench.rankings
    found: dict[str, list[Shade]] = {}
    for place in np.argsort(by_auroc.ranks.mean, kind="stable"):
        name = by_auroc.names[place]
        found[name] = [
            Shade(number(row.auroc.value), level(row.auroc.value), _title(row)) for row in bench.methods[name]
        ]
    return found


def _by_finder(differences: Sequence[Difference]) -> dict[str, dict[str, Figure]]:
    """The gain over each other aggregator, finder by finder."""
    found: dict[str, dict[str, Figure]] = {}
    for one in differences:
        found.setdefault(one.finder, {})[one.rival] = one.overall
    return found


def _title(row: Any) -> str:
    place = f" at {row.site}, {row.position}, {row.aggregator}" if row.site else ""
    return f"{row.method} on {row.concept}{place}: AUROC {row.auroc}; F1 {row.f1}"
