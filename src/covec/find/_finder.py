"""The contract of the verb *find*: what a finder gets for free once its own mathematics is written.

A method derives from `Finder` and defines one of

- `fit_moments(moments)`: class means and a covariance are enough, so it also works on streams of any length;
- `fit_rows(rows)`: it needs the rows themselves (`Rows` also answers what moments answer);
- `read_model(model, sites, labels, width)`: it asks the model itself, its weights or gradients, for all sites at once;
- `fit(X, y, *, groups, pairs)`, or `fit_many(X, y, *, groups, pairs)` for all sites at once: it does everything itself.

A finder that `requires` further columns of the examples is given them by name, and reads them from `Rows.columns` or
`Labels.columns`.

The first two set `direction_`, of any norm and sign; the third gives such directions. Unit norm, sign, intercept,
scale, class means, batches of sites, label types, checks and scikit-learn's habits come from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from covec.concepts.examples import Examples
from covec.errors import ExamplesError
from covec.find._rows import Columns, Labels, Rows, Units, as_cells
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.registry import Entry


@dataclass(frozen=True)
class Fits:
    """Directions found at several sites at once.

    Parameters
    ----------
    directions
        Unit directions [s, d]; positive means more of the concept.
    intercepts, scales
        Minus the midpoint of the projected class means [s], and the gap between them [s].
    mean_positive, mean_negative
        The class means [s, d].
    details
        What else the finder learned, such as `ridge` [s].
    """

    directions: Float[Tensor, "s d"]
    intercepts: Float[Tensor, "s"]
    scales: Float[Tensor, "s"]
    mean_positive: Float[Tensor, "s d"]
    mean_negative: Float[Tensor, "s d"]
    details: dict[str, Float[Tensor, "s"]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.directions)

    def score(self, X: Float[Tensor, "s n d"]) -> Float[np.ndarray, "s n"]:
        """Scores of rows in units of the concept; the training class means score -0.5 and +0.5."""
        projected = torch.einsum("snd,sd->sn", as_cells(X, 3), self.directions)
        return ((projected + self.intercepts[:, None]) / self.scales[:, None]).double().numpy()


class Finder(ClassifierMixin, BaseEstimator):
    """Base of all finders, and a scikit-learn classifier of two classes.

    Attributes
    ----------
    direction_
        Unit direction [d] (float32 tensor); positive means more of the concept.
    intercept_, scale_
        Minus the midpoint of the projected class means, and the gap between them.
    mean_positive_, mean_negative_
        The class means [d] (float32 tensors).
    classes_
        The two labels; the second is the concept.
    n_features_in_
        Width of the rows.
    """

    closed_form: ClassVar[bool] = False  # whether it is quick enough for `covec study --quick`
    details: ClassVar[tuple[str, ...]] = ()  # learned numbers, without their underscore, that `Fits` carries

    _model: TextModel
    _sites: tuple[Site, ...]
    direction_: Tensor
    intercept_: float
    scale_: float
    mean_positive_: Tensor
    mean_negative_: Tensor
    classes_: np.ndarray

    @property
    def n_features_in_(self) -> int:
        check_is_fitted(self, "direction_")
        return len(self.direction_)

    def __init_subclass__(cls, **options: Any) -> None:
        """Complete whatever `fit_moments` or `fit_rows` of the method leaves open."""
        super().__init_subclass__(**options)
        for hook in ("fit_moments", "fit_rows"):
            if hook in vars(cls):
                setattr(cls, hook, _completing(vars(cls)[hook]))

    def fit_moments(self, moments: Any) -> Self:
        """Fit from `Moments` with the label set `""` (True and False)."""
        raise ExamplesError(f"{type(self).__name__} needs the rows themselves: call fit instead of fit_moments")

    def fit_rows(self, rows: Rows) -> Self:
        """Fit from the rows of one site."""
        return self.fit_moments(rows)

    def read_model(self, model: TextModel, sites: tuple[Site, ...], labels: Labels, width: int) -> Float[Tensor, "s d"]:
        """Directions [s, d], of any norm and sign, at `sites` of `width` d; `labels.columns` has what it `requires`."""
        raise NotImplementedError

    def fit(
        self,
        X: Float[Tensor, "n d"],
        y: Any,
        *,
        groups: Units | None = None,
        pairs: Units | None = None,
        **columns: Sequence[Any],
    ) -> Self:
        """Find the direction from rows that lack the concept to rows that have it.

        Parameters
        ----------
        X
            Activations [n, d], NumPy or torch, of any floating type.
        y
            Labels [n]: bool, two numbers, two names, categories, or one-hot [n, 2].
        groups
            Names of what must stay together when folds are made [n]; pairs where None.
        pairs
            Pair id of each row [n], None where it has none.
        columns
            What else the finder's entry `requires` of the examples, by name, one entry a row [n].

        Raises
        ------
        ExamplesError
            Shapes, labels or values are not of that kind, or the class means coincide.
        """
        if strange := sorted(columns.keys() - _asked(self, columns).keys()):
            raise TypeError(f"{type(self).__name__}.fit takes no {strange[0]!r}")
        X = as_cells(X, 2)
        labels = Labels.of(y, len(X), groups, pairs, columns)
        rows = labels.rows(X)
        if not rows.differ:
            raise ExamplesError("the class means coincide, so there is no direction between them: read another site")
        if _at_once(self):
            self._take(self.fit_many(X[None], y, groups=groups, pairs=pairs, **columns))
        else:
            self.fit_rows(rows)
        self.classes_ = labels.classes
        return self

    def fit_many(
        self,
        X: Float[Tensor, "s n d"],
        y: Any,
        *,
        groups: Units | None = None,
        pairs: Units | None = None,
        **columns: Sequence[Any],
    ) -> Fits:
        """`fit` at every site of `X` [s, n, d], with the same labels; leaves the finder itself as it is.

        A site where the class means coincide, so that nothing can be found, gets the first axis and a scale of 1.
        """
        if not _defines(self, "read_model"):
            return fit_together({"": self}, X, y, groups=groups, pairs=pairs, **columns)[""]
        if not hasattr(self, "_model"):
            raise ExamplesError(f"{type(self).__name__} reads a model: call fit_model(model, examples, site)")
        X = as_cells(X, 3)
        labels = Labels.of(y, X.shape[1], groups, pairs, columns)
        if missing := [name for name in self.entry.requires if name not in columns]:
            raise ExamplesError(
                f"{self.entry.name} needs {' and '.join(missing)} of each row: call fit_model(model, examples, site)"
            )
        return self._completed(X, labels, self.read_model(self._model, self._sites, labels, X.shape[2]))

    @classmethod
    def check(cls, model: TextModel, examples: Examples) -> None:
        """Refuse, before any work, a model or columns of examples that cannot be fitted; most finders take any."""

    def at(self, model: TextModel, sites: Sequence[Site]) -> Self:
        """Itself, to be fitted on rows of `model` at `sites`: what a finder that `needs` a model has to know."""
        self._model, self._sites = model, tuple(sites)
        return self

    def fit_model(
        self, model: TextModel, examples: Examples, site: str | Site, position: str | Position = "last"
    ) -> Self:
        """Fit on `examples` as `model` shows them at one site and position; errors as in `fit`."""
        (address,) = model.select(site)
        X = model.capture(examples.inputs, address, position, spans=examples.spans)[address]
        required = [name for name in getattr(self, "entry", Entry("", "find")).requires if name != "pairs"]
        columns = {name: column for name in required if (column := examples.column(name)) is not None}
        return self.at(model, (address,)).fit(
            X, examples.labels, groups=examples.groups, pairs=examples.pairs, **columns
        )

    def decision_function(self, X: Float[Tensor, "n d"]) -> Float[np.ndarray, "n"]:
        """Scores in units of the concept: the class means of the training rows score -0.5 and +0.5."""
        check_is_fitted(self, "direction_")
        X = as_cells(X, 2)
        if X.shape[1] != self.n_features_in_:
            asked = f"{type(self).__name__} is expecting {self.n_features_in_} features as input"
            raise ExamplesError(f"X has {X.shape[1]} features, but {asked}: were these rows read at another site?")
        return (X.double() @ self.direction_.double()).add(self.intercept_).div(self.scale_).numpy()

    def predict(self, X: Float[Tensor, "n d"]) -> np.ndarray:
        """The label of each row: the concept where the score is above zero."""
        present = self.decision_function(X) > 0
        return self.classes_[present.astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _take(self, fits: Fits) -> None:
        """Learn what `fit_many` found at its one site."""
        self.direction_, self.mean_positive_, self.mean_negative_ = (
            part[0] for part in (fits.directions, fits.mean_positive, fits.mean_negative)
        )
        self.intercept_, self.scale_ = float(fits.intercepts[0]), float(fits.scales[0])
        for name, values in fits.details.items():
            setattr(self, f"{name}_", float(values[0]))

    def _completed(self, X: Float[Tensor, "s n d"], labels: Labels, directions: Float[Tensor, "s d"]) -> Fits:
        """What `fit_many` gives of directions of any norm and sign [s, d]."""
        ones = []
        for activations, direction in zip(X, directions, strict=True):
            rows, one = labels.rows(activations), clone(self)
            one._complete(rows, direction if rows.differ else torch.zeros_like(direction))
            ones.append(one)
        return _gathered(ones)

    def _complete(self, moments: Any, direction: Tensor) -> None:
        """Unit norm, sign, intercept and scale, from a direction of any norm and sign and the class means."""
        direction = torch.as_tensor(direction, dtype=torch.float64)
        positive, negative = moments.mean(True), moments.mean(False)
        if not direction.any():
            direction = torch.zeros_like(direction).index_fill(0, torch.tensor(0, device=direction.device), 1.0)
        direction = direction / direction.norm()
        if direction @ (positive - negative) < 0:
            direction = -direction
        self.direction_ = direction.float()
        high, low = float(self.direction_.double() @ positive), float(self.direction_.double() @ negative)
        self.intercept_, self.scale_ = -(high + low) / 2, high - low if high > low else 1.0
        self.mean_positive_, self.mean_negative_ = positive.float(), negative.float()
        self.classes_ = np.array([False, True])


def fit_together(
    finders: Mapping[str, Finder],
    X: Float[Tensor, "s n d"],
    y: Any,
    *,
    groups: Units | None = None,
    pairs: Units | None = None,
    **columns: Sequence[Any],
) -> dict[str, Fits]:
    """`fit_many` of several finders, which share what they have in common: the folds and one factorisation a site.

    Parameters
    ----------
    finders
        Unfitted finders by name; they stay as they are.
    X, y, groups, pairs, columns
        Activations [s, n, d] of `s` sites; the rest as in `Finder.fit`.
    """
    X = as_cells(X, 3)
    labels = Labels.of(y, X.shape[1], groups, pairs, columns)
    at_once = {name: finder for name, finder in finders.items() if _at_once(finder)}
    fitted: dict[str, list[Finder]] = {name: [] for name in finders if name not in at_once}
    for activations in X:
        rows = labels.rows(activations)
        for name in fitted:
            one = clone(finders[name])
            if _defines(one, "fit"):
                one.fit(activations, labels.positive, groups=groups, pairs=pairs, **_asked(one, columns))
            elif rows.differ:
                one.fit_rows(rows)
            else:
                one._complete(rows, X.new_zeros(X.shape[2]))
            fitted[name].append(one)
    found = {
        name: finder.fit_many(X, y, groups=groups, pairs=pairs, **_asked(finder, columns))
        for name, finder in at_once.items()
    }
    return found | {name: _gathered(ones) for name, ones in fitted.items()}


def _defines(finder: Finder, method: str) -> bool:
    """Whether the finder's class does something itself that the contract would do for it."""
    return getattr(type(finder), method) is not getattr(Finder, method)


def _at_once(finder: Finder) -> bool:
    """Whether the finder's class takes all sites together."""
    return _defines(finder, "fit_many") or _defines(finder, "read_model")


def _asked(finder: Finder, columns: Columns) -> Columns:
    """Those of the columns that the finder requires: one that does everything itself takes no others."""
    entry = getattr(finder, "entry", None)
    return {name: column for name, column in columns.items() if entry and name in entry.requires}


def _gathered(ones: list[Finder]) -> Fits:
    def column(name: str) -> Tensor:
        return torch.tensor([getattr(one, f"{name}_", math.nan) for one in ones], dtype=torch.float32, device="cpu")

    return Fits(
        torch.stack([one.direction_ for one in ones]),
        column("intercept"),
        column("scale"),
        torch.stack([one.mean_positive_ for one in ones]),
        torch.stack([one.mean_negative_ for one in ones]),
        {name: column(name) for name in ones[0].details},
    )


def _completing(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`hook`, after which the finder completes what it set."""

    @wraps(hook)
    def completed(self: Any, moments: Any) -> Any:
        hook(self, moments)
        self._complete(moments, self.direction_)
        return self

    return completed
