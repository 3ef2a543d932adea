"""The scripts in examples/ run, on fewer rows and one block, and print what they say that they print."""

import runpy
from pathlib import Path

import pytest

import covec
from covec.concepts import packaged

SCRIPTS = Path(__file__).parents[1] / "examples"
FEW = 104  # of the packaged rows, in pairs
ONE_BLOCK = {"sites": "resid.12", "quick": True, "finders": "mean-difference", "new_tokens": 4}
LIGHT = {
    "sentiment": (ONE_BLOCK, ["verdict", "test AUROC", "-3: My weekend", "+3: My weekend"]),
    "persona_from_templates": ({**ONE_BLOCK, "openings": 10}, ["cheerful in", "verdict", "bag of words", "+2: "]),
    "monitor_chat_with_watch": ({"new_tokens": 4}, ["user:", "model:", "mean score of what it read", "strongest:"]),
    "several_concepts": (ONE_BLOCK, ["praise in", "past in", "the other concept's vector: past", "praise and past:"]),
}


@pytest.mark.parametrize("script", sorted(LIGHT))
def test_a_script_runs_and_prints_its_results(script, smol, monkeypatch, capsys):
    few = packaged.example_concept().subset(range(FEW))
    monkeypatch.setattr(packaged, "example_concept", lambda: few)
    monkeypatch.setattr(covec, "load", lambda *_, **__: smol, raising=False)
    options, told = LIGHT[script]
    runpy.run_path(str(SCRIPTS / f"{script}.py"))["main"](**options)
    out = capsys.readouterr().out
    assert not [text for text in told if text not in out], out


def test_every_script_is_tried():
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(LIGHT)
