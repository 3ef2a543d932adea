"""The contract of the verb *explain*."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from covec import registry
from covec.activations.split import Split
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError, ModelError
from covec.explain._target import Target
from covec.models.text import TextModel
from covec.models.tokens import Input, one_or_several
from covec.registry import Entry
from covec.statistics.figure import Figure


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a model's answer to `text` rests on: a figure a part of the text, or a concept, by name."""

    text: str
    figures: Mapping[str, Figure]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"text": self.text, "figures": {name: figure.to_json() for name, figure in self.figures.items()}}

    def __str__(self) -> str:
        width = max(map(len, self.figures), default=0)
        return "\n".join([self.text, *(f"  {name:<{width}}  {figure}" for name, figure in self.figures.items())])

    __repr__ = __str__


class Explainer:
    """What every explainer shares.

    Attributes
    ----------
    site
        Where it splits the model unless told otherwise.
    takes_vectors
        Whether it explains by concept vectors, and needs some; one that does not refuses them.
    """

    entry: ClassVar[Entry]  # what `@method` registered it as
    site: ClassVar[str] = "embed"
    takes_vectors: ClassVar[bool] = False

    def explain(
        self, split: Split, vectors: Sequence[ConceptVector], inputs: Sequence[Input], target: Target
    ) -> Sequence[Explanation]:
        """An explanation an input of what the target is after it; only the network above the split need run."""
        raise NotImplementedError


def explain(
    model: TextModel,
    inputs: Input | Sequence[Input],
    target: str | Mapping[str, float] | Target,
    *,
    explainer: str | Explainer = "pax",
    vectors: Sequence[ConceptVector] = (),
    site: str | None = None,
) -> Explanation | list[Explanation]:
    """What the model's answer to texts or chats rests on.

    Parameters
    ----------
    target
        The word that may come next, or words with weights, such as `{"she": 1, "he": -1}`: their log-probabilities are
        explained.
    explainer
        The name of an explainer, or one with parameters of its own.
    vectors
        Concept vectors, for explainers that explain by them.
    site
        Where the model is split; where the explainer says, unless given.

    Returns
    -------
    Explanation or list
        One for one input, a list for several.

    Raises
    ------
    CovecError
        The model continues no text, a word is not one of its tokens, the explainer cannot honour an argument, or an
        input cannot be explained.
    """
    chosen: Explainer = registry.get("explain", explainer)() if isinstance(explainer, str) else explainer
    given, alone = one_or_several(inputs)
    if bool(vectors) != chosen.takes_vectors:
        mend = "give some" if chosen.takes_vectors else "leave them out"
        raise CovecError(f"{chosen.entry.name} explains {'' if chosen.takes_vectors else 'not '}by vectors: {mend}")
    for vector in vectors:
        vector.check_model(model.describe())
    if not model.has_head:
        raise ModelError(f"{model.name} has no language head, so that no word comes next: load it with its head")
    aim = target if isinstance(target, Target) else Target.of(model, target)
    found = chosen.explain(Split(model, site or chosen.site), vectors, given, aim)
    return found[0] if alone else list(found)
