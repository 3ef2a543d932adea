"""K-29: no template and no duplicate stands on both sides of a split unseen."""

from __future__ import annotations

import numpy as np
import pytest

import covec
from covec.concepts.examples import Examples
from covec.errors import ExamplesError
from covec.statistics.splits import independent_groups, split
from laws.fresh import WORDS, examples, model


def led(rows: int = 60, groups: bool = False) -> Examples:
    """The first word decides the class, and nothing else differs; by group, texts that share a stem."""
    rng = np.random.default_rng(0)
    stems = [" ".join(rng.choice(WORDS, 6)) for _ in range(rows)]
    texts = [f"{word} {stem}" for word in ("Surely", "Hardly") for stem in stems]
    shared = tuple(f"stem {row % rows}" for row in range(2 * rows)) if groups else None
    return Examples(tuple(texts), np.repeat([True, False], rows), name="led", groups=shared)


def test_a_leading_word_that_decides_is_flagged_by_the_cue_probe() -> None:
    study = covec.study(model(), led(), sites="resid.1", finders="mean-difference", quick=True)
    (warning,) = [one for one in study.warnings if "template leakage" in one]
    assert "most by the first word" in warning
    assert study.cue.low > 0.75
    assert study.verdict in ("text-only", "not-found")
    honest = covec.study(model(), examples(60), sites="resid.1", finders="mean-difference", quick=True)
    assert not [one for one in honest.warnings if "template leakage" in one]


def test_groups_of_one_template_stay_on_one_side() -> None:
    data = led(groups=True)
    parts = split(data.keys, data.labels, groups=data.groups, pairs=data.pairs)
    sides = {name: {data.groups[row] for row in getattr(parts, name)} for name in ("train", "validation", "test")}
    assert not sides["train"] & sides["test"]
    assert not sides["validation"] & (sides["train"] | sides["test"])
    assert set.union(*sides.values()) == set(data.groups)


def test_a_group_a_class_is_too_little_to_learn_from() -> None:
    """Where the template is the class, the grouped split has one independent example of each, and says so."""
    data = led()
    whole = Examples(data.inputs, data.labels, name="led", groups=tuple(np.where(data.labels, "Surely", "Hardly")))
    with pytest.raises(ExamplesError, match=r"independent|too few|group"):
        covec.study(model(), whole, sites="resid.1", finders="mean-difference", quick=True)


@pytest.mark.parametrize("change", [str.upper, lambda text: text + "!", lambda text: text.replace(" ", "  ")])
def test_duplicates_never_straddle_and_count_once(change: object) -> None:
    data = examples(60)
    twice = [change(text) for text in data.inputs]  # type: ignore[operator]
    doubled = Examples((*data.inputs, *twice), np.tile(data.labels, 2), name="doubled")
    parts = split(doubled.keys, doubled.labels, groups=doubled.groups, pairs=doubled.pairs)
    side = {row: name for name in ("train", "validation", "test") for row in getattr(parts, name)}
    assert all(side[row] == side[row + 120] for row in range(120))
    assert independent_groups(doubled.units, doubled.labels) == independent_groups(data.units, data.labels) == (60, 60)


def test_shuffled_labels_are_not_found_however_many_copies_there_are() -> None:
    """Copies of a text that nothing tells apart must not make chance significant."""
    rng = np.random.default_rng(2)
    texts = [" ".join(rng.choice(WORDS, 5)) for _ in range(40)]
    labels = rng.permutation(np.arange(40) < 20)
    many = Examples(tuple(texts * 4), np.tile(labels, 4), name="nothing")
    study = covec.study(model(), many, sites="resid.1", finders="mean-difference", position="mean", quick=True)
    assert study.verdict in ("too-little-data", "not-found")
    assert study.p_test > 0.01
    assert study.n["independent_positive"] == 20
