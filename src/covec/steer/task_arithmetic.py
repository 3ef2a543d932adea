"""Task arithmetic: what fine-tuning changed in the weights, taken away, added up, or carried over by analogy.

Ilharco et al., "Editing Models with Task Arithmetic", arXiv:2212.04089. `ConceptVector.from_models` makes the vectors,
`covec.concepts.weights.combined` sums them: `-1` times one forgets its task, the sum of several learns them all, and
`C + (B - A)` does to C what led from A to B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from covec.concepts.vector import ConceptVector
from covec.concepts.weights import combined
from covec.edits.weights import patch_weights
from covec.errors import CovecError
from covec.registry import Entry, method

STRENGTHS = tuple(step / 20 for step in range(21))  # 0, 0.05, ..., 1


@method("task-arithmetic", verb="steer", needs="weights", card="task-arithmetic")
class TaskArithmetic:
    """A sum of task vectors, added to the weights with one strength, chosen on validation.

    Parameters
    ----------
    strengths
        What is tried.
    kept
        The share of the control's score that must stay, where a control is given.

    Attributes
    ----------
    strength
        What was chosen: the largest that keeps the control, or the best score where none is given.
    scores, controls
        The validation scores of every strength.
    vector
        The weight vector times the strength, for `model.patch_weights(vector)`.
    """

    entry: ClassVar[Entry]
    strength: float
    scores: dict[float, float]
    controls: dict[float, float]
    vector: ConceptVector

    def __init__(self, strengths: Sequence[float] = STRENGTHS, kept: float = 0.95) -> None:
        self.strengths, self.kept = strengths, kept

    def fit(
        self,
        model: Any,
        vector: ConceptVector,
        score: Callable[[], float],
        control: Callable[[], float] | None = None,
    ) -> Self:
        """Choose how much of `vector` to add to `model`, a text model or a module.

        Parameters
        ----------
        score, control
            What the model as it is at the call scores on validation data: at the task, and at what is to stay.

        Raises
        ------
        CovecError
            No strength above 0 was given, or none keeps the control.
        """
        if not any(self.strengths):
            raise CovecError("there are no strengths to choose from: give some above 0")
        self.scores, self.controls = {}, {}
        before = None if control is None else control()
        for strength in self.strengths:
            with patch_weights(model, vector, strength):
                self.scores[strength] = score()
                if control is not None:
                    self.controls[strength] = control()
        if before is None:
            self.strength = max(self.scores, key=lambda one: self.scores[one])
        else:
            held = [one for one, found in self.controls.items() if found >= self.kept * before]
            self.strength = max(held, default=0.0)
        if not self.strength:
            raise CovecError(
                f"no strength of {vector.name!r} does better than none: try smaller ones, or another vector"
            )
        self.vector = combined(vector.name, (self.strength, vector))
        return self
