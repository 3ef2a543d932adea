"""One study as the templates see it: words, tables and pictures, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from markupsafe import Markup

from covec.report import effects, provenance, sweep, tables, tokens, words
from covec.report.panels import Panel, panels
from covec.report.tokens import Span
from covec.statistics.figure import Figure
from covec.studies.result import Cell, Study


@dataclass(frozen=True)
class Detail:
    """How much of each study a page shows, so that a report of many concepts stays within its size."""

    cells: int
    texts: int
    tokens: int
    prompts: int
    plots: bool = True


@dataclass(frozen=True)
class Pictures:
    """The plots of a study, each drawn once and the same in every detail."""

    study: Study

    @cached_property
    def panels(self) -> list[Panel]:
        """The sweep, one panel a kind of site and position; the panel of the selected cell first."""
        return sorted(panels(self.study.cells), key=lambda panel: panel.place(self.study.selected) is None)

    @cached_property
    def curves(self) -> list[tuple[Panel, Markup]]:
        """Layer curves, all on one scale."""
        floor = sweep.floor(self.study.cells)
        return [(panel, sweep.layer_curves(panel, self.study, floor)) for panel in self.panels]

    @cached_property
    def maps(self) -> list[tuple[Panel, Markup]]:
        """Heat maps of the sweep."""
        return [(panel, sweep.heat_map(panel, self.study)) for panel in self.panels]

    @cached_property
    def forest(self) -> Markup:
        """The vector above its baselines."""
        return effects.forest(self.study)

    @cached_property
    def steering(self) -> Markup | None:
        """Readout and divergence against strength."""
        return effects.steering_curve(self.study) if self.study.used.curve else None

    @cached_property
    def strips(self) -> Markup | None:
        """Effects beside their nulls."""
        used = self.study.used
        return effects.strips(self.study) if used.add is not None else None


@dataclass(frozen=True)
class View:
    """A study with its pictures, the detail in which it is shown, and the name of its place on the page."""

    pictures: Pictures
    detail: Detail
    anchor: str

    @property
    def study(self) -> Study:
        """The study itself."""
        return self.pictures.study

    @property
    def chapters(self) -> list[tuple[str, str]]:
        """Names and anchors of the sections that are there."""
        shown = {
            "where": ("Where", self.study.cells),
            "against": ("Baselines", True),
            "tokens": ("Tokens", self.texts),
            "used": ("Used?", True),
            "steered": ("Steering", self.samples),
            "named": ("Nearest tokens", self.detail.texts and self.study.illustrations.toward),
            "tried": ("Tried", self.cells),
            "provenance": ("Provenance", True),
            "use": ("Use it", True),
        }
        return [(name, f"{self.anchor}-{end}") for end, (name, there) in shown.items() if there]

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        return words.headline(self.study)

    @property
    def lead(self) -> list[tuple[str, str]]:
        """The verdict in sentences, each under its question."""
        return words.lead(self.study)

    @property
    def tiles(self) -> list[tables.Tile]:
        """The key numbers."""
        return tables.tiles(self.study)

    @property
    def baselines(self) -> list[tables.Row]:
        """The vector and all it has to beat."""
        return tables.baselines(self.study)

    @cached_property
    def reach(self) -> float:
        """The score of the deepest shade of the token maps."""
        return tokens.reach(self.study.illustrations.texts[: self.detail.texts])

    @cached_property
    def texts(self) -> list[tuple[Mapping[str, Any], list[Span]]]:
        """Texts with the shade of every token."""
        shown = self.study.illustrations.texts[: self.detail.texts]
        return [(text, tokens.spans(text, self.reach, self.detail.tokens)) for text in shown]

    @property
    def effects(self) -> list[tuple[str, Figure, str]]:
        """What the vector does, in numbers."""
        return tables.effects(self.study)

    @property
    def samples(self) -> list[tuple[str, list[Mapping[str, Any]]]]:
        """Steered texts by prompt."""
        return tables.samples(self.study)[: self.detail.prompts]

    @cached_property
    def cells(self) -> list[Cell]:
        """The sweep as a table, the best first."""
        return tables.ranking(self.study)[: self.detail.cells]

    @property
    def provenance(self) -> list[tuple[str, provenance.Facts]]:
        """What is needed to run it again."""
        return provenance.provenance(self.study)

    @property
    def recipes(self) -> list[tuple[str, str]]:
        """How to use the vector."""
        prompt = next((prompt for prompt, _ in tables.samples(self.study)), "The hotel was")
        return provenance.recipes(self.study.best, prompt)
