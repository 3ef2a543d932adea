"""Finders as tests of all of them call them: what each requires beside rows and labels."""

from covec import registry
from covec.checks.finders import Subject

OF_ROWS = tuple(name for name in registry.names("find") if registry.get("find", name).entry.needs != "model")


def columns(name, pairs):
    """What the finder `name` requires of rows in these pairs, as keywords of its `fit`."""
    return Subject(registry.get("find", name)()).columns(list(pairs))
