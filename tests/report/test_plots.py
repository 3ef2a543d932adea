"""Panels and plots of a study, whole and with parts missing."""

import dataclasses
import math
from xml.etree import ElementTree

import pytest

from covec.models.positions import Position
from covec.models.sites import Site
from covec.report import effects, sweep
from covec.report.panels import panels
from covec.statistics.figure import Figure
from covec.studies.result import Cell
from report.fabricated import FINDERS, study

STUDY = study()


def cell(site, value, finder="ridge", position="last", null=None):
    return Cell(Site.parse(site), Position.parse(position), finder, Figure(value, null=null), value)


def label(svg):
    return ElementTree.fromstring(svg).get("aria-label")


def test_every_cell_has_its_place_in_one_panel():
    made = panels(STUDY.cells)
    assert [str(panel.position) for panel in made] == ["last/none", "content/mean"]
    for each in STUDY.cells:
        (panel,) = [panel for panel in made if panel.place(each) is not None]
        row, column = panel.place(each)
        assert panel.row(panel.finders[row])[column] == each


def test_the_best_head_stands_for_its_block():
    (panel,) = panels([cell("head.0.0", 0.6), cell("head.0.1", 0.8), cell("head.1.0", 0.7)])
    assert panel.columns == ("0", "1")
    assert [shown.auroc.value for shown in panel.row("ridge")] == [0.8, 0.7]


def test_columns_go_from_input_to_output_and_finders_from_the_best():
    cells = [cell("final", 0.6), cell("resid.10", 0.7), cell("resid.2", 0.9, "svm"), cell("embed", 0.5)]
    (panel,) = panels(cells)
    assert panel.columns == ("in", "2", "10", "out")
    assert panel.finders == ("svm", "ridge")
    assert panel.row("svm") == [None, cells[2], None, None]


def test_the_null_of_a_column_is_the_strictest_known():
    (panel,) = panels([cell("resid.0", 0.8, "a", null=0.6), cell("resid.0", 0.8, "b", null=0.62), cell("resid.1", 0.8)])
    assert panel.null("0") == 0.62
    assert math.isnan(panel.null("1"))


@pytest.mark.parametrize(("auroc", "level"), [(0.2, 0), (0.5, 0), (0.551, 1), (0.74, 4), (0.999, 9), (1.0, 9)])
def test_heat_levels_are_steps_of_a_twentieth(auroc, level):
    assert sweep.level(auroc) == level


def test_the_selected_cell_and_its_test_figure_are_told():
    panel = panels(STUDY.cells)[0]
    told = label(sweep.layer_curves(panel, STUDY, 0.4))
    assert f"{STUDY.selected.finder} at {STUDY.selected.site}" in told
    assert str(STUDY.test["auroc"]) in told
    assert "Selected" not in label(sweep.layer_curves(panels(STUDY.cells)[1], STUDY, 0.4))


@pytest.mark.parametrize("cells", [STUDY.cells, (STUDY.selected,)])
def test_the_test_figure_stands_over_its_block_inside_the_picture(cells):
    (panel,) = [one for one in panels(cells) if one.place(STUDY.selected)]
    svg = ElementTree.fromstring(sweep.layer_curves(panel, study(cells=cells), 0.4))
    width = float(svg.get("viewBox").split()[2])
    ring, diamond = list(svg.iter("use"))[-2:]
    assert ring.get("x") == diamond.get("x")
    assert "cv-test" in diamond.get("style")
    assert 10 < float(diamond.get("x")) < width - 10


def test_every_cell_of_the_heat_map_says_its_number():
    svg = ElementTree.fromstring(sweep.heat_map(panels(STUDY.cells)[0], STUDY))
    titles = [title.text for title in svg.iter("title")]
    assert len(titles) == 30 * len(FINDERS)
    assert f"{STUDY.selected.finder}, {STUDY.selected.site}: {STUDY.selected.auroc.value:.3f}" in titles


@pytest.mark.parametrize(
    "cells",
    [
        [cell("resid.4", 0.7)],
        [cell("resid.4", math.nan), cell("resid.5", 0.7)],
        [cell("embed", 0.3), cell("final", 0.4)],
        [cell("features.7", 0.7), cell("features.9@in", 0.8)],
        [cell(f"resid.{block}", 0.7) for block in range(120)],
    ],
)
def test_odd_sweeps_are_drawn(cells):
    made = study(cells=tuple(cells), selected=cells[-1])
    (panel,) = panels(cells)
    assert "AUROC over the layers" in label(sweep.layer_curves(panel, made, sweep.floor(cells)))
    assert "The best is ridge" in label(sweep.heat_map(panel, made))


def test_the_axis_begins_under_everything():
    assert sweep.floor([cell("resid.0", 0.31)]) < 0.31
    assert sweep.floor([]) < 0.5


def test_the_forest_shows_what_is_to_be_beaten():
    told = label(effects.forest(study(wrong_concepts={"a": Figure(0.4), "b": Figure(0.7), "c": Figure(math.nan)})))
    assert "best other concept 0.70" in told
    assert str(STUDY.bag_of_words["auroc"]) in told
    assert "other concept" not in label(effects.forest(STUDY))


def test_the_forest_leaves_out_what_could_not_be_had():
    assert "surface cues" not in label(effects.forest(study(cue=Figure(math.nan))))


def test_effects_stand_beside_their_nulls():
    told = label(effects.strips(STUDY))
    assert f"add: {STUDY.used.add}, largest null {max(STUDY.used.add_nulls):.2f}" in told
    assert "ablate" not in label(effects.strips(study(used=dataclasses.replace(STUDY.used, ablate=None))))


def test_the_steering_curve_tells_its_ends():
    told = label(effects.steering_curve(STUDY))
    first, last = STUDY.used.curve[0], STUDY.used.curve[-1]
    assert f"{first['readout']:.2f}".replace("-", "\N{MINUS SIGN}") in told
    assert f"{last['readout']:.2f} at 2.00" in told
    bare = tuple({"strength": point["strength"], "readout": 0.0} for point in STUDY.used.curve)
    assert "KL on neutral text" in label(
        effects.steering_curve(study(used=dataclasses.replace(STUDY.used, curve=bare)))
    )
