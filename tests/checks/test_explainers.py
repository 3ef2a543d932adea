"""The contract of explainers catches what it is there for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from covec.checks import check_explainer
from covec.checks.explainers import explainer_checks
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Ablate
from covec.explain import Explainer, Explanation
from covec.registry import method
from covec.statistics.figure import Figure


@method("leave-out", verb="explain")
class LeaveOut(Explainer):
    """How much the target falls where the first token, or a direction, is taken out of every token."""

    site = "resid.0"
    takes_vectors = True

    def explain(self, split: Any, vectors: Sequence[ConceptVector], inputs: Any, target: Any) -> list[Explanation]:
        tokens = split.model.tokenize(inputs)
        whole = target.values(split, tokens)
        found = []
        for vector in vectors:
            edit = Ablate(site=split.site, directions=vector.direction[None], targets=torch.zeros(1))
            with split.model.edit(edit):
                found.append(whole - target.values(split, tokens))
        figures = [[Figure(value, null=0.0, n=1, how="ablated") for value in one] for one in found]
        names = [vector.name for vector in vectors]
        rows = zip(*figures, strict=True)
        return [
            Explanation(item.text, dict(zip(names, row, strict=True))) for item, row in zip(tokens, rows, strict=True)
        ]


def test_a_small_explainer_by_vectors_keeps_the_contract() -> None:
    check_explainer(LeaveOut)


class Noisy(LeaveOut):
    """Another number each time."""

    def explain(self, *given: Any) -> list[Explanation]:
        found = super().explain(*given)
        for one in found:
            for name, figure in one.figures.items():
                one.figures[name] = Figure(figure.value + np.random.normal(), null=0.0, n=1, how="noisy")
        return found


class WithoutNull(LeaveOut):
    """Figures without their null."""

    def explain(self, *given: Any) -> list[Explanation]:
        return [Explanation(one.text, {"all": Figure(0.5)}) for one in super().explain(*given)]


class Blind(LeaveOut):
    """The same whatever the model reads."""

    def explain(self, *given: Any) -> list[Explanation]:
        texts = [one.text for one in super().explain(*given)]
        return [Explanation(text, {"all": Figure(0.5, null=0.0, n=1, how="blind")}) for text in texts]


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Noisy, "same seed same bits"),
        (WithoutNull, "every number is a figure with its null"),
        (Blind, "what the answer rests on stands out"),
        (Blind, "targets add up"),
    ],
)
def test_a_broken_explainer_is_told_which_law_it_breaks(kind: type[LeaveOut], law: str) -> None:
    (check,) = [one for one in explainer_checks(kind) if one.title == law]
    with pytest.raises(AssertionError) as caught:
        check.run()
    assert law in caught.value.__notes__[-1]
