"""`covec bench`: published methods side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from covec.cli import _options as options
from covec.cli._output import note, show, table, working
from covec.cli._progress import bars
from covec.errors import CovecError

if TYPE_CHECKING:
    from covec.bench.result import DetectionBench

BENCHES = ("detect",)


def bench(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="What to compare: detect.")],
    concepts: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONCEPTS]", help="A file or folder of concepts; left out, eight that come with covec."
        ),
    ] = None,
    model: options.Model = options.DEFAULT_MODEL,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for bench.html, bench.json and bench.parquet; an interrupted run goes on there."),
    ] = None,
    sites: Annotated[str, typer.Option(help="Where to look, such as resid.* or resid.10:20,mlp.50%.")] = "resid.*",
    finders: Annotated[
        str | None, typer.Option(help="Methods to try, with commas; left out, all that can run.")
    ] = None,
    position: Annotated[
        str | None,
        typer.Option(help="Tokens to fit on, with commas; left out, last,mean, and spans if all have one."),
    ] = None,
    positive: Annotated[str | None, typer.Option(help="The label that has the concept, against the rest.")] = None,
    each_class: Annotated[bool, typer.Option("--each-class", help="One concept a label, against the rest.")] = False,
    text_column: options.TextColumn = None,
    label_column: Annotated[str | None, typer.Option(help="Column of the labels, where it is not `label`.")] = None,
    split_seed: Annotated[int, typer.Option(help="The salt of the split: the only option that moves rows.")] = 0,
    seed: options.Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Every third block and closed forms.")] = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    batch_tokens: options.BatchTokens = 512,
    json: options.Json = False,
) -> None:
    """Compare ways to detect concepts: every finder with every aggregator, controls, and baselines of the raw text."""
    if what not in BENCHES:
        raise CovecError(f"no bench {what!r}; there is {', '.join(BENCHES)}")
    if concepts is None and (positive or each_class or text_column or label_column):
        raise CovecError("--positive, --each-class and columns are for a file: give it after `detect`")
    with working():
        import covec
        from covec.bench import detect
        from covec.concepts.examples import read_concepts

        given = None if concepts is None else read_concepts(
            concepts, text_column=text_column, label_column=label_column, positive=positive, each_class=each_class
        )  # fmt: skip
        result = detect(
            covec.load(model, device=device, dtype=dtype, progress=bars()),
            given,
            sites=sites,
            finders=finders,
            position=position,
            out=out,
            split_seed=split_seed,
            seed=seed,
            quick=quick,
            batch_tokens=batch_tokens,
            progress=bars(),
        )
        if out:
            result.write(out)
        for line in result.notes:
            note(line)
    show(result.summary(), json, lambda: _told(result))
    if out:
        note(f"page: {out / 'bench.html'}")


def _told(result: DetectionBench) -> str:
    """All methods, how far ranks must lie apart, and what SuperActivators gain."""
    rows = [
        (
            one.method, one.aggregator, f"{one.rank:.1f}", str(one.auroc).partition(", null")[0],
            str(one.f1).partition(", null")[0], "" if one.stability is None else f"{one.stability:.2f}",
            f"{one.seconds:.2f}", "" if one.memory is None else f"{one.memory:.0f}",
        )
        for one in result.summaries
    ]  # fmt: skip
    lines = [table(("method", "aggregator", "rank", "AUROC", "F1", "stability", "seconds", "MB"), rows), ""]
    for ranking in result.rankings:
        if (critical := ranking.ranks.critical_difference) is not None:
            best = ranking.names[int(ranking.ranks.mean.argmin())]
            lines.append(
                f"{len(ranking.names)} ranked by {ranking.by}: best {best}; critical difference {critical:.2f}"
            )
    own = [one for one in result.differences if one.finder == result.differences[0].finder]
    lines += [f"F1 of super-activators less that of {one.rival}: {one.overall}" for one in own]
    return "\n".join(lines).rstrip()
