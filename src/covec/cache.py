"""The user cache: converted models, counts of looks; `COVEC_CACHE` puts it elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def folder(name: str) -> Path:
    """The folder `name` of the user cache; it need not exist yet."""
    return Path(os.environ.get("COVEC_CACHE") or platformdirs.user_cache_dir("covec", appauthor=False)) / name
