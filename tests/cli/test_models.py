"""`covec models`: embedded ones and those of the Hugging Face cache."""

import huggingface_hub
import pytest


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty Hugging Face cache."""
    scan = huggingface_hub.scan_cache_dir
    monkeypatch.setattr(huggingface_hub, "scan_cache_dir", lambda: scan(tmp_path))
    return tmp_path


def put(hub, repo, *names):
    folder = hub / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    for name in names:
        (snapshot / name).write_text('{"vocab_size": 9}')


def test_the_embedded_models_are_listed(run, hub):
    rows = run("models", "--json").document
    assert [(row["name"], row["source"]) for row in rows] == [
        ("smollm2-135m", "embedded"),
        ("all-minilm-l6-v2", "embedded"),
    ]
    assert "smollm2-135m" in run("models").out


def test_models_of_the_hub_are_listed(run, hub):
    put(hub, "someone/whole", "config.json", "model.safetensors")
    put(hub, "someone/part", "config.json")
    put(hub, "someone/other", "readme.md")
    rows = {row["name"]: row["ready"] for row in run("models", "--json").document if row["source"] == "hub"}
    assert rows == {"someone/whole": True, "someone/part": False}


def test_without_a_hub_cache_there_is_no_fault(run, monkeypatch, tmp_path):
    scan = huggingface_hub.scan_cache_dir
    monkeypatch.setattr(huggingface_hub, "scan_cache_dir", lambda: scan(tmp_path / "missing"))
    assert {row["source"] for row in run("models", "--json").document} == {"embedded"}


def test_systems_are_counted_by_status_and_an_unknown_one_is_refused(run):
    ran = run("systems", "--verb", "find", "--status", "planned")
    rows = ran.out.splitlines()
    assert rows[-1].startswith(f"{len(rows) - 3} systems: {len(rows) - 3} planned")
    ran = run("systems", "--status", "stale")
    assert (ran.code, ran.out) == (2, "")
    assert "no status called 'stale'; there are claim fails here, claim holds, planned, works" in ran.err
