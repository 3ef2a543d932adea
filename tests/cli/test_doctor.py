"""`covec doctor`: ten checks of the model that is named."""

from __future__ import annotations

from dataclasses import replace

from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import tiny_model


def test_a_sound_model_exits_0(run, model):
    ran = run("doctor", "--model", "tiny", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.document["passed"]
    assert (ran.document["model"], ran.document["dtype"], ran.document["device"]) == ("tiny", "float32", "cpu")
    assert [check["name"] for check in ran.document["checks"]][:3] == ["padding-left", "padding-right", "batch"]
    assert len(ran.document["checks"]) == 10


def test_a_failed_check_exits_1_and_is_told(run, monkeypatch):
    import covec

    module, tokenizer = tiny_model("llama")
    sick = TextModel(module, tokenizer, name="tiny")
    taps = {**sick.anatomy.taps, Site("mlp", 2): sick.anatomy.taps[Site("mlp", 1)]}
    sick.anatomy = replace(sick.anatomy, taps=taps)
    monkeypatch.setitem(vars(covec), "load", lambda *_, **__: sick)
    ran = run("doctor", "--model", "tiny", "--json")
    assert ran.code == 1
    assert [check["name"] for check in ran.document["checks"] if not check["passed"]] == ["site-meaning"]
    shown = run("doctor", "--model", "tiny")
    assert shown.code == 1
    assert "site-meaning failed" in shown.out
    assert "mlp.2" in shown.out
    assert shown.out.count("FAILED") == 1
    assert shown.out.count("passed") == 9


def test_a_model_that_is_not_there_exits_2(run, model):
    ran = run("doctor", "--model", "other", "--json")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "no model 'other'" in ran.err


def test_it_is_the_python_api(run, model):
    import covec

    found, shown = covec.doctor(model), run("doctor", "--model", "tiny", "--json").document
    assert found.to_json()["checks"] == shown["checks"]
