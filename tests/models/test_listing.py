from __future__ import annotations

import json
from pathlib import Path

import huggingface_hub
import pytest

from covec.models._seal import seal
from covec.models.embedded import EMBEDDED
from covec.models.listing import Listed, at_hand

LANGUAGE = {"architectures": ["GPT2LMHeadModel"], "vocab_size": 9}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hugging Face cache and an empty cache of covec."""
    scan = huggingface_hub.scan_cache_dir
    monkeypatch.setattr(huggingface_hub, "scan_cache_dir", lambda: scan(tmp_path / "hub"))
    monkeypatch.setenv("COVEC_CACHE", str(tmp_path / "covec"))
    return tmp_path / "hub"


def _put(hub: Path, name: str, files: dict[str, object], kind: str = "models") -> None:
    folder = hub / f"{kind}--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    for file, content in files.items():
        (folder / "snapshots" / "abc" / file).write_text(json.dumps(content))


def _hub_rows() -> dict[str, bool]:
    return {model.name: model.ready for model in at_hand() if model.source == "hub"}


def test_without_a_hub_cache_the_embedded_models_are_there(hub):
    assert at_hand() == [Listed(name, "embedded", False, known.bytes) for name, known in EMBEDDED.items()]
    assert [listed.name for listed in at_hand()] == ["smollm2-135m", "all-minilm-l6-v2"]


def test_it_is_ready_once_it_is_cached(hub):
    folder = EMBEDDED["smollm2-135m"].folder
    folder.mkdir(parents=True)
    for file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        assert not at_hand()[0].ready
        (folder / file).touch()
    seal(folder)
    assert at_hand()[0].to_json() == {
        "name": "smollm2-135m",
        "source": "embedded",
        "ready": True,
        "bytes": EMBEDDED["smollm2-135m"].bytes,
    }


def test_language_models_of_the_hub_are_listed_by_name(hub):
    _put(hub, "someone/whole", {"config.json": LANGUAGE, "model.safetensors": "w"})
    _put(hub, "old", {"config.json": LANGUAGE, "pytorch_model.bin": "w"})
    _put(hub, "someone/many", {"config.json": {"architectures": ["Gemma3ForCausalLM"]}, "model.safetensors": "w"})
    assert _hub_rows() == {"old": True, "someone/many": True, "someone/whole": True}
    assert list(_hub_rows()) == sorted(_hub_rows())
    assert all(model.bytes > 0 for model in at_hand())


def test_a_download_that_was_interrupted_is_not_ready(hub):
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    _put(hub, "a/none", {"config.json": LANGUAGE})
    _put(hub, "a/half", {"config.json": LANGUAGE, "model.safetensors.index.json": index, "model-1.safetensors": "w"})
    shards = {"model-1.safetensors": "w", "model-2.safetensors": "w"}
    _put(hub, "a/all", {"config.json": LANGUAGE, "model.safetensors.index.json": index, **shards})
    assert _hub_rows() == {"a/none": False, "a/half": False, "a/all": True}


def test_what_covec_does_not_read_is_not_listed(hub):
    _put(hub, "a/image", {"config.json": {"architectures": ["ViTModel"]}, "model.safetensors": "w"})
    _put(hub, "a/speech", {"config.json": {"vocab_size": 9, "is_encoder_decoder": True}, "model.safetensors": "w"})
    _put(hub, "a/files", {"readme.md": "text"})
    _put(hub, "a/broken", {"config.json": 1234, "model.safetensors": "w"})
    _put(hub, "a/texts", {"config.json": LANGUAGE}, kind="datasets")
    assert _hub_rows() == {}
