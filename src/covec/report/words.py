"""What a study says, in words and numbers that a reader needs no training for."""

from __future__ import annotations

import math

from covec.models.positions import Position
from covec.models.sites import Site
from covec.statistics.figure import Figure
from covec.studies.result import Studies, Study

_SITES = {
    "embed": "in the token embeddings",
    "resid": "in the residual stream after block {block}",
    "attn": "in what attention adds in block {block}",
    "mlp": "in what the MLP adds in block {block}",
    "mixer": "in what the mixer adds in block {block}",
    "neuron": "in the MLP neurons of block {block}",
    "head": "in attention head {head} of block {block}",
    "key": "in key head {head} of block {block}",
    "value": "in value head {head} of block {block}",
    "block": "in the output of block {block}",
    "final": "in the stream after the last norm",
    "module": "in {site}",
}
_SELECTIONS = {
    "all": "all tokens",
    "content": "the tokens",
    "prompt": "the prompt",
    "answer": "the answer",
    "span": "the marked span",
    "generated": "the generated text",
    "first": "the first token",
    "last": "the last token",
}
_POOLS = {"none": "read at {}", "mean": "averaged over {}", "max": "the maximum over {}"}
_MINUS = "\N{MINUS SIGN}"


def number(value: float | None, digits: int = 2, *, signed: bool = False) -> str:
    """A number with so many decimals; two digits of it where that would say nothing, or be too long."""
    if value is None or math.isnan(value):
        return "n/a"
    plain = value == 0 or 10**-digits <= abs(value) < 10_000
    text = f"{value:{'+' if signed else ''}.{digits}f}" if plain else f"{value:{'+' if signed else ''}.2g}"
    return text.replace("-", _MINUS)


def fixed(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """A number with exactly so many decimals, zero without a sign."""
    rounded = round(value, digits) + 0.0
    return f"{rounded:{'+' if signed and rounded else ''}.{digits}f}".replace("-", _MINUS)


def digits(figure: Figure) -> int:
    """Decimals that show a figure with its interval: two, and more where all of it is small."""
    largest = max(abs(part) for part in (figure.value, figure.low, figure.high) if part is not None)
    return 2 if math.isnan(largest) or largest >= 0.1 else 3 if largest >= 0.01 else 4


def value(figure: Figure, *, signed: bool = False) -> str:
    """The estimate."""
    return _shared(figure.value, figure, signed=signed)


def interval(figure: Figure) -> str:
    """The 95% interval, or nothing where there is none."""
    if figure.low is None or figure.high is None:
        return ""
    return f"{_shared(figure.low, figure)} to {_shared(figure.high, figure)}"


def upper(figure: Figure) -> str:
    """The upper end alone."""
    return _shared(figure.high, figure)


def _shared(part: float | None, figure: Figure, *, signed: bool = False) -> str:
    """One number of a figure, with the decimals of all: beside a wide interval a tiny one is 0, and not `1e-07`."""
    places = digits(figure)
    numbers = [abs(one) for one in (figure.value, figure.low, figure.high) if one is not None and not math.isnan(one)]
    if part is None or math.isnan(part) or not 10**-places <= max(numbers) < 10_000:
        return number(part, places, signed=signed)
    return fixed(part, places, signed=signed)


def null(figure: Figure) -> str:
    """What the estimate would be by chance, or nothing where that is not known."""
    return "" if figure.null is None else fixed(figure.null, digits(figure))


def chance(p: float | None) -> str:
    """A p-value."""
    if p is None or math.isnan(p):
        return "n/a"
    if p and round(p, 4) == 0:
        return "below 0.0001"
    return f"{p:.2g}" if p >= 1e-4 or p == 0 else f"{p:.4f}"


def probability(p: float) -> str:
    """How likely a text has the concept, in two decimals that claim no certainty."""
    return "below 0.01" if p < 0.01 else "above 0.99" if p > 0.99 else fixed(p)


def share(value: float) -> str:
    """A share between 0 and 1 as so many times in 100, without claiming more than it is."""
    if math.isnan(value):
        return "an unknown number of times"
    if value >= 1:
        return "every time"
    return "more than 99 times in 100" if value >= 0.995 else f"{value * 100:.0f} times in 100"


def strength(value: float) -> str:
    """A steering strength."""
    return f"{value:+g}".replace("-", _MINUS) if value else "0"


def place(site: Site) -> str:
    """Where a site is: "in the residual stream after block 15"."""
    return _SITES[site.kind].format(block=site.block, head=site.head, site=site)


def reading(position: Position) -> str:
    """How a position reads an input: "averaged over the tokens"."""
    parts = [_SELECTIONS.get(part) or _numbered(part) for part in position.select.split("+")]
    return _POOLS.get(position.pool, "pooled over {}").format(" and ".join(parts))


def _numbered(part: str) -> str:
    first = part.removeprefix("from-")
    return f"token {part}" if first == part else f"the tokens from {first} on"


def brief(study: Study) -> str:
    """The verdict in a table of many."""
    return {
        "too-little-data": "Too little data",
        "not-found": "Not found",
        "found-and-used": "Found and used",
        "text-only": "No better than words",
        "found": "Found",
    }[study.verdict]


def headline(study: Study) -> str:
    """The verdict in a few words."""
    if study.verdict == "found":
        return {
            "steers-only": "Found; it steers the model, but that the model relies on it was not shown",
            "not-tested": "Found; whether the model uses it was not tested",
        }.get(study.used.verdict, "Found; that the model uses it was not shown")
    return {
        "too-little-data": "Too few examples to tell",
        "not-found": "Not found",
        "found-and-used": "Found, and the model uses it",
        "text-only": "Readable, but no better than counting words",
    }[study.verdict]


def lead(study: Study) -> list[tuple[str, str]]:
    """The verdict in sentences for somebody who has never heard of concept vectors, each under its question."""
    first = {"too-little-data": _too_little, "not-found": _not_found}.get(study.verdict, _found)
    said = [("What was found", first(study)), ("How well it reads", f"{_ranking(study)} {_words(study)}")]
    if study.verdict not in ("too-little-data", "not-found") or study.used.verdict != "not-tested":
        said.append(("What the model does with it", use(study)))
    return said


def summed_up(studies: Studies) -> str:
    """The verdicts of several concepts in a sentence."""
    found = sum(study.verdict in ("found", "found-and-used", "text-only") for study in studies.values())
    beyond = sum(study.verdict in ("found", "found-and-used") for study in studies.values())
    used = sum(study.used.verdict == "used" for study in studies.values())
    tested = any(study.used.verdict != "not-tested" for study in studies.values())
    acted = (
        f"the model was shown to act on {used or 'none'}" if tested else "whether the model acts on them was not tested"
    )
    return (
        f"{found} of {len(studies)} can be read from the model's activations better than chance allows, "
        f"{beyond} of them beyond what counting words gives; {acted}."
    )


def _found(study: Study) -> str:
    return (
        f"A single direction in {study.model['name']} tells positive examples of \N{LEFT DOUBLE QUOTATION MARK}"
        f"{study.concept}\N{RIGHT DOUBLE QUOTATION MARK} from negative ones: "
        f"{place(study.selected.site)}, {reading(study.selected.position)}."
    )


def _not_found(study: Study) -> str:
    return (
        f"No direction in {study.model['name']} was shown to tell positive examples of \N{LEFT DOUBLE QUOTATION MARK}"
        f"{study.concept}\N{RIGHT DOUBLE QUOTATION MARK} from negative ones better than chance, or than random ones do."
    )


def _too_little(study: Study) -> str:
    fewer = min(study.n.get("positive", 0), study.n.get("negative", 0))
    return (
        f"The smaller class has only {fewer} examples. What follows shows what was found, "
        "but it could be luck; add examples and run the study again."
    )


def _ranking(study: Study) -> str:
    auroc = study.test["auroc"]
    bounds = ""
    if auroc.low is not None and auroc.high is not None:
        bounds = f" (95% interval {auroc.low * 100:.0f} to {auroc.high * 100:.0f})"
    return (
        "Shown one positive and one negative example that it had not seen before, "
        f"the vector ranks the positive one higher {share(auroc.value)}{bounds}; guessing would give 50."
    )


def _words(study: Study) -> str:
    words, gain = study.bag_of_words["auroc"], study.beyond_words
    counted = f"A classifier that only counts words reaches {words.value * 100:.0f}"
    if words.value < 0.5:
        counted += ", no better than guessing"
    if study.verdict in ("not-found", "too-little-data"):
        return f"{counted}."
    if gain.low is not None and gain.low > 0:
        return f"{counted}, so the model knows more than the vocabulary gives away."
    return f"{counted}, so vocabulary alone may explain the result."


def chosen(study: Study) -> str:
    """On which rows the winner was chosen."""
    return "Chosen on validation rows" if study.regime == "holdout" else "Chosen by cross-validation"


def text_score(aggregator: str) -> str:
    """How the score of a text comes from those of its tokens."""
    highest = "A text has the score of its highest token, so even those without the concept lie above the class means."
    return {
        "last": "A text has the score of its last token.",
        "mean": "A text has the mean score of its tokens.",
        "max": highest,
        "super-activators": highest,
    }.get(aggregator, f"The score of a text is their {aggregator}.")


def measured(study: Study) -> str:
    """On which rows the test figures were measured."""
    if study.regime == "holdout":
        said = (
            f"Measured on {study.n['test']} test rows that had no part in finding the vector: "
            f"{study.n['train']} rows were used to fit, {study.n['validation']} to choose."
        )
    else:
        said = (
            "There are few examples, of one class at least, so all were left out in turn: nested cross-validation, the "
            "choice included."
        )
    if study.looks > 1:
        said += f" These test rows have been looked at {study.looks} times, and are the less unseen for it."
    return said


def use(study: Study) -> str:
    """Whether the model acts on the concept, in a sentence."""
    used = study.used
    removed = "removing it lowers the readout more after positive than after negative inputs"
    if used.ablate is not None and used.gap is not None and 0 < used.ablate.value <= used.gap:
        removed = (
            f"removing it closes {used.ablate.value / used.gap:.0%} of the gap between positive and negative inputs"
        )
    return {
        "used": f"The model acts on it: adding the direction shifts what it writes, and {removed}, "
        "both beyond every shuffled-label vector.",
        "steers-only": "Adding the direction shifts what the model writes beyond every shuffled-label vector, "
        "but removing it does not bring positive and negative inputs closer than they do.",
        "not-shown": "That the model acts on it was not shown: adding the direction shifts what it writes no more than "
        "some vectors found from shuffled labels do.",
        "not-tested": f"Whether the model acts on it was not tested{f': {used.why}' if used.why else ''}.",
    }[used.verdict]
