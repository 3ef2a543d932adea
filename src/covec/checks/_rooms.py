"""The contracts there are: whose they are, their heading, and the module of their laws."""

from __future__ import annotations

from types import ModuleType

from covec.checks import (
    aggregators,
    edits,
    explainers,
    finders,
    measures,
    model_finders,
    namers,
    steering,
    training,
    vectors,
)

ROOMS: tuple[tuple[str, str, ModuleType], ...] = (
    ("find", "Finders", finders),
    ("find", "Finders that read a model", model_finders),
    ("edit", "Edits", edits),
    ("training", "Edits that are trained", training),
    ("detect", "Aggregators", aggregators),
    ("name", "Ways to name", namers),
    ("explain", "Explainers", explainers),
    ("steer", "Ways to steer", steering),
    ("measure", "Measures", measures),
    ("vector", "Concept vectors", vectors),
)
