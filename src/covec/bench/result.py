"""What a bench found: a row a concept, method and aggregator, and what the rows say together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from covec import registry
from covec.statistics.auroc import auroc, f1
from covec.statistics.figure import Figure
from covec.statistics.intervals import auroc_figure, f1_difference, f1_figure
from covec.statistics.means import mean_figure
from covec.statistics.ranks import Ranks, mean_ranks
from covec.writing import whole_folder

if TYPE_CHECKING:
    from covec.bench._subject import Trial

REFERENCE = "super-activators"  # the aggregator that all others are compared with
CHOSEN = "chosen on validation"


@dataclass(frozen=True)
class Row:
    """One method on one concept, with one aggregator; its place and threshold were chosen on validation rows.

    `kind` is `finder`, `control` or `text`; the last has no aggregator, site and position. `validation` holds AUROC and
    F1 there. `seconds` of the processor and `memory` (MB at the peak) are what the fit at all sites took. `fires` has a
    letter a test row, 1 where the concept was called present.
    """

    concept: str
    method: str
    kind: str
    auroc: Figure
    f1: Figure
    validation: tuple[float, float]
    seconds: float
    memory: float | None
    fires: str
    aggregator: str = ""
    site: str = ""
    position: str = ""
    stability: Figure | None = None

    @property
    def decisions(self) -> Bool[np.ndarray, "test"]:
        """`fires` as an array."""
        return np.array(list(self.fires)) == "1"

    def to_json(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        found = {name: getattr(self, name) for name in (one.name for one in fields(self))}
        return {name: value.to_json() if isinstance(value, Figure) else value for name, value in found.items()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Row:
        """Read back what `to_json` wrote."""
        figures = {name: Figure.from_json(document[name]) for name in ("auroc", "f1", "stability") if document[name]}
        return cls(**{**document, "validation": tuple(document["validation"]), **figures})


def judged_row(trial: Trial, scores: Float[np.ndarray, "rows"], threshold: float, *, seed: int, **fields: Any) -> Row:
    """A row of a method's scores of the judged rows, whose F1 is that of calling what exceeds `threshold`."""
    size, labels = len(trial.validation), trial.labels(trial.test)
    known, fires = trial.labels(trial.validation), scores > threshold
    share = float(labels.mean())
    return Row(
        concept=trial.examples.name,
        auroc=auroc_figure(scores[size:], labels, trial.groups, 0.5, seed=seed),
        f1=f1_figure(fires[size:], labels, trial.groups, 2 * share / (1 + share), seed=seed),
        validation=(float(auroc(scores[:size], known)), f1(scores[:size], known, threshold)),
        fires="".join("01"[fire] for fire in fires[size:].astype(int)),
        **fields,
    )


@dataclass(frozen=True)
class Summary:
    """One method with one aggregator over all concepts; `rank` is its mean rank by test AUROC among all of them."""

    method: str
    kind: str
    aggregator: str
    auroc: Figure
    f1: Figure
    stability: float | None
    seconds: float
    memory: float | None
    rank: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "auroc": self.auroc.to_json(), "f1": self.f1.to_json()}


@dataclass(frozen=True)
class Ranking:
    """Methods, or aggregators, with their mean ranks over the concepts."""

    names: tuple[str, ...]
    by: str  # the figure they are ranked by
    ranks: Ranks

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the best first."""
        order = np.argsort(self.ranks.mean, kind="stable")
        return {
            "by": self.by,
            "ranks": [{"name": self.names[one], "rank": float(self.ranks.mean[one])} for one in order],
            "critical_difference": self.ranks.critical_difference,
            "p": self.ranks.p,
            "concepts": self.ranks.n,
        }


@dataclass(frozen=True)
class Difference:
    """Test F1 of `super-activators` minus that of another aggregator, for one finder, over concepts and for each."""

    finder: str
    rival: str
    overall: Figure
    concepts: Mapping[str, Figure]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        each = {name: figure.to_json() for name, figure in self.concepts.items()}
        return {"finder": self.finder, "rival": self.rival, "overall": self.overall.to_json(), "concepts": each}


@dataclass(frozen=True, repr=False)
class DetectionBench:
    """All rows, with the labels and groups of every concept's test rows."""

    model: Mapping[str, Any]
    rows: tuple[Row, ...]
    truths: Mapping[str, tuple[Bool[np.ndarray, "test"], list[Any] | None]]
    sizes: Mapping[str, Mapping[str, int]]  # rows of each part, by concept
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    reused: int = 0  # rows that an earlier run had left
    _by_key: dict[tuple[str, str, str], Row] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._by_key.update({(row.method, row.aggregator, row.concept): row for row in self.rows})

    @property
    def concepts(self) -> tuple[str, ...]:
        """The names of the concepts."""
        return tuple(self.truths)

    @cached_property
    def entries(self) -> tuple[tuple[str, str], ...]:
        """Method and aggregator of all that was run."""
        return tuple(dict.fromkeys((row.method, row.aggregator) for row in self.rows))

    def across(self, method: str, aggregator: str) -> list[Row]:
        """The rows of a method with an aggregator, in the order of the concepts."""
        return [self._by_key[method, aggregator, concept] for concept in self.concepts]

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """Every method with every aggregator over all concepts, the best rank first."""
        ranks = self._ranks([self.across(*entry) for entry in self.entries], "auroc").mean
        found = [
            self._summary(rows, float(rank))
            for rows, rank in zip((self.across(*entry) for entry in self.entries), ranks, strict=True)
        ]
        return tuple(sorted(found, key=lambda one: (one.rank, -one.f1.value)))

    @cached_property
    def methods(self) -> Mapping[str, list[Row]]:
        """Each method's rows, one a concept, with the aggregator that was best on validation there."""
        names = dict.fromkeys(method for method, _ in self.entries)
        return {name: list(self._chosen(lambda row, name=name: row.method == name)) for name in names}

    @cached_property
    def aggregators(self) -> Mapping[str, list[Row]]:
        """Each aggregator's rows, one a concept, of the finder that was best on validation there."""
        names = dict.fromkeys(row.aggregator for row in self.rows if row.kind == "finder")
        return {
            name: list(self._chosen(lambda row, name=name: row.kind == "finder" and row.aggregator == name))
            for name in names
        }

    @cached_property
    def rankings(self) -> tuple[Ranking, ...]:
        """Methods by test AUROC, and aggregators by test F1."""
        return tuple(
            Ranking(tuple(rows), by, self._ranks(rows.values(), by))
            for rows, by in ((self.methods, "auroc"), (self.aggregators, "f1"))
            if rows
        )

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """SuperActivators against every other aggregator in F1, paired, for the best finder and for each."""
        if REFERENCE not in self.aggregators:
            return ()
        finders = dict.fromkeys(row.method for row in self.rows if row.kind == "finder")
        tables = {CHOSEN: self.aggregators} | {
            finder: {name: self.across(finder, name) for name in self.aggregators} for finder in finders
        }
        return tuple(
            self._difference(finder, rival, rows[REFERENCE], rows[rival])
            for finder, rows in tables.items()
            for rival in rows
            if rival != REFERENCE
        )

    def summary(self) -> dict[str, Any]:
        """What `covec bench detect --json` prints."""
        return {
            "bench": "detect",
            "model": dict(self.model),
            "concepts": [{"name": name, **sizes} for name, sizes in self.sizes.items()],
            "methods": [one.to_json() for one in self.summaries],
            "rankings": [one.to_json() for one in self.rankings],
            "differences": [one.to_json() for one in self.differences],
            "rows": [row.to_json() for row in self.rows],
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
            pq.write_table(pa.Table.from_pylist([_flat(row) for row in self.rows]), draft / "bench.parquet")
            registry.resolve("report.bench")(self, draft / "bench.html")
            (draft / "bench.json").write_text(document + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        return f"DetectionBench({len(self.concepts)} concepts, {len(self.methods)} methods, {len(self.rows)} rows)"

    def _summary(self, rows: list[Row], rank: float) -> Summary:
        steady = [row.stability.value for row in rows if row.stability is not None]
        memory = [row.memory for row in rows if row.memory is not None]
        how = f"mean over {len(rows)} concepts"
        null = _mean(row.f1.null for row in rows)
        return Summary(
            rows[0].method, rows[0].kind, rows[0].aggregator,
            _share(mean_figure([row.auroc.value for row in rows], f"test AUROC, {how}", null=0.5)),
            _share(mean_figure([row.f1.value for row in rows], f"test F1, {how}", null=null)),
            _mean(steady), float(np.median([row.seconds for row in rows])), max(memory, default=None), rank,
        )  # fmt: skip

    def _chosen(self, wanted: Any) -> Iterator[Row]:
        for concept in self.concepts:
            yield max(
                (row for row in self.rows if row.concept == concept and wanted(row)), key=lambda row: row.validation
            )

    def _ranks(self, table: Iterable[list[Row]], by: str) -> Ranks:
        return mean_ranks(np.array([[getattr(row, by).value for row in rows] for rows in table]).T)

    def _difference(self, finder: str, rival: str, own: list[Row], other: list[Row]) -> Difference:
        each = {
            one.concept: f1_difference(one.decisions, two.decisions, *self.truths[one.concept])
            for one, two in zip(own, other, strict=True)
        }
        gaps = [figure.value for figure in each.values()]
        how = f"difference of test F1, mean over {len(gaps)} concepts, paired"
        return Difference(finder, rival, mean_figure(gaps, how, null=0.0), each)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _share(figure: Figure) -> Figure:
    """A figure whose interval does not leave 0 to 1."""
    low, high = (None if end is None else float(np.clip(end, 0, 1)) for end in (figure.low, figure.high))
    return replace(figure, low=low, high=high)


def _flat(row: Row) -> dict[str, Any]:
    """A line of the Parquet file: every figure as its value and its ends."""
    document = {name: getattr(row, name) for name in ("concept", "method", "kind", "aggregator", "site", "position")}
    for name in ("auroc", "f1", "stability"):
        figure: Figure | None = getattr(row, name)
        ends = (None, None, None, None) if figure is None else (figure.value, figure.low, figure.high, figure.null)
        document |= dict(zip((name, f"{name}_low", f"{name}_high", f"{name}_null"), ends, strict=True))
    validation = dict(zip(("validation_auroc", "validation_f1"), row.validation, strict=True))
    return {**document, **validation, "seconds": row.seconds, "memory": row.memory}
