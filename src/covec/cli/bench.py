"""`covec bench`: published methods side by side, ways to detect or ways to steer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from covec.cli import _options as options
from covec.cli._loading import load
from covec.cli._output import note, show, table, working
from covec.cli._progress import bars
from covec.errors import CovecError

if TYPE_CHECKING:
    from covec.bench.result import DetectionBench
    from covec.bench.steering.result import SteeringBench
    from covec.concepts.examples import Examples
    from covec.models.text import TextModel

BENCHES = ("detect", "steer")
_TOKENS = 512


def bench(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="What to compare: detect or steer.")],
    concepts: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONCEPTS]", help="A file or folder of concepts; left out, those that come with covec."
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
    methods: Annotated[
        str | None, typer.Option(help="Ways to steer, with commas; left out, all that learn from examples.")
    ] = None,
    doses: Annotated[
        str | None, typer.Option(help="KL a token on neutral text that ways to steer are compared at, with commas.")
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
    batch_tokens: options.BatchTokens = _TOKENS,
    json: options.Json = False,
) -> None:
    """Compare ways to detect concepts, or ways to steer towards them, beside controls and prompting."""
    if what not in BENCHES:
        raise CovecError(f"no bench {what!r}; there is {', '.join(BENCHES)}")
    if concepts is None and (positive or each_class or text_column or label_column):
        raise CovecError(f"--positive, --each-class and columns are for a file: give it after `{what}`")
    detecting = {
        "--sites": sites != "resid.*", "--finders": finders, "--position": position, "--quick": quick,
        "--batch-tokens": batch_tokens != _TOKENS,
    }  # fmt: skip
    strange = {"--methods": methods, "--doses": doses} if what == "detect" else detecting
    if wrong := [name for name, given in strange.items() if given]:
        other = "steer" if what == "detect" else "detect"
        raise CovecError(f"{wrong[0]} is for `covec bench {other}`: leave it out")
    levels = None if doses is None else _numbers(doses)
    with working():
        from covec.concepts.examples import read_concepts

        given = None if concepts is None else read_concepts(
            concepts, text_column=text_column, label_column=label_column, positive=positive, each_class=each_class
        )  # fmt: skip
        common: dict[str, Any] = {"out": out, "split_seed": split_seed, "seed": seed, "progress": bars()}
        loaded = load(model, device=device, dtype=dtype)
        result: DetectionBench | SteeringBench
        if what == "detect":
            from covec.bench import detect

            result = detect(
                loaded, given, sites=sites, finders=finders, position=position, quick=quick,
                batch_tokens=batch_tokens, **common,
            )  # fmt: skip
        else:
            result = _steer(loaded, given, methods, levels, common)
        if out:
            result.write(out)
        for line in result.notes:
            note(line)
    show(result.summary(), json, lambda: _told(result))
    if out:
        note(f"page: {out / 'bench.html'}")


def _steer(
    model: TextModel,
    concepts: dict[str, Examples] | None,
    methods: str | None,
    doses: list[float] | None,
    common: dict[str, Any],
) -> SteeringBench:
    from covec.bench import steering

    names = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    levels = steering.DOSES if doses is None else doses
    return steering.steer(model, concepts, methods=names, doses=levels, **common)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise CovecError(
            f"--doses cannot be {text!r}: give numbers of nats a token with commas, such as 0.1,0.3"
        ) from None


def _told(result: DetectionBench | SteeringBench) -> str:
    from covec.bench.result import DetectionBench

    return _detected(result) if isinstance(result, DetectionBench) else _steered(result)


def _steered(result: SteeringBench) -> str:
    """All ways by score, and what the best method gains over nulls and prompting."""
    from covec.report.steering import best_names, verdicts

    rows = [
        (
            one.method, one.kind, str(one.score).partition(", n")[0], f"{one.presence:.2f}", f"{one.fluency:.2f}",
            f"{one.relevance:.2f}", f"{one.strain:.2f}x", f"{one.repetition:.2f}", f"{one.known:.2f}",
            "" if one.nats is None else f"{one.nats:.2f}",
        )
        for one in result.summaries
    ]  # fmt: skip
    header = ("way", "kind", "score", "presence", "fluency", "relevance", "perplexity", "repeats", "known", "KL")
    best = [f"best for {name}: {told}" for name, told in best_names(result).items()]
    return "\n".join([table(header, rows), "", *best, *verdicts(result)])


def _detected(result: DetectionBench) -> str:
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
