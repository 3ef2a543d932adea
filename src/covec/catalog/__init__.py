"""The catalog of published systems: what each is, where it is built, and what became of its claim.

`systems.toml` names each system's module as a string, so that listing imports none of them. What a claim's run gave
lies in `results/<id>.json`, written by `make claims`.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from covec.errors import CovecError, FileError

SYSTEMS = Path(__file__).parent / "systems.toml"
RESULTS = Path(__file__).parent / "results"
DATA = Path(__file__).parents[1] / "concepts" / "data"


@dataclass(frozen=True)
class System:
    """One published system.

    `verb` is what it is filed under, `also` what else it does; `claim` says in a line what is tested; `module` is where
    it is built, None where it is not; `note` says what of it is left.
    """

    id: str
    name: str
    title: str
    paper: str
    verb: str
    tier: str
    summary: str
    claim: str
    also: tuple[str, ...] = ()
    modality: tuple[str, ...] = ()
    code: str | None = None
    module: str | None = None
    note: str | None = None

    @property
    def result(self) -> dict[str, Any] | None:
        """What the last recorded run of its claim gave; None where it never ran."""
        return read_result(self.id)

    @property
    def status(self) -> str:
        """One of `planned`, `works`, `claim holds`, `claim fails here`."""
        if self.module is None:
            return "planned"
        if (result := self.result) is None:
            return "works"
        return "claim holds" if result["passed"] else "claim fails here"

    @property
    def stale(self) -> bool:
        """Whether claim, method, texts or model changed since the recorded run."""
        result = self.result
        return result is not None and result["digest"] != self.digest(result["texts"])

    def digest(self, texts: Sequence[str]) -> str:
        """Of the code of claim and method, of packaged `texts`, and of what pins the embedded models.

        A run could read only the texts that were there: one that is packaged later changes nothing.
        """
        claim = f"covec.claims.{self.id.replace('-', '_')}"
        modules = [name for name in (claim, *_imports(claim), self.module, "covec.models.embedded") if name]
        files = [*filter(None, map(_source, modules)), *(DATA / name for name in texts)]
        digests = (hashlib.sha256(file.read_bytes() if file.is_file() else b"").digest() for file in files)
        return hashlib.sha256(b"".join(digests)).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """What `covec systems --json` prints of it."""
        result = self.result or {}
        return {
            "id": self.id,
            "title": self.title,
            "paper": self.paper,
            "verb": self.verb,
            "tier": self.tier,
            "status": self.status,
            "stale": self.stale,
            "note": self.note,
            "figures": result.get("figures", []),
            "date": result.get("date"),
            "versions": result.get("versions"),
        }


@cache
def systems() -> tuple[System, ...]:
    """All systems, in the order of their ids."""
    with SYSTEMS.open("rb") as file:
        tables = tomllib.load(file)
    return tuple(_system(id, table) for id, table in tables.items())


def _system(id: str, table: dict[str, Any]) -> System:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return System(id=id, **fields)


def system(id: str) -> System:
    """The system called `id`; an unknown id raises and names the nearest ones."""
    known = {system.id: system for system in systems()}
    if id not in known:
        near = difflib.get_close_matches(id, known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "`covec systems` lists them"
        raise CovecError(f"no system {id!r}; {hint}")
    return known[id]


def packaged_texts() -> list[str]:
    """Names of the files of texts that come with covec."""
    return sorted(file.name for file in DATA.iterdir() if file.is_file())


def result_path(id: str) -> Path:
    """Where the result of a claim is kept."""
    return RESULTS / f"{id}.json"


def read_result(id: str) -> dict[str, Any] | None:
    """The recorded result of a claim; None where it never ran."""
    path = result_path(id)
    if not path.is_file():
        return None
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(result["passed"], bool) or not isinstance(result["digest"], str):
            raise TypeError("passed or digest has another type")
        result.setdefault("texts", [])
        if not all(isinstance(name, str) and Path(name).name == name for name in result["texts"]):
            raise TypeError("texts are no names of files")
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} is damaged ({error}); run `covec claims {id} --write` again") from error
    return dict(result)


def _imports(module: str) -> tuple[str, ...]:
    """The modules of the rooms of claims and worlds that `module` imports."""
    if (source := _source(module)) is None:
        return ()
    nodes = ast.walk(ast.parse(source.read_bytes()))
    names = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return tuple(sorted(name for name in names if name.startswith(("covec.claims.", "covec.worlds."))))


def _source(module: str) -> Path | None:
    """The file of a module of covec, found without importing its room."""
    bare = Path(__file__).parents[1].joinpath(*module.split(".")[1:])
    return next((file for file in (bare.with_suffix(".py"), bare / "__init__.py") if file.is_file()), None)
