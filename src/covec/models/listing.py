"""The models at hand: those that come as packages, and the language models of the Hugging Face cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from covec.models.embedded import EMBEDDED


@dataclass(frozen=True)
class Listed:
    """One model: what to call it in `covec.load`, whether that needs no network, and its size on disk in bytes."""

    name: str
    source: Literal["embedded", "hub"]
    ready: bool
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def at_hand() -> list[Listed]:
    """All models that load without a search, embedded ones first."""
    embedded = [Listed(model.name, "embedded", model.cached, model.bytes) for model in EMBEDDED.values()]
    return embedded + sorted(_from_hub(), key=lambda model: model.name)


def _from_hub() -> Iterator[Listed]:
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        repositories = scan_cache_dir().repos
    except CacheNotFound:
        return
    for repository in repositories:
        if repository.repo_type == "model":
            snapshots = sorted(repository.revisions, key=lambda revision: "main" not in revision.refs)
            if snapshots and _is_language_model(snapshots[0].snapshot_path):
                ready = _is_whole(snapshots[0].snapshot_path)
                yield Listed(repository.repo_id, "hub", ready, repository.size_on_disk)


def _is_language_model(folder: Path) -> bool:
    config = _read(folder / "config.json")
    named = any(str(name).endswith("ForCausalLM") for name in config.get("architectures") or ())
    return named or ("vocab_size" in config and not config.get("is_encoder_decoder"))


def _is_whole(folder: Path) -> bool:
    """Whether all shards of the weights are there; a download may have been interrupted."""
    for single in ("model.safetensors", "pytorch_model.bin"):
        shards = set(_read(folder / f"{single}.index.json").get("weight_map", {}).values()) or {single}
        if all((folder / shard).exists() for shard in shards):
            return True
    return False


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
