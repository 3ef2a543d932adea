"""What a study found: figures, verdict, the vector, and all that was tried and lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from covec import registry
from covec.concepts.bank import Bank
from covec.concepts.vector import ConceptVector
from covec.measure.used import Used
from covec.models.positions import Position
from covec.models.sites import Site
from covec.statistics.figure import Figure
from covec.statistics.multiplicity import holm
from covec.writing import whole_folder

VERDICTS = {
    "too-little-data": "too few examples to tell",
    "not-found": "no direction was shown to tell this concept better than chance and random directions do",
    "found-and-used": "decodable, and the model uses it",
    "text-only": "decodable, but no better than counting words",
    "found": "decodable beyond words and chance; that the model uses it was not shown",
}


@dataclass(frozen=True)
class Cell:
    """One cell of the sweep: a finder at a site and position, judged on validation rows.

    `auroc` holds its interval and, as null, the 95% point of the sweep's maximum under permuted labels, where that is
    known; `p` is corrected over all cells (step-down maximum), None for finders whose null was not computed.
    """

    site: Site
    position: Position
    finder: str
    auroc: Figure
    accuracy: float
    p: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The cell as plain JSON values."""
        return {
            "site": str(self.site),
            "position": str(self.position),
            "finder": self.finder,
            "auroc": self.auroc.to_json(),
            "accuracy": self.accuracy,
            "p": self.p,
        }


@dataclass(frozen=True)
class Illustrations:
    """Pictures and samples for the report, made from test rows and neutral prompts; nothing here is a statistic.

    `texts`: dicts of text, label, score, probability, tokens (dicts of token, start, end, score); `steered`: dicts of
    prompt, strength, text; `toward`, `away`: (token, weight) that the direction promotes and suppresses at the head.
    """

    texts: tuple[dict[str, Any], ...] = ()
    steered: tuple[dict[str, Any], ...] = ()
    toward: tuple[tuple[str, float], ...] = ()
    away: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, repr=False)
class Study:
    """The study of one concept in one model."""

    concept: str
    model: Mapping[str, Any]  # TextModel.describe()
    n: Mapping[str, int]  # rows of either class, of each part, and those that are independent
    regime: str  # "holdout"; "nested" cross-validation, also for "too-little-data"
    selected: Cell
    test: Mapping[str, Figure]  # accuracy, auroc
    p_test: float
    p_sweep: float | None
    stability: Figure
    bag_of_words: Mapping[str, Figure]  # accuracy, auroc
    random_direction: Figure  # median, high = 95th percentile
    cue: Figure
    beyond_words: Figure  # paired difference of AUROC, vector minus bag of words
    used: Used
    verdict: str
    best: ConceptVector
    cells: tuple[Cell, ...] = ()
    wrong_concepts: Mapping[str, Figure] = field(default_factory=dict)
    illustrations: Illustrations = field(default_factory=Illustrations)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # every option, seeds, versions, digests
    looks: int = 1
    seconds: float = 0.0

    def summary(self) -> dict[str, Any]:
        """What `covec study --json` prints and `summary.json` holds."""
        return {
            "concept": self.concept,
            "model": self.model["name"],
            "n": self.n["rows"],
            "selected": {
                "finder": self.selected.finder,
                "site": str(self.selected.site),
                "position": str(self.selected.position),
            },
            "test": {name: figure.to_json() for name, figure in self.test.items()},
            "p_test": self.p_test,
            "p_sweep": self.p_sweep,
            "stability": self.stability.to_json(),
            "baselines": {
                "bag_of_words": {name: figure.to_json() for name, figure in self.bag_of_words.items()},
                "random_direction": self.random_direction.to_json(),
                "cue": self.cue.to_json(),
                "beyond_words": self.beyond_words.to_json(),
                "wrong_concepts": {name: figure.to_json() for name, figure in self.wrong_concepts.items()},
            },
            "used": self.used.to_json(),
            "verdict": self.verdict,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "sweep": [cell.to_json() for cell in self.cells],
            "rows": dict(self.n),
            "regime": self.regime,
            "model_details": dict(self.model),
            "settings": dict(self.settings),
            "looks": self.looks,
            "seconds": self.seconds,
        }

    def report(self, path: str | Path) -> None:
        """Write the report, one self-contained HTML file."""
        registry.resolve("report.study")(self, path)

    def write(self, folder: str | Path) -> None:
        """Write summary.json, vectors.safetensors, sweep.parquet and report.html into a new or old folder."""
        _write(self, [self], Path(folder))

    def _repr_html_(self) -> str:
        return str(registry.resolve("report.study_html")(self))

    def __repr__(self) -> str:
        found = f"{self.selected.finder} at {self.selected.site}, {self.selected.position}"
        return f"Study({self.concept!r}, {self.verdict}: {found}, test AUROC {self.test['auroc']})"

    def __str__(self) -> str:
        randoms = replace(self.random_direction, high=None)
        below = "" if self.random_direction.high is None else f", 95% below {self.random_direction.high:.2f}"
        rows = [
            ("verdict", f"{self.verdict}: {VERDICTS[self.verdict]}"),
            ("selected", f"{self.selected.finder} at {self.selected.site}, {self.selected.position}"),
            ("test AUROC", str(self.test["auroc"])),
            ("test accuracy", str(self.test["accuracy"])),
            ("p", f"test {self.p_test:.2g}" + ("" if self.p_sweep is None else f", sweep {self.p_sweep:.2g}")),
            ("bag of words", str(self.bag_of_words["auroc"])),
            ("random direction", f"{randoms}{below}"),
            ("stability", str(self.stability)),
            ("used", self.used.verdict + ("" if self.used.add is None else f", add {self.used.add}")),
        ]
        if self.used.ablate is not None:
            rows.append(("", f"ablate {self.used.ablate}; KL {self.used.kl}"))
        lines = [f"{name:<17} {value}" for name, value in rows] + [f"warning: {text}" for text in self.warnings]
        return "\n".join([f"{self.concept} in {self.model['name']} ({self.n['rows']} rows)", *lines])


@dataclass(frozen=True, repr=False)
class Studies(Mapping[str, Study]):
    """Studies of several concepts that were captured together, by name."""

    studies: Mapping[str, Study]
    cosines: Mapping[str, Any]  # by site: the concepts, and the cosines of their differences of means there
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0

    def __getitem__(self, name: str) -> Study:
        return self.studies[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.studies)

    def __len__(self) -> int:
        return len(self.studies)

    @property
    def p_holm(self) -> dict[str, float]:
        """The `p_test` of every concept, corrected for their number by Holm's method."""
        corrected = holm([study.p_test for study in self.values()])
        return dict(zip(self, corrected.tolist(), strict=True))

    def summary(self) -> dict[str, Any]:
        """What `covec study --json` prints for several concepts."""
        return {
            "concepts": [study.summary() for study in self.values()],
            "cosines": dict(self.cosines),
            "warnings": list(self.warnings),
            "seconds": self.seconds,
        }

    def report(self, path: str | Path) -> None:
        """Write one report of all concepts."""
        registry.resolve("report.study")(self, path)

    def write(self, folder: str | Path) -> None:
        """Write summary.json, vectors.safetensors (a bank), sweep.parquet and report.html into a new or old folder."""
        _write(self, list(self.values()), Path(folder))

    def _repr_html_(self) -> str:
        return str(registry.resolve("report.study_html")(self))

    def __repr__(self) -> str:
        return f"Studies({', '.join(map(repr, self.values()))})"

    def __str__(self) -> str:
        warned = [f"warning: {text}" for text in self.warnings]
        return "\n\n".join([*(str(study) for study in self.values()), *warned])


def _write(result: Study | Studies, studies: list[Study], folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = [
        {"concept": study.concept, **cell.to_json(), **{key: cell.to_json()["auroc"][key] for key in ("low", "high")}}
        for study in studies
        for cell in study.cells
    ]
    flat = [{**row, "auroc": row["auroc"]["value"], "null": row["auroc"]["null"]} for row in table]
    document = json.dumps(result.summary(), ensure_ascii=False, indent=1, allow_nan=False)
    with whole_folder(folder) as draft:
        pq.write_table(pa.Table.from_pylist(flat), draft / "sweep.parquet")
        Bank([study.best for study in studies]).save(draft / "vectors.safetensors")
        result.report(draft / "report.html")
        (draft / "summary.json").write_text(document + "\n", encoding="utf-8")
