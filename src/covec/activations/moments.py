"""Streaming moments: enough for most closed-form methods, at any corpus size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.errors import ExamplesError

_CHUNK = 4096  # rows reduced in float32 at once: what is rounded and what is copied stays small
_SHOWN = 6  # labels, where moments are printed


class Moments:
    """Counts, means and one total covariance of rows, with counts and means a label for any number of label sets.

    Chunks are reduced in float32 about their own mean and merged in float64 (Chan, Golub and LeVeque 1979), so `merge`
    of shards equals the whole. Rows of all label sets are the same rows; a label set is a name and one label a row.

    Parameters
    ----------
    width
        Number of values a row.
    covariance
        Whether to keep the total covariance (width x width, float64).
    per_label
        Whether to keep a covariance a label as well.
    """

    def __init__(self, width: int, *, covariance: bool = True, per_label: bool = False) -> None:
        self.width = width
        self.keeps_covariance, self.per_label = covariance, per_label
        self._total = _Cell(width, covariance)
        self._cells: dict[tuple[str, Any], _Cell] = {}
        self._cross: dict[str, _Cross] = {}

    def __repr__(self) -> str:
        labels = [f"{cell.count} labelled {label!r}" for (_, label), cell in self._cells.items()]
        more = ["..."] if len(labels) > _SHOWN else []
        return f"Moments({', '.join([f'{self._total.count} rows of width {self.width}', *labels[:_SHOWN], *more])})"

    def update(
        self,
        rows: Float[Tensor, "n d"],
        labels: Any = None,
        *,
        sets: dict[str, Any] | None = None,
        targets: dict[str, Any] | None = None,
    ) -> Moments:
        """Take in `rows`; `labels` is the label set called `""`, `sets` further ones, `targets` continuous ones."""
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ExamplesError(f"rows of shape {tuple(rows.shape)} do not fit moments of width {self.width}")
        rows = rows.detach()
        named = {**({"": labels} if labels is not None else {}), **(sets or {})}
        columns = {name: _classes(values) for name, values in named.items()}
        aims = {name: torch.as_tensor(values) for name, values in (targets or {}).items()}
        for what, several in (("labels", columns), ("targets", aims)):
            for values in several.values():
                if tuple(values.shape) != (len(rows),):
                    raise ExamplesError(f"{what} of shape {tuple(values.shape)} for {len(rows)} rows: give one each")
        if not len(rows):
            return self
        self._total.add(rows)
        for name, values in columns.items():
            for label in np.unique(values):
                plain = label.item() if isinstance(label, np.generic) else label  # columns of objects hold plain values
                cell = self._cells.setdefault((name, plain), _Cell(self.width, self.per_label))
                cell.add(rows[torch.from_numpy(values == label).to(rows.device)])
        for name, aim in aims.items():
            self._cross.setdefault(name, _Cross(self.width)).add(rows, aim)
        return self

    def merge(self, other: Moments) -> Moments:
        """Take in what `other` has seen."""
        own, its = ((each.width, each.keeps_covariance, each.per_label) for each in (self, other))
        if its != own:
            raise ExamplesError("only moments of the same width and the same parts can be merged")
        self._total.merge(other._total)
        for key, cell in other._cells.items():
            self._cells.setdefault(key, _Cell(self.width, self.per_label)).merge(cell)
        for name, cross in other._cross.items():
            self._cross.setdefault(name, _Cross(self.width)).merge(cross)
        return self

    def count(self, label: Any = None, name: str = "") -> int:
        """Number of rows, of one label or of all."""
        return self._cell(label, name).count

    def mean(self, label: Any = None, name: str = "") -> Float[Tensor, "d"]:
        """Mean of the rows, of one label or of all (float64)."""
        return self._cell(label, name).mean

    def covariance(self, label: Any = None, name: str = "") -> Float[Tensor, "d d"]:
        """Covariance about the mean (divided by n), of one label or the total one about the grand mean (float64)."""
        cell = self._cell(label, name)
        if cell.scatter is None:
            raise ExamplesError(
                "these moments keep no such covariance: make them with covariance=True or per_label=True"
            )
        return cell.scatter / max(cell.count, 1)

    def cross_covariance(self, name: str) -> Float[Tensor, "d"]:
        """Covariance of the rows with the continuous target `name` (float64)."""
        if name not in self._cross:
            raise ExamplesError(f"no target {name!r} in these moments; there are {sorted(self._cross)}")
        return self._cross[name].cross / max(self._cross[name].count, 1)

    def labels(self, name: str = "") -> list[Any]:
        """The labels seen in one label set."""
        return [label for owner, label in self._cells if owner == name]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that these moments are: tensors by name, and a document of plain values; see `from_state`."""
        tensors = {f"total/{name}": tensor for name, tensor in self._total.tensors().items()}
        for index, cell in enumerate(self._cells.values()):
            tensors |= {f"{index}/{name}": tensor for name, tensor in cell.tensors().items()}
        for index, cross in enumerate(self._cross.values()):
            tensors |= {f"target/{index}/mean": cross.mean, f"target/{index}/cross": cross.cross}
        document = {
            "width": self.width,
            "covariance": self.keeps_covariance,
            "per_label": self.per_label,
            "count": self._total.count,
            "labels": [[name, label, cell.count] for (name, label), cell in self._cells.items()],
            "targets": [[name, cross.count, cross.target] for name, cross in self._cross.items()],
        }
        return tensors, document

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> Moments:
        """The moments that `state` told of, bit for bit."""
        moments = cls(document["width"], covariance=document["covariance"], per_label=document["per_label"])
        moments._total.restore(document["count"], tensors, "total")
        for index, (name, label, count) in enumerate(document["labels"]):
            cell = moments._cells[(name, label)] = _Cell(moments.width, moments.per_label)
            cell.restore(count, tensors, str(index))
        for index, (name, count, target) in enumerate(document["targets"]):
            cross = moments._cross[name] = _Cross(moments.width)
            cross.count, cross.target = count, target
            cross.mean, cross.cross = tensors[f"target/{index}/mean"], tensors[f"target/{index}/cross"]
        return moments

    def _cell(self, label: Any, name: str) -> _Cell:
        if label is None:
            return self._total
        try:
            return self._cells[(name, label)]
        except KeyError:
            raise ExamplesError(f"no row was labelled {label!r}; labels seen: {self.labels(name)}") from None

    @classmethod
    def of(cls, chunks: Iterable[tuple[Tensor, Any]], d: int, **options: Any) -> Moments:
        """Moments of a stream of `(rows, labels)`."""
        moments = cls(d, **options)
        for rows, labels in chunks:
            moments.update(rows, labels)
        return moments


class _Cell:
    def __init__(self, d: int, covariance: bool) -> None:
        self.count = 0
        self.mean = torch.zeros(d, dtype=torch.float64)
        self.scatter = torch.zeros(d, d, dtype=torch.float64) if covariance else None

    def add(self, rows: Tensor) -> None:
        """Merge chunks, the scatter of each in float32 about its own mean, so that no large numbers cancel."""
        for chunk in rows.split(_CHUNK) if len(rows) else ():
            exact = chunk.double()
            mean = exact.mean(0)
            centred = (exact - mean).float()
            scatter = None if self.scatter is None else (centred.T @ centred).double().cpu()
            self._join(len(chunk), mean.cpu(), scatter)

    def merge(self, other: _Cell) -> None:
        if other.count:
            self._join(other.count, other.mean, other.scatter)

    def tensors(self) -> dict[str, Tensor]:
        return {"mean": self.mean} | ({} if self.scatter is None else {"scatter": self.scatter})

    def restore(self, count: int, tensors: Mapping[str, Tensor], prefix: str) -> None:
        self.count, self.mean = count, tensors[f"{prefix}/mean"]
        self.scatter = None if self.scatter is None else tensors[f"{prefix}/scatter"]

    def _join(self, count: int, mean: Tensor, scatter: Tensor | None) -> None:
        total = self.count + count
        step = mean - self.mean
        if self.scatter is not None and scatter is not None:
            self.scatter = torch.addr(self.scatter + scatter, step, step, alpha=self.count * count / total)
        self.mean = self.mean + step * (count / total)
        self.count = total


class _Cross:
    def __init__(self, d: int) -> None:
        self.count, self.target = 0, 0.0
        self.mean = torch.zeros(d, dtype=torch.float64)
        self.cross = torch.zeros(d, dtype=torch.float64)

    def add(self, rows: Tensor, values: Tensor) -> None:
        rows, values = rows.double().cpu(), values.double().cpu()
        mean, target = rows.mean(0), values.mean()
        self._join(len(rows), mean, float(target), (rows - mean).T @ (values - target))

    def merge(self, other: _Cross) -> None:
        if other.count:
            self._join(other.count, other.mean, other.target, other.cross)

    def _join(self, count: int, mean: Tensor, target: float, cross: Tensor) -> None:
        total = self.count + count
        share = self.count * count / total
        self.cross = self.cross + cross + (mean - self.mean) * (target - self.target) * share
        self.mean = self.mean + (mean - self.mean) * (count / total)
        self.target += (target - self.target) * count / total
        self.count = total


def _classes(values: Any) -> np.ndarray:
    """Labels as an array; those of several types, that are missing or are fractions name no classes."""
    column = np.asarray(values)
    several = set(map(type, values)) if isinstance(values, list | tuple) or column.dtype == object else set()
    if len(several) > 1 or type(None) in several:
        names = ", ".join(sorted(kind.__name__ for kind in several))
        raise ExamplesError(f"labels of the types {names}: give labels of one type, and none that is missing")
    if several and all(issubclass(kind, float) for kind in several):
        column = column.astype(float)
    if column.dtype.kind == "f" and not (np.isfinite(column) & (column == np.round(column))).all():
        raise ExamplesError("labels that are fractions or missing (NaN): a label is a bool, an integer or a name")
    return column
