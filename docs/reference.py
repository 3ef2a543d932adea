"""The reference page: parameters that share an entry of a docstring keep their own types and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import griffe


class OwnTypes(griffe.Extension):
    """Mends the parameters of `sites, position : ...`, of which griffe gives all what belongs to the first."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for thing in _functions_and_classes(pkg):
            for section in thing.docstring.parsed if thing.docstring else ():
                if section.kind is griffe.DocstringSectionKind.parameters:
                    _mend(thing.parameters, section.value)


def _functions_and_classes(parent: griffe.Object) -> Iterator[griffe.Function | griffe.Class]:
    for thing in parent.members.values():
        if isinstance(thing, griffe.Function | griffe.Class):
            yield thing
        if isinstance(thing, griffe.Module | griffe.Class):
            yield from _functions_and_classes(thing)


def _mend(own: griffe.Parameters, told: list[griffe.DocstringParameter]) -> None:
    for parameter in told:
        with suppress(KeyError):  # one that stands in the docstring alone
            found = own[parameter.name]
            parameter.annotation, parameter.value = found.annotation, found.default
