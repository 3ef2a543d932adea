"""Tables, provenance and recipes."""

import ast
import dataclasses
import math
import shlex
from itertools import pairwise

import pytest

from covec.concepts.vector import ConceptVector
from covec.measure.used import Used
from covec.models.sites import Site
from covec.report import cosines, provenance, tables
from covec.report.panels import merit
from covec.statistics.figure import Figure
from report.fabricated import studies, study

STUDY = study()
MINUS = "\N{MINUS SIGN}"


def test_key_numbers_stand_with_interval_and_null():
    shown = {tile.label: tile for tile in tables.tiles(STUDY)}
    assert (shown["Test AUROC"].value, shown["Test AUROC"].interval) == ("0.93", "0.88 to 0.96")
    assert shown["Test AUROC"].note == "by chance 0.50"
    assert shown["Effect of adding"].note == "shuffled labels 0.02"
    assert shown["p, shuffled labels"].note == "whole sweep 0.005"


def test_what_was_not_tested_has_no_number():
    quick = study(used=Used(), p_sweep=None)
    assert not [tile.label for tile in tables.tiles(quick) if "Effect" in tile.label or "Cost" in tile.label]
    assert tables.effects(quick) == []


def test_the_ranking_holds_every_cell_the_best_first():
    ranked = tables.ranking(STUDY)
    assert len(ranked) == len(STUDY.cells)
    assert ranked[0] == STUDY.selected
    assert all(merit(one) >= merit(next_one) for one, next_one in pairwise(ranked))


def test_of_many_other_concepts_the_closest_are_shown():
    others = {f"other {index}": Figure(0.5 + index / 100) for index in range(20)} | {"lost": Figure(math.nan)}
    rows = [row.name for row in tables.baselines(study(wrong_concepts=others), most=3)]
    assert rows[-3:] == ["Other concept: other 19", "Other concept: other 18", "Other concept: other 17"]


def test_samples_go_from_the_lowest_strength_to_the_highest():
    shuffled = dataclasses.replace(STUDY.illustrations, steered=STUDY.illustrations.steered[::-1])
    for _, group in tables.samples(study(illustrations=shuffled)):
        assert [sample["strength"] for sample in group] == [-2.0, -1.0, 0.0, 1.0, 2.0]


def test_bars_show_spaces_and_are_relative_to_the_longest():
    assert tables.bars(((" a\n", 0.4), ("", -0.2))) == [("␣a↵", "+0.40", 100), ("(empty)", f"{MINUS}0.20", 50)]
    assert tables.bars(()) == []
    assert [token for token, *_ in tables.bars((("\xa0", 0.1), ("a\u200b", 0.1), ("\ufffd", 0.1)))] == [
        "U+00A0",
        "aU+200B",
        "(part of a character)",
    ]


@pytest.mark.parametrize(("given", "said"), [(True, "positive"), (False, "negative"), ("joy", "joy")])
def test_labels_in_words(given, said):
    assert tables.label(given) == said


def test_a_miss_is_a_score_on_the_other_side_of_the_threshold():
    assert tables.missed({"label": True, "score": 0.1}, threshold=0.2)
    assert not tables.missed({"label": False, "score": 0.1}, threshold=0.2)


def test_sites_sort_from_input_to_output():
    names = ["embed", "resid.0", "head.1.0", "head.1.2", "resid.2", "resid.10", "final"]
    ranks = [tables.rank(Site.parse(name)) for name in names]
    assert ranks == sorted(ranks)


def test_provenance_holds_what_is_needed_to_run_again():
    groups = {title: dict(facts) for title, facts in provenance.provenance(STUDY)}
    assert groups["Model"]["fingerprint"] == "3f0c9a1d5be27744"
    assert groups["Data"]["digest"] == "b51d3c0e77aa"
    assert groups["Data"]["train"] == "360"
    assert groups["Options"]["split_seed"] == "0"
    assert groups["Versions"] == {"covec": "0.1.0", "torch": "2.13.0", "python": "3.11.2"}
    assert groups["Run"]["causal part"] == "float32"


def test_options_of_any_kind_are_printed():
    settings = {
        "finders": ["ridge", "svm"],
        "sites": ["embed", "resid.0", "resid.1", "resid.2", "resid.5", "head.0.1", "head.0.2"],
        "deep": {"er": {"x": 1}},
        "none": None,
        "long": "x" * 5000,
    }
    options = dict(dict(provenance.provenance(study(settings=settings)))["Options"])
    assert options["finders"] == "ridge, svm"
    assert options["sites"] == "embed, resid.0 to 2, resid.5, head.0.1 to 2"
    assert options["deep, er, x"] == "1"
    assert "none" not in options
    assert len(options["long"]) < 500


@pytest.mark.parametrize("prompt", ["The hotel was", "it's \"$(rm -rf)\" `x`; \n'''", "\\"])
@pytest.mark.parametrize("name", ["sentiment", "it's", 'a b" $x'])
def test_recipes_survive_any_name_and_prompt(name, prompt):
    made = ConceptVector(name, STUDY.best.parts, model={"name": "a'b c"})
    python, shell = (code for _, code in provenance.recipes(made, prompt))
    strings = {node.value for node in ast.walk(ast.parse(python)) if isinstance(node, ast.Constant)}
    assert {name, prompt, "a'b c"} <= strings
    words = shlex.split(shell)
    assert words.count(prompt) == 2
    assert words[words.index("--concept") + 1] == name
    assert words[words.index("--model") + 1] == "a'b c"


def test_matrices_of_cosines():
    (matrix,) = cosines.matrices(studies().cosines)
    assert matrix.names == ("sentiment", "truth", "french")
    assert [matrix.rows[at][at] for at in range(3)] == [("+1.00", "more6")] * 3
    assert cosines.matrices({}) == []
