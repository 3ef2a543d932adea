"""`covec systems` and `covec claims`: what is published, what is built, and what holds here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from covec.cli import _options as options
from covec.cli._output import note, show, table, working
from covec.errors import CovecError

if TYPE_CHECKING:
    from covec.catalog import System
    from covec.claims import Claim


STATUSES = {"planned", "works", "claim holds", "claim fails here"}


def systems(
    verb: Annotated[str | None, typer.Option(help="Only those filed under this verb.")] = None,
    status: Annotated[
        str | None, typer.Option(help="Only these: planned, works, 'claim holds' or 'claim fails here'.")
    ] = None,
    json: options.Json = False,
) -> None:
    """List the published systems, and how far each is built and tested here."""
    from covec import catalog

    rows = [
        system
        for system in catalog.systems()
        if (verb is None or system.verb == verb) and (status is None or system.status == status)
    ]
    for what, value, known in (("verb", verb, {one.verb for one in catalog.systems()}), ("status", status, STATUSES)):
        if value is not None and value not in known:
            raise CovecError(f"no {what} called {value!r}; there are {', '.join(sorted(known))}")
    show([system.to_json() for system in rows], json, lambda: _listing(rows))


def _listing(rows: Sequence[System]) -> str:
    """A line a system, and how many there are of each status."""
    lines = table(
        ("id", "verb", "tier", "status", "what it is"),
        [(row.id, row.verb, row.tier, row.status + (", stale" if row.stale else ""), row.summary) for row in rows],
    )
    counts = ", ".join(f"{count} {status}" for status, count in Counter(row.status for row in rows).most_common())
    told = "; stale: code, data or model changed since the claim was run" if any(row.stale for row in rows) else ""
    return f"{lines}\n\n{len(rows)} systems: {counts}{told}"


def claims(
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="A system; `covec systems` lists them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Run every claim and record the results.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Record the result in the catalog.")] = False,
    reduced: Annotated[
        bool, typer.Option("--reduced", help="The same code on a setting of seconds; proves nothing.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Run the claim of a published system: each figure, its baseline, the rule, and whether it holds."""
    from covec import claims as runner

    if every == (id is not None):
        raise CovecError(f"name one claim or give --all; claims: {', '.join(runner.available())}")
    if reduced and (write or every):
        raise CovecError("a reduced run proves nothing and is not recorded; leave --reduced out")
    found = []
    with working():
        for name in runner.available() if every else [str(id)]:
            claim = runner.run(name, reduced=reduced)
            found.append(claim)
            if every or write:
                note(f"{claim.id}: {'holds' if claim.passed else 'fails here'}, {runner.write(claim).name} written")
    documents = [claim.to_json() for claim in found]
    told = "a reduced setting, which proves nothing\n" if reduced else ""
    show(documents if every else documents[0], json, lambda: _table(found) if every else f"{told}{found[0]}")
    if not all(claim.passed for claim in found):
        raise typer.Exit(1)


def _table(claims: Sequence[Claim]) -> str:
    """All claims, a line each: the first figure that fails, or else the first, stands for it."""
    rows = []
    for claim in claims:
        rules = claim.rules
        told = next((one for one in rules if not one.holds), rules[0] if rules else None)
        held = f"{sum(one.holds for one in rules)} of {len(rules)}"
        outcome = "holds" if claim.passed else "fails here"
        seconds = round(claim.seconds), round(claim.processor_seconds)
        rows.append((claim.id, outcome, held, *seconds, f"{told.name}: {told.beside}; {told.rule}" if told else ""))
    return table(("claim", "", "rules kept", "seconds", "processor", "the first that fails, or the first"), rows)
