"""docs/families.md, from what the laws find: `make docs` runs them all and writes the page."""

from __future__ import annotations

from collections.abc import Iterator

from families.laws import LAWS, applies
from families.zoo import FAMILIES, SITES, Family, model_of

_HEAD = """\
# Families

<!-- Written by `make docs` from tests/families: change the zoo or the laws there, not this page. -->

covec has no list of architectures: it finds the sites of a model from its modules. On a tiny random model of each of
these {count} families of transformers the tests hold it to these laws:

{laws}

What a family does not have or keep, it says:

| family | class | sites | laws kept | but |
| --- | --- | --- | --- | --- |
"""


def found(name: str) -> dict[str, bool]:
    """Whether a family keeps each law that speaks of it: the laws are run."""
    family, model = FAMILIES[name], model_of(name)
    kept = {}
    for law, holds in LAWS.items():
        if applies(law, family, model):
            try:
                holds(family, model)
                kept[law] = True
            except AssertionError:
                kept[law] = False
    return kept


def said(name: str) -> dict[str, bool]:
    """The same as the zoo says it, and the tests prove it."""
    family, model = FAMILIES[name], model_of(name)
    return {law: law not in family.breaks for law in LAWS if applies(law, family, model)}


def markdown(results: dict[str, dict[str, bool]]) -> str:
    """The page, from the laws that each family keeps."""
    laws = "\n".join(f"- **{name.replace('_', ' ')}**: {law.__doc__}" for name, law in LAWS.items())
    rows = [_row(name, FAMILIES[name], kept) for name, kept in results.items()]
    return _HEAD.format(count=len(results), laws=laws) + "\n".join(rows) + "\n"


def _row(name: str, family: Family, kept: dict[str, bool]) -> str:
    sites = " ".join(kind for kind in SITES if kind in family.kinds)
    held = f"{sum(kept.values())} of {len(kept)}"
    return f"| {name} | {family.model} | {sites} | {held} | {'; '.join(_exceptions(family, kept))} |"


def _exceptions(family: Family, kept: dict[str, bool]) -> Iterator[str]:
    for kinds, why in family.lacks.items():
        yield f"no {kinds}: {why}"
    for law, holds in kept.items():
        if not holds:
            yield f"not {law.replace('_', ' ')}: {family.breaks[law]}"


if __name__ == "__main__":
    print(markdown({name: found(name) for name in FAMILIES}), end="")
