"""One workbench for concept vectors: find them, prove them, see them, steer with them.

The names below are the public API. Each is imported when it is first used, so that `import covec` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from covec.activations.moments import Moments as Moments
    from covec.activations.rows import Activations as Activations
    from covec.activations.store import ActivationStore as ActivationStore
    from covec.activations.store import load_store as load_store
    from covec.activations.tally import load_moments as load_moments
    from covec.checks.doctor import doctor as doctor
    from covec.concepts.bank import Bank as Bank
    from covec.concepts.bank import load_bank as load_bank
    from covec.concepts.bank import load_vector as load_vector
    from covec.concepts.compare import compare as compare
    from covec.concepts.dictionary import Dictionary as Dictionary
    from covec.concepts.examples import Examples as Examples
    from covec.concepts.examples import read_concepts as read_concepts
    from covec.concepts.imports import load_gguf as load_gguf
    from covec.concepts.sae_lens import load_dictionary as load_dictionary
    from covec.concepts.vector import ConceptVector as ConceptVector
    from covec.errors import CovecError as CovecError
    from covec.models.load import load as load
    from covec.models.pair import ModelPair as ModelPair
    from covec.models.positions import Position as Position
    from covec.models.sites import Site as Site
    from covec.models.text import TextModel as TextModel
    from covec.models.vocabulary import Vocabulary as Vocabulary
    from covec.statistics.figure import Figure as Figure
    from covec.steer._strength import strength as strength
    from covec.studies import Studies as Studies
    from covec.studies import Study as Study
    from covec.studies import study as study
    from covec.versions import show_versions as show_versions

_PUBLIC = {
    "ActivationStore": "covec.activations.store:ActivationStore",
    "Activations": "covec.activations.rows:Activations",
    "Bank": "covec.concepts.bank:Bank",
    "ConceptVector": "covec.concepts.vector:ConceptVector",
    "CovecError": "covec.errors:CovecError",
    "Dictionary": "covec.concepts.dictionary:Dictionary",
    "Examples": "covec.concepts.examples:Examples",
    "Figure": "covec.statistics.figure:Figure",
    "ModelPair": "covec.models.pair:ModelPair",
    "Moments": "covec.activations.moments:Moments",
    "Position": "covec.models.positions:Position",
    "Site": "covec.models.sites:Site",
    "Studies": "covec.studies:Studies",
    "Study": "covec.studies:Study",
    "TextModel": "covec.models.text:TextModel",
    "Vocabulary": "covec.models.vocabulary:Vocabulary",
    "compare": "covec.concepts.compare:compare",
    "doctor": "covec.checks.doctor:doctor",
    "load": "covec.models.load:load",
    "load_bank": "covec.concepts.bank:load_bank",
    "load_dictionary": "covec.concepts.sae_lens:load_dictionary",
    "load_gguf": "covec.concepts.imports:load_gguf",
    "load_moments": "covec.activations.tally:load_moments",
    "load_store": "covec.activations.store:load_store",
    "load_vector": "covec.concepts.bank:load_vector",
    "read_concepts": "covec.concepts.examples:read_concepts",
    "show_versions": "covec.versions:show_versions",
    "strength": "covec.steer._strength:strength",
    "study": "covec.studies:study",
}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("covec")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'covec' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
