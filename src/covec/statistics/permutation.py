"""Permutation tests: what scores are worth beside the same scores under labels that mean nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from covec.errors import ExamplesError
from covec.statistics.auroc import areas_of, checked_labels, checked_scores
from covec.statistics.groups import Groups, group_codes

_BLOCK = 4_000_000  # labels permuted at a time, so that memory does not grow with the number of permutations
_ROUNDING = 1e-12  # a tie with the observed value counts against it, whatever the rounding


@dataclass(frozen=True)
class Exchange:
    """How labels may be permuted: those of `units`, within `blocks`.

    Under the null hypothesis each such relabelling of the rows was as likely as the one observed.

    Parameters
    ----------
    labels
        The observed labels `[n]`.
    units
        Number from 0 of each row's unit: its rows have one label and keep it together.
    blocks
        Number of each row's block: units exchange labels only within it.
    """

    labels: Bool[np.ndarray, "n"]
    units: Int[np.ndarray, "n"]
    blocks: Int[np.ndarray, "n"]

    @classmethod
    def of(cls, labels: ArrayLike, groups: Groups = None, pairs: Groups = None, folds: Groups = None) -> Exchange:
        """The exchange that the data allow.

        Rows of a pair with both labels swap within it, other rows of a group with both labels exchange within the
        group. A group with one label, or such a pair outside any group, exchanges it as a whole, with other whole ones
        and with rows that stand alone. None, for all or for one row, is no group and no pair. Labels do not cross
        `folds`.

        Raises
        ------
        ExamplesError
            Only one class has rows, or groups, pairs or folds are not one a row.
        """
        labels = checked_labels(labels)
        if labels.ndim != 1:
            raise ExamplesError(f"labels have the shape {labels.shape}: pass one row [n]")
        n = len(labels)
        pair = tie = group_codes(pairs, n)
        if groups is not None:  # a row in a group is tied by it, another by its pair
            tie = np.where([group is None for group in groups], pair, n + group_codes(groups, n))
        within_pair, within_tie = _mixed(pair, labels), _mixed(tie, labels)
        units = np.where(within_pair | within_tie, np.arange(n), n + tie)
        blocks = np.select([within_pair, within_tie], [1 + pair, 1 + n + tie], 0)
        if folds is not None:
            blocks = _codes_of(blocks, group_codes(folds, n))
        return cls(labels, _codes_of(units, blocks), blocks)

    def permuted(self, count: int, rng: np.random.Generator) -> Bool[np.ndarray, "count n"]:
        """`count` random relabellings of the rows."""
        _, first = np.unique(self.units, return_index=True)
        labels, blocks = self.labels[first], self.blocks[first]
        # Sorted by block, then at random within it: place k of this order receives the label of the k-th unit by block.
        order = np.argsort(blocks + rng.random((count, len(first))) / 2, axis=1)
        permuted = np.empty((count, len(first)), dtype=bool)
        permuted[:, np.argsort(blocks, kind="stable")] = labels[order]
        return permuted[:, self.units]


def permuted_labels(
    labels: ArrayLike,
    count: int,
    groups: Groups = None,
    pairs: Groups = None,
    folds: Groups = None,
    *,
    rng: np.random.Generator,
) -> Bool[np.ndarray, "count n"]:
    """`count` relabellings of the rows as their groups and pairs allow; arguments and errors of `Exchange.of`."""
    return Exchange.of(labels, groups, pairs, folds).permuted(count, rng)


def null_aurocs(
    scores: ArrayLike, exchange: Exchange, permutations: int = 10_000, *, seed: int = 0
) -> Float[np.ndarray, "permutations"]:
    """AUROCs of `scores [n]` under permuted labels.

    Raises
    ------
    ExamplesError
        Scores and labels do not match, or a score is not finite.
    """
    scores, _ = checked_scores(scores, exchange.labels, one_row=True)
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // len(scores))
    starts = range(0, permutations, block)
    sizes = (min(block, permutations - start) for start in starts)
    return np.concatenate([areas_of(scores, exchange.permuted(size, rng)) for size in sizes])


def p_test(
    scores: ArrayLike,
    labels: ArrayLike,
    groups: Groups = None,
    pairs: Groups = None,
    folds: Groups = None,
    *,
    permutations: int = 10_000,
    seed: int = 0,
) -> float:
    """How often permuted labels give `scores [n]` an AUROC at least as high as `labels [n]` do.

    Exact where the scores come from a direction that was fixed without these labels, whatever found it. Out-of-fold
    scores were not: `nested_null` is what they are held against.

    Raises
    ------
    ExamplesError
        Shapes differ, a score is not finite, only one class has rows, or groups, pairs or folds are not one a row.
    """
    scores, labels = checked_scores(scores, labels, one_row=True)
    null = null_aurocs(scores, Exchange.of(labels, groups, pairs, folds), permutations, seed=seed)
    return float(p_value(areas_of(scores, labels), null))


def p_value(
    observed: Float[np.ndarray, "*cells"] | float, null: Float[np.ndarray, "permutations *cells"]
) -> Float[np.ndarray, "*cells"]:
    """Share of the null values, the observed one among them, that are at least as high as the observed one.

    References
    ----------
    Phipson and Smyth, Permutation P-values should never be zero, Statistical Applications in Genetics and Molecular
    Biology 9 (2010).
    """
    return np.asarray((1 + (null >= np.asarray(observed) - _ROUNDING).sum(0)) / (1 + len(null)))


def _mixed(codes: Int[np.ndarray, "n"], labels: Bool[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """Whether each row's group has both labels."""
    sizes, positives = np.bincount(codes), np.bincount(codes, weights=labels)
    return np.asarray(((positives > 0) & (positives < sizes))[codes])


def _codes_of(*keys: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """Numbers from 0 of the distinct combinations of `keys`."""
    return np.asarray(np.unique(np.stack(keys), axis=1, return_inverse=True)[1].reshape(-1))
