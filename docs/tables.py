"""The tables in docs/ that say what the code says: `python docs/tables.py` writes them into the pages again.

A page marks the place with `<!-- table: NAME -->` and `<!-- end -->`; a test compares what stands between them.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import typer

import covec
from covec import cli, registry
from covec.models.positions import Position
from covec.models.sites import Site
from covec.report import words

HERE = Path(__file__).parent
_PLACE = re.compile(r"(<!-- table: ([\w -]+) -->\n).*?(<!-- end -->)", re.S)
_COMMANDS: Any = typer.main.get_command(cli.app).commands
_EDITS = ("add", "ablate", "set_coordinate", "to_probability")
_SITES = """
embed resid.14 attn.14 mlp.14 mixer.14 neuron.14 head.14.0 key.14.0 value.14.0 final layers.14.mlp.gate_proj
"""
_POSITIONS = "last first 2 mean content/max from-3/mean answer/mean span/mean"


def written(page: str) -> str:
    """The text of a page with all its tables made anew."""
    return _PLACE.sub(lambda found: f"{found[1]}\n{_made(found[2])}\n\n{found[3]}", page)


def _made(name: str) -> str:
    what, _, argument = name.partition(" ")
    return _TABLES[what](argument) if argument else _TABLES[what]()


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line).rstrip() + " |" for line in lines)


def _first(thing: Any) -> str:
    """The first sentence of a docstring."""
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z])", text)[0]


def _parameters(function: Any) -> str:
    return ", ".join(f"`{name}`" for name in inspect.signature(function).parameters if name not in ("self", "vector"))


def finders() -> str:
    """Every finder: what it is, and what it needs."""
    rows = []
    for name in registry.names("find"):
        kind = registry.get("find", name)
        needs = ["rows" if kind.entry.needs == "activations" else kind.entry.needs, *kind.entry.requires]
        quick = "yes" if kind.closed_form else ""
        rows.append((f"`{name}`", _first(kind), ", ".join(needs), quick, _parameters(kind)))
    return _table(("finder", "what it is", "needs", "in `--quick`", "parameters"), rows)


def methods(verb: str) -> str:
    """Every method of a verb."""
    rows = [(f"`{name}`", _first(registry.get(verb, name))) for name in registry.names(verb)]
    return _table(("method", "what it is"), rows)


def edits() -> str:
    """What a concept vector offers to edit with."""
    offered = {name: registry.resolve(f"edits.{name}") for name in _EDITS}
    rows = [(f"`v.{name}`", _parameters(function), _first(function)) for name, function in offered.items()]
    return _table(("edit", "parameters", "what it is"), rows)


def sites() -> str:
    """An example of every kind of site."""
    return _table(("site", "where"), [(f"`{site}`", words.place(Site.parse(site))) for site in _SITES.split()])


def positions() -> str:
    """Examples of positions."""
    rows = [
        (f"`{text}`", f"`{Position.parse(text)}`", words.reading(Position.parse(text))) for text in _POSITIONS.split()
    ]
    return _table(("position", "in full", "what is read"), rows)


def options(command: str) -> str:
    """The arguments and options of a command, with their defaults."""
    rows = []
    for one in _COMMANDS[command].params:
        name = max(one.opts, key=len) if one.param_type_name == "option" else (one.metavar or one.name.upper())
        default = "" if one.default is None or one.default is False else f"`{one.default}`"
        if one.name != "json":
            rows.append((f"`{name}`", "required" if one.required else default, one.help or ""))
    return _table(("option", "default", "what it does"), rows)


def commands() -> str:
    """Every command."""
    return _table(("command", "what it does"), [(f"`covec {name}`", one.help) for name, one in _COMMANDS.items()])


def names() -> str:
    """The public names of the package."""
    rows = [(f"`covec.{name}`", _first(getattr(covec, name))) for name in sorted(covec.__all__) if name[0] != "_"]
    return _table(("name", "what it is"), rows)


def examples() -> str:
    """The scripts in examples/, by the first sentence of their docstrings."""
    scripts = sorted((HERE.parent / "examples").glob("*.py"))
    told = {path.name: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "" for path in scripts}
    rows = [
        (f"[{name}](../examples/{name})", text.partition("\n\n")[0].replace("\n", " ")) for name, text in told.items()
    ]
    return _table(("script", "what it shows"), rows)


_TABLES: dict[str, Callable[..., str]] = {
    one.__name__: one for one in (finders, methods, edits, sites, positions, options, commands, names, examples)
}


def main() -> None:
    """Write all tables again."""
    for page in sorted(HERE.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (new := written(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"{page.relative_to(HERE)}: written again")


if __name__ == "__main__":
    main()
