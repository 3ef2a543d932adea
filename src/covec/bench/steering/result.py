"""What the bench of steering found: a row a concept, way and dose, and what the rows say together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from covec import registry
from covec.statistics.figure import Figure
from covec.statistics.means import mean_figure
from covec.writing import whole_folder

RIVALS = ("shuffled-labels", "wrong-concept", "random-direction")  # at equal divergence
PROMPTED = ("prompting", "few-shot-prompting")
PARTS = ("presence", "fluency", "relevance")


@dataclass(frozen=True)
class Row:
    """One way to steer towards one concept at one dose; lists have an entry a prompt.

    `wanted` and `nats` are the divergence a token that was wanted and found, None where nothing is edited. `presence`
    is the judge's probability of the concept, `others` the means of its probabilities of the other concepts, `strain`
    the perplexity of each text under the unsteered model over that of the unsteered text, `repetition` the share of
    repeated word triples, `relevance` that of other prompts less like the text, `known` that of questions answered.
    """

    concept: str
    method: str
    kind: str
    wanted: float | None
    nats: float | None
    strength: float | None
    presence: tuple[float, ...]
    others: Mapping[str, float]
    strain: tuple[float, ...]
    repetition: tuple[float, ...]
    relevance: tuple[float, ...]
    known: float
    texts: tuple[str, ...]
    seconds: float

    @property
    def fluency(self) -> Float[np.ndarray, "prompts"]:
        """From 0 to 1: how near its perplexity is to the unsteered one, times the share that is no repeat."""
        return np.minimum(1.0, 1 / np.array(self.strain)) * (1 - np.array(self.repetition))

    @property
    def scores(self) -> Float[np.ndarray, "prompts"]:
        """The harmonic mean of presence, fluency and relevance: low where one of them is."""
        parts = np.stack([np.asarray(getattr(self, name), dtype=float) for name in PARTS])
        with np.errstate(divide="ignore"):
            return len(PARTS) / (1 / parts).sum(0)

    def part(self, name: str) -> float:
        """Mean over prompts of `presence`, `fluency` or `relevance`."""
        return float(np.mean(getattr(self, name)))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Row:
        """Read back what `to_json` wrote."""
        known: dict[str, Any] = {one.name: document[one.name] for one in fields(cls)}
        lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        return cls(**{**known, **lists})


@dataclass(frozen=True)
class Summary:
    """One way over all concepts, at the dose that was best on the other half of the prompts."""

    method: str
    kind: str
    score: Figure
    presence: float
    fluency: float
    relevance: float
    strain: float
    repetition: float
    known: float
    nats: float | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "score": self.score.to_json()}


@dataclass(frozen=True)
class Comparison:
    """The best method less a rival on the same prompts: what the score gains, and what the presence does.

    `concept` is empty where it is a mean over all concepts. Against nulls both have the same divergence.
    """

    rival: str
    concept: str
    score: Figure
    presence: Figure

    @property
    def verdict(self) -> str:
        """In a word: `better`, `worse`, or `no different` where the interval holds zero."""
        low, high = self.score.low, self.score.high
        return "no different" if low is None or high is None or low <= 0 <= high else "better" if low > 0 else "worse"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "rival": self.rival, "concept": self.concept, "score": self.score.to_json(),
            "presence": self.presence.to_json(), "verdict": self.verdict,
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class SteeringBench:
    """Everything that was run, and what it was run on."""

    model: Mapping[str, Any]
    prompts: tuple[str, ...]
    rows: tuple[Row, ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...]
    seconds: float
    reused: int

    @cached_property
    def concepts(self) -> tuple[str, ...]:
        """The names of the concepts."""
        return tuple(dict.fromkeys(row.concept for row in self.rows))

    @cached_property
    def methods(self) -> Mapping[str, str]:
        """All ways, with their kinds."""
        return {row.method: row.kind for row in self.rows}

    @cached_property
    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Two halves of the prompts: what is chosen on one is judged on the other."""
        even = np.arange(len(self.prompts)) % 2 == 0
        return even, ~even

    def curve(self, concept: str, method: str) -> list[Row]:
        """The rows of one way for one concept, by dose."""
        return [row for row in self.rows if (row.concept, row.method) == (concept, method)]

    def picked(self, rows: Sequence[Row]) -> list[tuple[np.ndarray, Row]]:
        """For each half of the prompts, the row that is best on the other half."""
        return [(half, max(rows, key=lambda row: float(row.scores[~half].mean()))) for half in self.halves]

    def crossed(self, rows: Sequence[Row], name: str = "scores") -> Float[np.ndarray, "prompts"]:
        """A value a prompt, from the row that is best on the half of the prompts that it is not in."""
        found = np.zeros(len(self.prompts))
        for half, row in self.picked(rows):
            found[half] = np.asarray(getattr(row, name), dtype=float)[half]
        return found

    def score(self, concept: str, method: str) -> Figure:
        """The score of one way for one concept, at the dose chosen on the other prompts."""
        return mean_figure(self.crossed(self.curve(concept, method)), "mean over prompts, dose from the other half")

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """Every way, the best score first."""
        found = [self._summary(method) for method in self.methods]
        return tuple(sorted(found, key=lambda one: -one.score.value))

    @cached_property
    def winners(self) -> Mapping[str, list[tuple[np.ndarray, Row]]]:
        """For each concept, the best method and dose of each half of the prompts, chosen on the other half."""
        methods = {
            name: [row for row in self.rows if (row.concept, row.kind) == (name, "method")] for name in self.concepts
        }
        return {name: self.picked(rows) for name, rows in methods.items() if rows}

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The best method against nulls at its divergence, and against prompting: over all concepts, then for each."""
        found = []
        for rival in (*RIVALS, *PROMPTED):
            gaps = {name: self._gaps(name, rival) for name in self.winners}
            each = {name: gap for name, gap in gaps.items() if gap is not None}
            if each:
                found.append(_compared(rival, "", np.mean(list(each.values()), axis=0)))
                found += [_compared(rival, name, gap) for name, gap in each.items()]
        return tuple(found)

    @cached_property
    def against_addition(self) -> Mapping[str, Comparison]:
        """Each other method less plain addition, at equal divergence: a mean over doses and concepts, by prompt."""
        found = {}
        for method, kind in self.methods.items():
            if kind != "method" or method == "addition" or "addition" not in self.methods:
                continue
            gaps = [gap for concept in self.concepts for gap in self._dosed_gaps(concept, method)]
            if gaps:
                found[method] = _compared("addition", "", np.mean(gaps, axis=0))
        return found

    def selectivity(self, method: str) -> Mapping[str, Mapping[str, float]]:
        """What steering towards each concept adds to the presence of every one, at the best dose of all prompts."""
        found = {}
        for concept in self.concepts:
            if rows := self.curve(concept, method):
                best = max(rows, key=lambda row: float(row.scores.mean()))
                (plain,) = self.curve(concept, "unsteered")
                all_of = {**best.others, concept: best.part("presence")}
                before = {**plain.others, concept: plain.part("presence")}
                found[concept] = {name: all_of[name] - before[name] for name in self.concepts}
        return found

    def summary(self) -> dict[str, Any]:
        """What `covec bench steer --json` prints."""
        return {
            "bench": "steer",
            "model": dict(self.model),
            "concepts": list(self.concepts),
            "prompts": list(self.prompts),
            "methods": [one.to_json() for one in self.summaries],
            "comparisons": [one.to_json() for one in self.comparisons],
            "against_addition": {name: one.to_json() for name, one in self.against_addition.items()},
            "selectivity": {name: self.selectivity(name) for name, kind in self.methods.items() if kind != "plain"},
            "rows": [
                {**row.to_json(), "fluency": row.fluency.tolist(), "scores": row.scores.tolist()} for row in self.rows
            ],
            "settings": dict(self.settings),
            "notes": list(self.notes),
            "reused": self.reused,
            "seconds": self.seconds,
        }

    def write(self, folder: str | Path) -> None:
        """Write bench.html, bench.json and bench.parquet into a new or old folder."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        document = json.dumps(self.summary(), ensure_ascii=False, indent=1, allow_nan=False)
        with whole_folder(folder) as draft:
            pq.write_table(pa.Table.from_pylist(list(self._flat())), draft / "bench.parquet")
            registry.resolve("report.steering")(self, draft / "bench.html")
            (draft / "bench.json").write_text(document + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        return f"SteeringBench({len(self.concepts)} concepts, {len(self.methods)} ways, {len(self.rows)} rows)"

    def _summary(self, method: str) -> Summary:
        curves = [rows for concept in self.concepts if (rows := self.curve(concept, method))]
        scores = np.mean([self.crossed(rows) for rows in curves], axis=0)
        picked = [row for rows in curves for _, row in self.picked(rows)]
        nats = [row.nats for row in picked if row.nats is not None]
        parts = {name: float(np.mean([self.crossed(rows, name) for rows in curves])) for name in (*PARTS, "repetition")}
        return Summary(
            method, self.methods[method], mean_figure(scores, f"mean over {len(curves)} concepts, by prompt"),
            strain=float(np.exp(np.mean([np.log(self.crossed(rows, "strain")) for rows in curves]))),
            known=float(np.mean([row.known for row in picked])), nats=float(np.mean(nats)) if nats else None,
            seconds=float(np.mean([rows[0].seconds for rows in curves])), **parts,
        )  # fmt: skip

    def _gaps(self, concept: str, rival: str) -> Float[np.ndarray, "2 prompts"] | None:
        """Score and presence of the concept's winner less those of a rival; None where that has no row."""
        found = np.zeros((2, len(self.prompts)))
        for half, best in self.winners[concept]:
            other = next((row for row in self.curve(concept, rival) if row.wanted in (None, best.wanted)), None)
            if other is None:
                return None
            found[:, half] = _difference(best, other)[:, half]
        return found

    def _dosed_gaps(self, concept: str, method: str) -> Iterator[Float[np.ndarray, "2 prompts"]]:
        plain = {row.wanted: row for row in self.curve(concept, "addition")}
        for row in self.curve(concept, method):
            if row.wanted in plain:
                yield _difference(row, plain[row.wanted])

    def _flat(self) -> Iterator[dict[str, Any]]:
        """A line a concept, way, dose and prompt."""
        for row in self.rows:
            fluency, scores = row.fluency, row.scores
            for place, prompt in enumerate(self.prompts):
                yield {
                    "concept": row.concept, "method": row.method, "kind": row.kind, "wanted": row.wanted,
                    "nats": row.nats, "strength": row.strength, "prompt": prompt, "text": row.texts[place],
                    "score": float(scores[place]), "presence": row.presence[place], "fluency": float(fluency[place]),
                    "relevance": row.relevance[place], "strain": row.strain[place],
                    "repetition": row.repetition[place], "known": row.known,
                }  # fmt: skip


def _difference(one: Row, other: Row) -> Float[np.ndarray, "2 prompts"]:
    return np.stack([one.scores - other.scores, np.array(one.presence) - np.array(other.presence)])


def _compared(rival: str, concept: str, gaps: Float[np.ndarray, "2 prompts"]) -> Comparison:
    how = "paired difference, mean over prompts"
    return Comparison(rival, concept, mean_figure(gaps[0], how, null=0.0), mean_figure(gaps[1], how, null=0.0))
