"""The page of benchmarks is what the generator makes of the committed results; ratios and verdicts follow the times."""

import importlib.util
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmarks():
    """Imports a file of benchmarks/ by name, as the races do."""

    def imported(name):
        spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return imported


def test_page_is_generated_from_the_results(benchmarks):
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == benchmarks("page").page()


def test_every_result_belongs_to_a_race():
    results = {file.stem for file in (ROOT / "benchmarks" / "results").glob("*.json")}
    assert results <= {file.stem for file in (ROOT / "benchmarks").glob("*.py")}


def test_results_tell_nothing_of_whose_machine_it_was():
    for file in (ROOT / "benchmarks" / "results").glob("*.json"):
        told = json.loads(file.read_text(encoding="utf-8"))
        assert set(told["machine"]) == {"processor", "cores", "memory", "system", "bfloat16"}
        assert "/home/" not in file.read_text(encoding="utf-8")


def seconds(race, values):
    return [race.Seconds(value, value) for value in values]


@pytest.mark.parametrize(("n", "cut"), [(1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (20, 6)])
def test_interval_of_the_median_is_the_sign_tests(benchmarks, n, cut):
    race = benchmarks("race")
    values = list(range(1, n + 1))
    median, low, high = race.ratios(seconds(race, values), seconds(race, [1.0] * n))
    outside = 2 * sum(math.comb(n, below) for below in range(cut)) / 2**n
    assert (median, low, high) == ((n + 1) / 2, cut, n + 1 - cut)
    assert outside <= 0.05 or cut == 1


def test_ratios_are_of_neighbours(benchmarks):
    race = benchmarks("race")
    assert race.ratios(seconds(race, [2, 20, 200]), seconds(race, [1, 10, 100])) == [2, 2, 2]


def test_a_distance_is_by_the_largest_entry_of_a_row(benchmarks):
    race = benchmarks("race")
    rows = {"a": np.array([[1.0, -100.0], [1.0, 1.0]])}
    assert race.largest_difference({"a": rows["a"] + [[1.0, 0], [0.1, 0]], "b": np.ones(1)}, rows) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="nothing to compare"):
        race.largest_difference({"b": np.ones(1)}, rows)
    with pytest.raises(ValueError, match=r"a: \(1, 2\) and \(2, 2\)"):
        race.largest_difference({"a": np.ones((1, 2))}, rows)


def test_unequal_results_end_a_race_and_leave_nothing(benchmarks, tmp_path, monkeypatch):
    race = benchmarks("race")
    monkeypatch.setattr(race, "RESULTS", tmp_path / "results")
    heat = race.Heat("sums", [race.Local("one", lambda: np.ones(3)), race.Local("two", lambda: np.zeros(3))], 1e-3)
    with pytest.raises(AssertionError, match="sums: two is 1 from one"):
        race.race("sums", "Sums", "", [heat], {})
    assert not list(tmp_path.rglob("*.json"))


def test_a_race_from_end_to_end(benchmarks, tmp_path, monkeypatch):
    race, page = benchmarks("race"), benchmarks("page")
    for module in (race, page):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    missing = race.Local("absent", lambda: None)
    missing.absent = "not installed: there is no such package"
    heat = race.Heat(
        "sums",
        [race.Local("one", lambda: np.ones(3)), race.Local("two", lambda: np.ones(3)), missing],
        1e-3,
        wanted=[race.Wanted("one", at_most=60), race.Wanted("absent", "one", at_least=2)],
        rounds=2,
    )
    race.race("sums", "Sums", "What is summed.", [heat], {"peer": "1.0"})
    told = page.page()
    assert "| absent | | | not installed: there is no such package |" in told
    assert "one: at most 60 s is wanted; it is" in told
    assert "absent / one: at least 2 is wanted; not measured, one of them is missing." in told
    assert "| two |" in told
    assert "peer 1.0" in told
