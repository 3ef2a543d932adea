"""The numbers and tables of a study, ready to be set on a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from covec.models.sites import Site
from covec.report.panels import depth, merit
from covec.report.words import chance, interval, null, number, value
from covec.statistics.figure import Figure
from covec.studies.result import Cell, Study

_LONGEST = 400  # characters of one option, prompt or sample that are shown
_VISIBLE = str.maketrans(
    {"\n": "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}", "\t": "\N{RIGHTWARDS ARROW TO BAR}", " ": "\N{OPEN BOX}"}
)


@dataclass(frozen=True)
class Tile:
    """A key number with what is needed to judge it."""

    label: str
    value: str
    interval: str = ""
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A line of the table of baselines."""

    name: str
    auroc: Figure
    accuracy: Figure | None = None

    @property
    def how(self) -> str:
        """How the figure was got; that intervals hold for the vector as it was fitted is said below the page."""
        return self.auroc.how.removesuffix(", conditional on the fitted vector")


def tiles(study: Study) -> list[Tile]:
    """The key numbers: how well it reads, how sure that is, and what it does."""
    counted = study.bag_of_words["auroc"]
    words = f"counting words {value(counted)}" + (", taken as 0.50" if counted.value < 0.5 else "")
    sweep = "" if study.p_sweep is None else f"whole sweep {chance(study.p_sweep)}"
    gain, used = study.beyond_words, study.used
    found = [
        _tile("Test AUROC", study.test["auroc"], "by chance"),
        _tile("Test accuracy", study.test["accuracy"], "by chance"),
        Tile("AUROC beyond words", value(gain, signed=True), interval(gain), words),
        Tile("p, shuffled labels", chance(study.p_test), note=sweep),
        _tile("Stability (cosine)", study.stability, "shuffled labels"),
    ]
    if used.add is not None:
        found.append(_tile("Effect of adding", used.add, "shuffled labels", signed=True))
    if used.ablate is not None:
        found.append(_tile("Effect of ablating", used.ablate, "shuffled labels", signed=True))
    if used.kl is not None:
        found.append(Tile("Cost of adding (KL)", value(used.kl), interval(used.kl), "nats a token, strength 1"))
    return found


def baselines(study: Study, most: int = 8) -> list[Row]:
    """The vector and all it has to beat; of many wrong concepts, the `most` that come closest."""
    words = study.bag_of_words
    wrong = [(name, figure) for name, figure in study.wrong_concepts.items() if not math.isnan(figure.value)]
    wrong.sort(key=lambda item: -item[1].value)
    return [
        Row("This vector", study.test["auroc"], study.test["accuracy"]),
        Row("Counting words", words["auroc"], words["accuracy"]),
        Row("Vector minus counting words", study.beyond_words),
        Row("Random directions", study.random_direction),
        Row("Surface cues", study.cue),
        *(Row(f"Other concept: {shortened(name)}", figure) for name, figure in wrong[:most]),
    ]


def ranking(study: Study) -> list[Cell]:
    """All cells of the sweep, the best on validation first, and of equals the one that was selected."""
    return sorted(study.cells, key=lambda cell: (merit(cell), cell == study.selected), reverse=True)


def effects(study: Study) -> list[tuple[str, Figure, str]]:
    """What the vector does, with what each number means."""
    used = study.used
    gap = "" if used.gap is None else f" (they differ by {number(used.gap)})"
    listed = [
        ("Adding it", used.add, "slope of the readout over strengths \N{MINUS SIGN}1 to 1, nats a token"),
        ("Ablating it", used.ablate, f"fall of the readout of positive minus negative inputs{gap}, nats a token"),
        ("Cost", used.kl, "divergence (KL) from the unedited model on neutral text at strength 1, nats a token"),
        ("Adding at equal cost", used.at_equal_kl, "effect at a divergence of 0.1 nats a token"),
        ("Adding a random direction", used.isotropic, "easier to beat than shuffled labels: it does not decide"),
    ]
    return [(name, figure, meaning) for name, figure, meaning in listed if figure is not None]


def samples(study: Study) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Steered texts by prompt, from the lowest strength to the highest."""
    prompts: dict[str, list[Mapping[str, Any]]] = {}
    for sample in study.illustrations.steered:
        prompts.setdefault(str(sample["prompt"]), []).append(sample)
    return [(prompt, sorted(group, key=lambda sample: sample["strength"])) for prompt, group in prompts.items()]


def bars(tokens: Sequence[tuple[str, float]]) -> list[tuple[str, str, int]]:
    """Tokens with visible spaces, their weight, and its length in per cent of the largest."""
    top = max((abs(weight) for _, weight in tokens), default=0.0) or 1.0
    return [(_named(token), number(weight, signed=True), round(100 * abs(weight) / top)) for token, weight in tokens]


def _named(token: str) -> str:
    """A token as text that can be seen: what draws nothing is called by its number in Unicode."""
    drawn = shortened(token).translate(_VISIBLE)
    seen = "".join(mark if mark.isprintable() else f"U+{ord(mark):04X}" for mark in drawn)
    return seen.replace("\N{REPLACEMENT CHARACTER}", "(part of a character)") or "(empty)"


def label(given: Any) -> str:
    """The label of an example, in words."""
    return {"True": "positive", "False": "negative"}.get(str(given), shortened(given))


def missed(text: Mapping[str, Any], threshold: float) -> bool:
    """Whether the vector reads an example against its label."""
    return isinstance(text["label"], bool) and (text["score"] > threshold) != text["label"]


def rank(site: Site) -> int:
    """A number by which sites sort from the input of the model to its output."""
    block, head, _ = depth(site)
    return block * 1000 + head


def shortened(text: Any) -> str:
    """A text, cut where it would fill the page."""
    text = str(text)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "\N{HORIZONTAL ELLIPSIS}"


def _tile(label: str, figure: Figure, chance: str, *, signed: bool = False) -> Tile:
    note = "" if figure.null is None else f"{chance} {null(figure)}"
    return Tile(label, value(figure, signed=signed), interval(figure), note)
