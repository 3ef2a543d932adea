"""Numbers and sentences."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covec.detect import aggregators
from covec.measure.used import Used
from covec.models.positions import Position
from covec.models.sites import Site
from covec.report import tables, words
from covec.statistics.figure import Figure
from covec.studies.result import VERDICTS, Studies
from report.fabricated import studies, study

MINUS = "\N{MINUS SIGN}"
USED = ("used", "steers-only", "not-shown", "not-tested")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.934, "0.93"),
        (0, "0.00"),
        (-0.5, f"{MINUS}0.50"),
        (0.00012, "0.00012"),
        (12345.0, "1.2e+04"),
        (None, "n/a"),
        (math.nan, "n/a"),
    ],
)
def test_numbers_say_what_they_can(value, shown):
    assert words.number(value) == shown


def test_a_sign_is_shown_where_it_matters():
    assert words.number(0.15, signed=True) == "+0.15"
    assert [words.strength(value) for value in (-2.0, 0.0, 1.5)] == [f"{MINUS}2", "0", "+1.5"]


@given(st.floats(0, 1))
def test_a_share_never_claims_certainty_that_is_not_there(value):
    said = words.share(value)
    assert (said == "every time") == (value == 1)
    assert not said.startswith("100")


def test_the_numbers_of_a_figure_share_their_decimals():
    figure = Figure(-1.3e-7, -0.016, 0.016)
    assert (words.value(figure, signed=True), words.interval(figure)) == ("0.000", "\N{MINUS SIGN}0.016 to 0.016")
    assert words.value(Figure(1.3e-7)) == "1.3e\N{MINUS SIGN}07"


@pytest.mark.parametrize(
    ("p", "shown"), [(1 / 10001, "0.0001"), (1e-9, "below 0.0001"), (0.0432, "0.043"), (1.0, "1"), (None, "n/a")]
)
def test_p_values(p, shown):
    assert words.chance(p) == shown


def test_intervals_need_both_ends():
    assert words.interval(Figure(0.9, 0.8, 0.95)) == "0.80 to 0.95"
    assert words.interval(Figure(0.5, high=0.6)) == ""


def test_small_figures_show_their_interval_and_null_in_the_same_decimals():
    figure = Figure(0.0151, 0.0015, 0.0288, -0.0023)
    assert (words.value(figure), words.interval(figure)) == ("0.015", "0.002 to 0.029")
    assert words.null(figure) == f"{MINUS}0.002"
    assert words.value(Figure(0.0151, -0.2, 0.3)) == "0.02"
    assert words.value(Figure(math.nan)) == "n/a"
    assert words.upper(Figure(0.5, high=0.671)) == "0.67"


@pytest.mark.parametrize(
    "site", ["embed", "resid.3", "attn.0", "mlp.2", "head.1.2", "key.0.0", "final", "features.7@in"]
)
def test_every_site_has_a_place_in_words(site):
    said = words.place(Site.parse(site))
    assert said.startswith("in ")
    assert all(part in said for part in site.split(".") if part.isdecimal())


@pytest.mark.parametrize(
    ("position", "said"),
    [
        ("last", "read at the last token"),
        ("mean", "averaged over the tokens"),
        ("max", "the maximum over the tokens"),
        ("from-3/mean", "averaged over the tokens from 3 on"),
        ("2", "read at token 2"),
        ("last+generated", "read at the last token and the generated text"),
    ],
)
def test_positions_in_words(position, said):
    assert words.reading(Position.parse(position)) == said


@pytest.mark.parametrize("used", USED)
@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_has_its_sentences(verdict, used):
    made = study(verdict=verdict, used=Used(verdict=used, why="a quick study"))
    lead = dict(words.lead(made))
    assert words.headline(made)
    assert words.brief(made)
    assert len(lead) >= 2
    assert all(text.endswith(".") and "None" not in text for text in lead.values())
    assert ("No direction" in lead["What was found"]) == (verdict == "not-found")
    if verdict != "found-and-used":
        assert "uses it" not in words.headline(made) or "not" in words.headline(made)


def test_words_that_explain_the_result_are_named():
    better, same = study(), study(beyond_words=Figure(0.01, -0.03, 0.05, 0.0, 120))
    assert "knows more" in dict(words.lead(better))["How well it reads"]
    assert "vocabulary alone" in dict(words.lead(same))["How well it reads"]


def test_words_below_chance_count_as_guessing():
    bag = {"auroc": Figure(0.2, 0.1, 0.3, 0.5, 120), "accuracy": Figure(0.3, 0.2, 0.4, 0.5, 120)}
    made = study(bag_of_words=bag, beyond_words=Figure(0.432, 0.377, 0.463, 0.0, 120))
    assert "reaches 20, no better than guessing, so the model" in dict(words.lead(made))["How well it reads"]
    (tile,) = [tile for tile in tables.tiles(made) if tile.label == "AUROC beyond words"]
    assert (tile.value, tile.note) == ("+0.43", "counting words 0.20, taken as 0.50")


def test_the_share_of_the_gap_is_told_only_where_it_is_one():
    made = study()
    assert "closes 29% of the gap" in words.use(made)
    for gap in (None, 0.1, -0.2):
        assert "more after positive than after negative inputs" in words.use(
            study(used=dataclasses.replace(made.used, gap=gap))
        )


def test_numbers_beside_others_keep_their_decimals():
    assert [words.fixed(value, signed=True) for value in (0.004, -0.004, -0.0084, 0.3)] == [
        "0.00", "0.00", f"{MINUS}0.01", "+0.30",
    ]  # fmt: skip
    assert words.null(Figure(0.22, 0.16, 0.27, 0.0053)) == "0.01"
    assert [words.probability(p) for p in (0.0089, 0.345, 0.9999)] == ["below 0.01", "0.34", "above 0.99"]


@pytest.mark.parametrize("name", aggregators())
def test_every_aggregator_says_how_a_text_gets_its_score(name):
    assert words.text_score(name).startswith("A text has")


def test_looks_and_the_design_are_told():
    assert words.chosen(study()) != words.chosen(study(regime="nested"))
    assert "looked at 4 times" in words.measured(study(looks=4))
    assert "looked at" not in words.measured(study())
    assert "nested cross-validation" in words.measured(study(regime="nested"))


def test_several_concepts_in_a_sentence():
    told = words.summed_up(studies())
    assert told.startswith("3 of 3 ")
    assert told.endswith("shown to act on 3.")
    quick = Studies({"a": study(verdict="text-only", used=Used()), "b": study(verdict="not-found", used=Used())}, {})
    assert words.summed_up(quick).startswith("1 of 2 ")
    assert words.summed_up(quick).endswith("was not tested.")
