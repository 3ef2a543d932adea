"""How often a set of test rows has been looked at: each look at the same rows makes their figures a little less honest.

Counts are kept in the user cache, by the digest of the rows. They are no part of any result that is to be reproduced.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from filelock import FileLock, Timeout

from covec import cache
from covec.errors import FileError
from covec.writing import whole_file

_PATIENCE = 5.0  # seconds for another process that counts


def count_look(digest: str) -> int:
    """The number of looks at the rows with this digest, this one included.

    Where the cache cannot be written the look is not remembered, and the number is the least it can be.
    """
    folder = cache.folder("looks")
    path = folder / "looks.json"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "looks.lock", timeout=_PATIENCE):
            counts = _counts(path)
            counts[digest] = counts.get(digest, 0) + 1
            with whole_file(path) as draft:
                draft.write_text(json.dumps(counts), encoding="utf-8")
    except (OSError, Timeout, FileError):
        return _counts(path).get(digest, 0) + 1
    return counts[digest]


def _counts(path: Path) -> dict[str, int]:
    """What is on file; nothing where there is none or it is damaged."""
    try:
        counts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: count for name, count in counts.items() if isinstance(count, int)} if isinstance(counts, dict) else {}
