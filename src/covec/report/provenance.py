"""Where a vector comes from, and how to use it."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from covec.concepts.vector import ConceptVector
from covec.report.tables import shortened
from covec.report.words import number, place, reading
from covec.statistics.figure import Figure
from covec.studies.result import Study

Facts = list[tuple[str, str]]


def provenance(study: Study) -> list[tuple[str, Facts]]:
    """Everything that is needed to run the study again, in groups."""
    vector, settings = study.best, dict(study.settings)
    versions = {**vector.versions, **(settings.pop("versions", None) or {})}
    counts = {name.replace("_", " "): count for name, count in study.n.items()}
    data = {**vector.data, "digest": settings.pop("data_digest", None) or vector.data.get("digest")}
    calibration = None if vector.calibration is None else ", ".join(map(number, vector.calibration))
    groups = {
        "Model": dict(study.model),
        "Data": {**data, **counts, "design": study.regime},
        "Vector": {
            "finder": vector.method,
            "read": f"{place(study.selected.site)}, {reading(vector.read_position)} ({vector.read_position})",
            "write position": str(vector.write_position),
            "strength 1": f"from {vector.scale_from}",
            "aggregator": vector.aggregator,
            "threshold": number(vector.threshold),
            "calibration": calibration,
        },
        "Run": {
            "looks at the test rows": study.looks,
            "seconds": f"{study.seconds:.1f}",
            "causal part": study.used.dtype,
        },
        "Options": settings,
        "Versions": versions,
    }
    return [(title, list(_flat(group))) for title, group in groups.items() if group]


def facts(vector: ConceptVector) -> Facts:
    """What a notebook shows of a vector."""
    sites = [str(site) for site in vector.sites]
    shown = {
        "kind": f"{vector.kind} at {', '.join(sites[:4])}" + (f" and {len(sites) - 4} more" if len(sites) > 4 else ""),
        "reads": str(vector.read_position),
        "writes": str(vector.write_position),
        "method": vector.method,
        "model": vector.model.get("name"),
        "data": vector.data.get("name"),
        **{name: str(figure) for name, figure in vector.figures.items() if isinstance(figure, Figure)},
    }
    return list(_flat(shown))


def recipes(vector: ConceptVector, prompt: str) -> list[tuple[str, str]]:
    """How to use the vector, in Python and in a shell."""
    name, model = vector.name, str(vector.model.get("name") or "MODEL")
    python = f"""import covec

model = covec.load({model!r})
vector = covec.load_vector('vectors.safetensors', {name!r})

model.detect(vector, [{prompt!r}])  # scores, token by token

with model.edit(vector.add(3)):  # negative strengths: less of it
    print(model.generate({prompt!r}, max_new_tokens=40))

with model.edit(vector.ablate()):  # without it
    print(model.generate({prompt!r}, max_new_tokens=40))"""
    name, model, prompt = shlex.quote(name), shlex.quote(model), shlex.quote(prompt)
    shell = f"""covec detect vectors.safetensors --model {model} --text {prompt}
covec steer vectors.safetensors --model {model} --concept {name} \\
  --prompt {prompt} --strength 0 --strength 3
covec export vectors.safetensors --concept {name} --format gguf --out vector.gguf"""
    return [("Python", python), ("Shell", shell)]


def _flat(group: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in group.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}, ")
        elif value is not None and value != "":
            if isinstance(value, list | tuple):
                value = ", ".join(_runs([str(item) for item in value]))
            yield f"{above}{key}", shortened(value)


def _runs(names: list[str]) -> Iterator[str]:
    """Names with runs such as resid.0, resid.1, resid.2 written as "resid.0 to 2"."""
    for _, run in itertools.groupby(enumerate(names), lambda item: _run_key(*item)):
        together = [name for _, name in run]
        last = together[-1].rpartition(".")[2]
        yield together[0] if len(together) == 1 else f"{together[0]} to {last}"


def _run_key(index: int, name: str) -> tuple[str, int]:
    kind, _, number = name.rpartition(".")
    return (kind, int(number) - index) if number.isdecimal() else (name, index)
