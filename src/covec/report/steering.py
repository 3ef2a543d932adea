"""The page of the bench of steering: what holds in words, curves of dose and response, and texts side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from covec.bench.steering.result import PROMPTED, RIVALS, Comparison, Row, SteeringBench
from covec.report.pages import digest, environment
from covec.report.svg import colour, drawing, inline, name_above, name_below
from covec.report.words import fixed, number
from covec.writing import whole_file

KINDS = {"method": "method", "null": "null", "prompt": "prompt", "plain": "none"}
SHOWN = 3  # prompts whose texts are shown for each concept
_LEVELS = 9
_NAMES = {
    "shuffled-labels": "a vector of shuffled labels",
    "wrong-concept": "a vector of another concept",
    "random-direction": "a random direction",
    "prompting": "prompting",
    "few-shot-prompting": "prompting with examples",
}


@dataclass(frozen=True)
class Shade:
    """A cell of the selectivity matrix: what steering adds to a concept, with the colour it has."""

    text: str
    level: int


@dataclass(frozen=True)
class Sample:
    """A text and how it came about."""

    label: str
    text: str
    steered: bool


def write_steering(bench: SteeringBench, path: str | Path) -> None:
    """Write the page of `bench` to `path`, whole or not at all.

    Raises
    ------
    FileError
        `path` cannot be written.
    """
    with whole_file(path) as draft:
        draft.write_bytes(page(bench))


def page(bench: SteeringBench) -> bytes:
    """The page as one HTML document that fetches nothing."""
    text = environment().get_template("steering.html").render(
        bench=bench, kinds=KINDS, verdicts=verdicts(bench), best=best_names(bench), names=_NAMES,
        curves={name: [curve(bench, name, "score"), curve(bench, name, "presence")] for name in bench.concepts},
        forest=forest(bench), matrices=matrices(bench), samples={name: samples(bench, name) for name in bench.concepts},
        script_digest=digest("script.js"),
    )  # fmt: skip
    return text.encode("utf-8", "xmlcharrefreplace")


def best_names(bench: SteeringBench) -> dict[str, str]:
    """For each concept its best methods, with their divergence, as chosen on either half of the prompts."""
    found = {}
    for name, picked in bench.winners.items():
        told = dict.fromkeys(f"{row.method} at {row.wanted:g} nats" for _, row in picked)
        found[name] = " and ".join(told)
    return found


def verdicts(bench: SteeringBench) -> list[str]:
    """What the bench says, a sentence each: against nulls at equal divergence, and against prompting."""
    overall = {one.rival: one for one in bench.comparisons if not one.concept}
    said = [_sentence(overall[rival], "at the same divergence, ") for rival in RIVALS if rival in overall]
    return said + [_sentence(overall[rival], "") for rival in PROMPTED if rival in overall]


def _sentence(found: Comparison, where: str) -> str:
    figure, name = found.score, _NAMES[found.rival]
    said = {"better": "beats", "worse": "does worse than", "no different": "is no different from"}[found.verdict]
    low, high = (figure.value if end is None else end for end in (figure.low, figure.high))
    gain, ends = fixed(figure.value, signed=True), f"{fixed(low)} to {fixed(high)}"
    return f"The best method {said} {name}: {where}its score differs by {gain} ({ends}, paired over prompts)."


def curve(bench: SteeringBench, concept: str, what: str) -> Markup:
    """Score or presence by divergence for one concept; the best method, plain addition and nulls stand out."""
    best = bench.winners[concept][0][1].method if concept in bench.winners else ""
    with drawing(230, left=40) as (figure, (axis,)):
        titles, said = {}, []
        for method, kind in sorted(bench.methods.items(), key=lambda one: one[0] in (best, "addition")):
            points = [(row.nats, _value(row, what)) for row in bench.curve(concept, method) if row.nats]
            if points:
                nats, values = zip(*points, strict=True)
                ink, width, dashes = _style(method, kind, best)
                look: dict[str, Any] = {
                    "color": colour(ink),
                    "linewidth": width,
                    "markersize": width + 1.5,
                    "dashes": dashes,
                }
                axis.plot(nats, values, "o-", gid=f"line-{method}", **look)
                titles[f"line-{method}"] = method
                said.append(f"{method} {', '.join(number(one) for one in values)}")
        for method in ("unsteered", "prompting"):
            for row in bench.curve(concept, method):
                axis.axhline(_value(row, what), color=colour("ink"), linewidth=1, dashes=(1, 2))
                axis.annotate(
                    method, (1, _value(row, what)), (0, 2), xycoords=("axes fraction", "data"),
                    textcoords="offset points", ha="right", fontsize=9, color=colour("muted"),
                )  # fmt: skip
        axis.set(xscale="log", ylim=(0, 1.02))
        doses = bench.settings["doses"]
        axis.set_xticks(doses, [f"{one:g}" for one in doses])
        axis.minorticks_off()
        name_above(axis, what)
        name_below(axis, "KL a token on neutral text, nats")
        return inline(figure, f"{what} of {concept} by divergence. {'; '.join(said)}", titles)


def _value(row: Row, what: str) -> float:
    return float(row.scores.mean()) if what == "score" else row.part(what)


def _style(method: str, kind: str, best: str) -> tuple[str, float, tuple[float, float]]:
    """Colour, width and dashes of a line."""
    if method == best:
        return "accent", 2.5, (1, 0)
    if method == "addition":
        return "test", 2.0, (1, 0)
    return ("chance", 1.2, (4, 3)) if kind == "null" else ("other", 1.5, (1, 0))


def forest(bench: SteeringBench) -> Markup | None:
    """What the best method gains in score over each rival, over all concepts and for each."""
    if not bench.comparisons:
        return None
    rows = [(one.concept or f"less {one.rival}", one) for one in bench.comparisons]
    with drawing(44 + 19 * len(rows), left=150, top=6) as (figure, (axis,)):
        axis.axvline(0, color=colour("chance"), linewidth=1, dashes=(4, 3))
        for place, (_, one) in enumerate(rows):
            ink = "muted" if one.concept else "accent"
            low, high = (one.score.value if end is None else end for end in (one.score.low, one.score.high))
            axis.plot([low, high], [place, place], color=colour(ink), linewidth=2, solid_capstyle="butt")
            axis.plot(one.score.value, place, "o" if one.concept else "D", color=colour(ink), markersize=5)
        axis.set_ylim(len(rows) - 0.5, -0.7)
        axis.set_yticks(range(len(rows)), [name[:26] for name, _ in rows])
        for text, (_, one) in zip(axis.get_yticklabels(), rows, strict=True):
            text.set_color(colour("muted" if one.concept else "ink"))
        axis.grid(visible=False)
        name_below(axis, "gain in score by the best method")
        return inline(
            figure, "Paired differences. " + "; ".join(f"{one.rival} {one.concept} {one.score}" for _, one in rows)
        )


def matrices(bench: SteeringBench) -> dict[str, Mapping[str, list[Shade]]]:
    """What steering towards each concept (rows) adds to the presence of all (columns), for ways worth comparing."""
    best = next((one.method for one in bench.summaries if one.kind == "method"), None)
    chosen = dict.fromkeys(name for name in (best, "addition", "prompting") if name in bench.methods)
    return {
        method: {
            concept: [_shade(value) for value in row.values()] for concept, row in bench.selectivity(method).items()
        }
        for method in chosen
        if method is not None
    }


def _shade(value: float) -> Shade:
    return Shade(fixed(value, signed=True), min(_LEVELS, max(0, round(value * _LEVELS))))


def samples(bench: SteeringBench, concept: str) -> list[tuple[str, list[Sample]]]:
    """For some prompts what was written unsteered, asked for, under the best method by dose, and under a null."""
    if concept not in bench.winners:
        return []
    (_, best), _ = bench.winners[concept]
    found = []
    for place in np.linspace(0, len(bench.prompts) - 1, min(SHOWN, len(bench.prompts))).astype(int):
        rows = [(row, name, False) for name in ("unsteered", "prompting") for row in bench.curve(concept, name)]
        rows += [(row, _dosed(row), True) for row in bench.curve(concept, best.method)]
        nulls = bench.curve(concept, "shuffled-labels")
        rows += [(row, _dosed(row), False) for row in nulls if row.wanted == best.wanted]
        found.append((bench.prompts[place], _samples(rows, place)))
    return found


def _dosed(row: Row) -> str:
    return f"{row.method}, {row.wanted:g} nats"


def _samples(rows: Sequence[tuple[Row, str, bool]], place: int) -> list[Sample]:
    return [Sample(label, row.texts[place].strip() or "(nothing)", steered) for row, label, steered in rows]
