"""`covec models`: what is at hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from covec.cli import _options as options
from covec.cli._output import show, table, working


def models(json: options.Json = False) -> None:
    """List the models that are at hand: those that come as packages, and those in the Hugging Face cache."""
    with working():
        rows = [*_embedded(), *_hub()]
    show(rows, json, lambda: table(("model", "from", "size", ""), [_words(row) for row in rows]))


def _words(row: dict[str, Any]) -> tuple[str, ...]:
    size = f"{row['bytes'] / 1e9:.1f} GB"
    return row["name"], row["source"], size, "" if row["ready"] else "fetched when first used"


def _embedded() -> Iterator[dict[str, Any]]:
    from covec.models.embedded import EMBEDDED

    for model in EMBEDDED.values():
        yield {"name": model.name, "source": "embedded", "ready": model.cached, "bytes": model.bytes}


def _hub() -> Iterator[dict[str, Any]]:
    """Models of the Hugging Face cache that have their configuration and weights."""
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        found = scan_cache_dir().repos
    except CacheNotFound:
        return
    for repo in sorted(found, key=lambda repo: repo.repo_id):
        names = {file.file_name for revision in repo.revisions for file in revision.files}
        weights = any(name.endswith((".safetensors", ".bin")) for name in names)
        if repo.repo_type == "model" and "config.json" in names:
            yield {"name": repo.repo_id, "source": "hub", "ready": weights, "bytes": repo.size_on_disk}
