"""What a model shows at its sites: one row an input, or one row a token with the offsets of every input."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from covec.errors import ExamplesError, ModelError
from covec.models.positions import Position
from covec.models.sites import Site, summary


@dataclass(frozen=True, repr=False)
class Activations:
    """Rows of one position at one or several sites, in the caller's order, in float32 on the CPU.

    `rows[site]` is [n, d] with one row an input where the position gives one; otherwise [tokens, d], the rows of input
    i being `offsets[i]:offsets[i + 1]` and `tokens` each row's index in its unpadded sequence. `fallbacks` counts the
    inputs without content, of which the last token was read instead.
    """

    rows: dict[Site, Float[Tensor, "rows d"]]
    position: Position
    offsets: Int[Tensor, "n_plus_1"] | None = None
    tokens: Int[Tensor, "rows"] | None = None
    fallbacks: int = 0

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites, in the model's order."""
        return tuple(self.rows)

    def __getitem__(self, site: str | Site) -> Float[Tensor, "rows d"]:
        try:
            return self.rows[Site.parse(site)]
        except KeyError:
            raise ModelError(
                f"site {str(site)!r} was not captured; there are {', '.join(map(str, self.rows))}"
            ) from None

    def __len__(self) -> int:
        return len(next(iter(self.rows.values()))) if self.offsets is None else len(self.offsets) - 1

    def __repr__(self) -> str:
        rows = len(next(iter(self.rows.values()), ()))
        return f"Activations({len(self)} inputs, {rows} rows at {summary(self.sites)}; {self.position})"

    def stack(self) -> Float[Tensor, "s rows d"]:
        """All sites in one tensor (a copy); they must have equal widths."""
        return torch.stack(list(self.rows.values()))

    def of(self, index: int, site: str | Site) -> Float[Tensor, "rows d"]:
        """The rows of input `index` at `site`; negative ones count from the end."""
        rows, index = self[site], range(len(self))[index]
        if self.offsets is None:
            return rows[index : index + 1]
        return rows[int(self.offsets[index]) : int(self.offsets[index + 1])]

    def take(self, inputs: Int[np.ndarray, "k"]) -> Activations:
        """A copy of the rows of some inputs, by index and in that order; `fallbacks` is not known of a part."""
        if self.offsets is None:
            rows = torch.from_numpy(inputs)
            offsets = None
        else:
            starts, counts = self.offsets[:-1].numpy()[inputs], self.offsets.diff().numpy()[inputs]
            ends = np.cumsum(counts)
            rows = torch.from_numpy(np.arange(counts.sum()) + np.repeat(starts - ends + counts, counts))
            offsets = torch.from_numpy(np.concatenate([[0], ends]))
        chosen = {site: whole[rows] for site, whole in self.rows.items()}
        return Activations(chosen, self.position, offsets, None if self.tokens is None else self.tokens[rows])


def joined(parts: Iterable[Activations], total: int) -> Activations:
    """Activations of several runs of inputs, `total` rows in all, one after the other; a part is let go when copied."""
    rows: dict[Site, Tensor] = {}
    counts, tokens = list[Tensor](), list[Tensor]()
    first: Activations | None = None
    done = fallbacks = 0
    for part in parts:
        first, fallbacks = first or part, fallbacks + part.fallbacks
        for site, some in part.rows.items():
            if site not in rows:
                rows[site] = torch.empty(total, some.shape[1], dtype=torch.float32)
            rows[site][done : done + len(some)] = some
        if part.offsets is not None and part.tokens is not None:
            counts.append(part.offsets.diff())
            tokens.append(part.tokens)
        done += len(part) if part.offsets is None else int(part.offsets[-1])
    if first is None:
        raise ExamplesError("no input was chosen; choose one at least")
    if first.offsets is None:
        return Activations(rows, first.position, fallbacks=fallbacks)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), *counts]).cumsum(0)
    return Activations(rows, first.position, offsets, torch.cat(tokens), fallbacks)
