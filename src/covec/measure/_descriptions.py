"""Measures of a description against a unit, from activations and ratings alone.

`shown` are activations of texts that show what is described, `control` those of texts that need not; `ratings` say how
clearly each text shows it, from 0 to 2, and `activation` what the unit does on the same texts. All are [n].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import mannwhitneyu
from sklearn.metrics import average_precision_score, balanced_accuracy_score
from torch import Tensor

from covec.statistics.auroc import auroc
from covec.statistics.intervals import auroc_figure

CLEAR, ABSENT = 1.5, 0.5  # ratings from which on a text shows what is described, and below which it does not
Values = Float[np.ndarray, "n"]


def cosy_auc(shown: Values, control: Values) -> float:
    """The chance that the unit is more active on a text that shows what is described (CoSy)."""
    return float(auroc(np.concatenate([shown, control]), np.repeat([True, False], [len(shown), len(control)])))


def cosy_auc_ends(shown: Values, control: Values) -> tuple[float | None, float | None]:
    """The 95% interval of `cosy_auc`."""
    labels = np.repeat([True, False], [len(shown), len(control)])
    figure = auroc_figure(np.concatenate([shown, control]), labels)
    return figure.low, figure.high


def cosy_p(shown: Values, control: Values) -> float:
    """The p-value of `cosy_auc` above one half (Mann and Whitney)."""
    return float(mannwhitneyu(shown, control, alternative="greater").pvalue)


def mean_difference(shown: Values, control: Values) -> float:
    """Difference of the means in standard deviations of the control; 0 where that does not vary (CoSy's MAD)."""
    spread = float(control.std())
    return float(shown.mean() - control.mean()) / spread if spread > 0 else 0.0


def clarity(shown: Values, control: Values) -> float:
    """How well texts made to show it are told from others, either way round (FADE)."""
    return abs(2 * cosy_auc(shown, control) - 1)


def responsiveness(activation: Values, ratings: Values) -> float:
    """The same among natural texts, those rated as showing it clearly against those rated as not; NaN without both."""
    clear, absent = ratings >= CLEAR, ratings < ABSENT
    return clarity(activation[clear], activation[absent]) if clear.any() and absent.any() else float("nan")


def purity(activation: Values, ratings: Values) -> float:
    """Average precision of the unit among the same natural texts, turned round where it fires on the others (FADE)."""
    judged = (ratings >= CLEAR) | (ratings < ABSENT)
    labels, scores = ratings[judged] >= CLEAR, activation[judged]
    if not labels.any() or labels.all():
        return float("nan")
    return float(average_precision_score(labels, scores if auroc(scores, labels) >= 0.5 else -scores))


def detection(activation: Values, ratings: Values, share: float = 0.1) -> float:
    """Balanced accuracy of the ratings: do those of the most active tenth say that it shows, and others that not?"""
    top = np.zeros(len(activation), dtype=bool)
    top[np.argsort(-activation, kind="stable")[: max(1, round(share * len(activation)))]] = True
    return float(balanced_accuracy_score(top, ratings >= (CLEAR + ABSENT) / 2))


def simulation(activation: Values, ratings: Values) -> float:
    """Correlation of the activation with what the description foretells, 0 where either does not vary."""
    if min(activation.std(), ratings.std()) == 0:
        return 0.0
    return float(np.corrcoef(activation, ratings)[0, 1])


def faithfulness(shares: Sequence[float], unsteered: float) -> float:
    """How much of what was left to win the best steering wins: max(max r - r0, 0) / (1 - r0) (FADE)."""
    return max(max(shares) - unsteered, 0.0) / (1 - unsteered) if unsteered < 1 else 0.0


def polysemanticity(encode: Callable[[Sequence[str]], Float[Tensor, "n d"]], descriptions: Sequence[str]) -> float:
    """How far the descriptions of one unit's groups of texts lie apart: 1 minus their mean cosine, 0 for a single one.

    Raises
    ------
    ExamplesError
        A description is empty.
    """
    if len(descriptions) < 2:
        return 0.0
    rows = encode(descriptions)
    cosines = (rows @ rows.T)[tuple(torch.triu_indices(len(rows), len(rows), 1))]
    return 1 - float(cosines.mean())


def uniqueness(descriptions: Sequence[str]) -> Float[np.ndarray, "n"]:
    """For every unit's description, one over the number of units that are called the same, case left aside."""
    folded = [" ".join(description.casefold().split()) for description in descriptions]
    return np.array([1 / folded.count(one) for one in folded])
