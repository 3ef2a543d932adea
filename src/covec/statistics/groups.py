"""Which rows belong together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from jaxtyping import Int

from covec.errors import ExamplesError

Groups = Sequence[Hashable] | None  # an id a row, None where a row stands alone


def group_codes(groups: Groups, n: int) -> Int[np.ndarray, "n"]:
    """A number from 0 for the group of each row, in order of appearance; a row whose group is None is its own.

    Raises
    ------
    ExamplesError
        There are not as many groups as rows.
    """
    if groups is None:
        return np.arange(n)
    if len(groups) != n:
        raise ExamplesError(f"{len(groups)} groups for {n} rows: give each row one, or None")
    codes: dict[Hashable, int] = {}
    keys = (object() if group is None else group for group in groups)
    return np.array([codes.setdefault(key, len(codes)) for key in keys], dtype=np.int64)
