"""`covec models`: what is at hand."""

from __future__ import annotations

from typing import Any

from covec.cli import _options as options
from covec.cli._output import show, table, working


def models(json: options.Json = False) -> None:
    """List the models that are at hand: those that come as packages, and those in the Hugging Face cache."""
    with working():
        from covec.models.listing import at_hand

        rows = [model.to_json() for model in at_hand()]
    show(rows, json, lambda: table(("model", "from", "size", ""), [_words(row) for row in rows]))


def _words(row: dict[str, Any]) -> tuple[str, ...]:
    size = f"{row['bytes'] / 1e9:.1f} GB"
    return row["name"], row["source"], size, "" if row["ready"] else "fetched when first used"
