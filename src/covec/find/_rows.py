"""What finders are given: the labelled rows of one site, checked, and in an order of their own.

Sums in floating point depend on the order of their terms, and folds must not depend on the order of the rows. So rows
are sorted by themselves first, and the same rows in any order lead to the same bits.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import issparse
from torch import Tensor

from covec.errors import ExamplesError
from covec.find._solvers import Spectrum
from covec.statistics.splits import deal

Units = Sequence[Hashable | None]
Columns = Mapping[str, Sequence[Any]]


class Rows:
    """Labelled rows of one site; whatever reads `Moments` can read them too.

    Parameters
    ----------
    X
        Activations [n, d], float32.
    positive
        True where a row has the concept [n].
    units
        What must stay together when folds are made, a name a row [n]; None where each row stands for itself.
    pairs
        Pair id of each row [n], None where it has none.
    columns
        What else the examples say of each row [n], by name.

    Attributes
    ----------
    X, positive, units, pairs, columns
        The same, in the order of the rows themselves.
    """

    def __init__(
        self,
        X: Float[Tensor, "n d"],
        positive: Bool[np.ndarray, "n"],
        units: Units | None = None,
        pairs: Units | None = None,
        columns: Columns | None = None,
    ) -> None:
        key = (X.double() @ _probe(X.shape[1])).numpy()
        order = np.lexsort((key, positive))
        self.X = X[torch.from_numpy(order)]
        self.positive = torch.from_numpy(positive[order])
        self.units = None if units is None else [units[row] for row in order]
        self.pairs = None if pairs is None else [pairs[row] for row in order]
        self._means: dict[bool | None, Tensor] = {}
        self.columns = {name: [column[row] for row in order] for name, column in (columns or {}).items()}

    @property
    def signs(self) -> Float[Tensor, "n"]:
        """+1 for positives and -1 for negatives (float64)."""
        return torch.where(self.positive, 1.0, -1.0).double()

    def count(self, label: bool | None = None) -> int:
        """Number of rows, of one label or of all."""
        return len(self._labelled(label))

    def mean(self, label: bool | None = None) -> Float[Tensor, "d"]:
        """Mean of the rows, of one label or of all (float64)."""
        if label not in self._means:
            self._means[label] = self._labelled(label).double().mean(0)
        return self._means[label]

    def covariance(self) -> Float[Tensor, "d d"]:
        """Covariance about the mean of all rows, divided by n (float64)."""
        centred = self.X.double() - self.mean()
        return centred.T @ centred / len(centred)

    @cached_property
    def spectrum(self) -> Spectrum:
        """The standardised rows along their principal axes."""
        return Spectrum.of(self.X)

    def folds(self, k: int = 5) -> Int[Tensor, "n"] | None:
        """The fold of each row: at most `k`, grouped and stratified; None where a class has fewer than two units."""
        units = range(len(self.X)) if self.units is None else self.units
        named = [("row", row) if unit is None else unit for row, unit in enumerate(units)]
        classes: tuple[set[Hashable], set[Hashable]] = (set(), set())
        for unit, positive in zip(named, self.positive.tolist(), strict=True):
            classes[positive].add(unit)
        k = min(k, *map(len, classes))
        return None if k < 2 else torch.from_numpy(deal(named, self.positive.numpy(), k=k))

    @property
    def differ(self) -> bool:
        """Whether the class means differ by more than float32 resolves."""
        gap = (self.mean(True) - self.mean(False)).abs()
        return bool((gap > 1e-7 * self.X.abs().amax(0)).any())

    def _labelled(self, label: bool | None) -> Tensor:
        negatives = len(self.positive) - int(self.positive.sum())  # which stand first
        return self.X if label is None else self.X[negatives:] if label else self.X[:negatives]


@dataclass(frozen=True)
class Labels:
    """What goes with rows, the same at every site.

    Parameters
    ----------
    classes
        The two labels, sorted; the second is the concept [2].
    positive
        True where a row has the concept [n].
    units, pairs, columns
        As in `Rows`.
    """

    classes: np.ndarray
    positive: Bool[np.ndarray, "n"]
    units: Units | None
    pairs: Units | None
    columns: Columns = field(default_factory=dict)

    @classmethod
    def of(cls, y: Any, n: int, groups: Units | None, pairs: Units | None, columns: Columns | None = None) -> Labels:
        """Check all columns against the number of rows; pairs stand in for groups that are not given."""
        classes, positive = two_classes(y)
        for name, column in {"labels": positive, "groups": groups, "pairs": pairs, **(columns or {})}.items():
            if column is not None and len(column) != n:
                raise ExamplesError(f"{len(column)} {name} for {n} rows; give one a row")
        groups, pairs = (None if ids is None else list(ids) for ids in (groups, pairs))  # by place, not by an index
        named = {name: list(column) for name, column in (columns or {}).items()}
        return cls(classes, positive, pairs if groups is None else groups, pairs, named)

    def rows(self, X: Float[Tensor, "n d"]) -> Rows:
        """The rows of one site with these labels."""
        return Rows(X, self.positive, self.units, self.pairs, self.columns)


def as_cells(X: Any, ndim: int) -> Float[Tensor, "..."]:
    """`X` (NumPy, torch or nested lists, any real dtype) as float32 on the CPU; raises unless finite and `ndim`-d."""
    X = (X if isinstance(X, Tensor) else _tensor(X)).detach()
    if X.is_complex():
        raise ExamplesError("Complex data not supported: activations are real numbers")
    X = X.to("cpu", torch.float32)
    if X.ndim != ndim or 0 in X.shape:
        shape = "[n, d]" if ndim == 2 else "[sites, n, d]"
        raise ExamplesError(f"activations of shape {tuple(X.shape)} are not {shape} with at least one row")
    if not torch.isfinite(torch.stack(torch.aminmax(X))).all():  # NaN is the least and the greatest, too
        raise ExamplesError("activations hold NaN or infinite values; leave those rows out or capture in float32")
    return X


def _tensor(X: Any) -> Tensor:
    """An array, a table or nested lists as a tensor: of float32, or complex as it is."""
    if issparse(X):
        raise ExamplesError("activations are a sparse array; pass a dense one, X.toarray()")
    try:
        array = np.asarray(X)
        with np.errstate(over="ignore"):  # what does not fit is infinite, and refused as that
            return torch.as_tensor(array if np.iscomplexobj(array) else array.astype(np.float32))
    except ValueError as error:
        raise ExamplesError(f"activations are not an array of numbers: {error}") from None


def two_classes(y: Any) -> tuple[np.ndarray, Bool[np.ndarray, "n"]]:
    """The two classes of `y`, sorted, and True where a row has the later one.

    Booleans, two numbers, two names, pandas categories or one-hot rows [n, 2] all work: True, 1, `positive`, `yes` and
    the second column are the concept.

    Raises
    ------
    ExamplesError
        There are no labels, one class only, or more than two.
    """
    if y is None:
        raise ExamplesError("a finder requires y to be passed, but the target y is None: give a label a row")
    values = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 2 and np.isin(values, (0, 1)).all() and (values.sum(1) == 1).all():
        values = values[:, 1].astype(bool)
    elif values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ExamplesError(f"labels of shape {values.shape} are not one a row; give [n], or one-hot rows [n, 2]")
    known = sorted(
        {value.item() if hasattr(value, "item") else value for value in values}, key=lambda v: (str(type(v)), v)
    )
    if len(known) != 2:
        shown = ", ".join(str(value) for value in known[:5]) + (", ..." if len(known) > 5 else "")
        continuous = any(isinstance(value, float) and not value.is_integer() for value in known)
        count = "one class" if len(known) == 1 else f"{len(known)}, as continuous numbers" if continuous else len(known)
        raise ExamplesError(f"a concept needs two classes, labels have {count}: {shown}")
    return np.array(known, dtype=values.dtype), values == known[1]


@lru_cache(maxsize=8)
def _probe(d: int) -> Float[Tensor, "d"]:
    """A fixed direction; rows are sorted along it, because no positive factor on the rows changes that order."""
    return torch.from_numpy(np.random.default_rng(0).standard_normal(d))
