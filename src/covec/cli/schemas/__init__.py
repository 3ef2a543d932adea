"""The JSON that each command prints with `--json`: one schema a command, and the page that tells it to people.

`python -m covec.cli.schemas` prints docs/json.md; a test holds the page to the schemas and the commands to both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIGURE = "figure"


def commands() -> tuple[str, ...]:
    """The commands that have a schema."""
    return tuple(sorted(file.stem for file in HERE.glob("*.json") if file.stem != FIGURE))


def load(command: str) -> dict[str, Any]:
    """The schema of `command` (JSON Schema 2020-12), complete in itself."""
    schema = _read(command)
    schema["$defs"] = {**schema.get("$defs", {}), FIGURE: _read(FIGURE)}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"covec {command} --json", **schema}


def markdown() -> str:
    """The page docs/json.md."""
    parts = [
        "# The JSON of the commands\n",
        "With `--json` a command prints exactly one JSON document on stdout and everything else on stderr. The",
        "schemas lie in the package (`covec/cli/schemas/*.json`, JSON Schema); this page is made from them by",
        "`make docs`. Every key of a document is always there; where a command prints one of several documents, a line",
        "in italics says which. New keys may be added, and these keep their meaning.",
        "Estimates are figures; counts, p-values and per-item values are plain numbers.\n",
        "Exit codes: 0; 1 where a claim or check failed; 2 where the input was wrong (one line on stderr, no",
        "document); 130 where it was interrupted.\n",
        *_section("figure", {**_read(FIGURE), "$defs": {}}),
    ]
    for command in commands():
        parts += _section(f"covec {command}", load(command))
    return "\n".join(parts).rstrip() + "\n"


def _section(title: str, schema: dict[str, Any]) -> list[str]:
    rows = [
        f"| {path and f'`{path}`'} | {kind} | {text} |" for path, kind, text in _walk(schema, dict(schema["$defs"]), "")
    ]
    return [f"## {title}\n", schema["description"] + "\n", "| key | type | meaning |", "| --- | --- | --- |", *rows, ""]


def _walk(schema: dict[str, Any], unopened: dict[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """Key, type and meaning of everything below `schema`; what is referred to is told once, figures apart."""
    for option in schema.get("anyOf", ()):
        told = option if "description" in option else unopened.get(_reference(option) or "", {})
        if not path and "description" in told:
            yield "", "", f"*{told['description'].rstrip('.')}:*"
        yield from _walk(option, unopened, path)
    name = _reference(schema)
    if name != FIGURE and name in unopened:
        yield from _walk(unopened.pop(name), unopened, path)
    if isinstance(schema.get("items"), dict):
        yield from _walk(schema["items"], unopened, path + "[]")
    for key, value in schema.get("properties", {}).items():
        below = f"{path}.{key}".lstrip(".")
        yield below, _kind(value), _meaning(value)
        yield from _walk(value, unopened, below)


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(option) for option in schema["anyOf"]))
    if name := _reference(schema):
        return "figure" if name == FIGURE else "object"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "items" in schema:
        item, *rest = _kind(schema["items"]).split(" ", 1)
        kinds = [" ".join([f"list of {item}s", *rest]) if kind == "array" else kind for kind in kinds]
    return " or ".join(kinds)


def _meaning(schema: dict[str, Any]) -> str:
    text: str = schema.get("description", "")
    if "enum" in schema:
        text = f"{text} One of {', '.join(f'`{value}`' for value in schema['enum'])}.".strip()
    return text


def _reference(schema: dict[str, Any]) -> str | None:
    reference: str | None = schema.get("$ref")
    return reference.rpartition("/")[2] if reference else None


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return document
