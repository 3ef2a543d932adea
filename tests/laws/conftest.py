"""The embedded model once more, in bfloat16, for the laws that speak of it."""

from __future__ import annotations

import pytest

from covec.models.load import load
from covec.models.text import TextModel


@pytest.fixture(scope="package")
def rough(smol: TextModel) -> TextModel:
    """The embedded model in bfloat16."""
    return load("smollm2-135m", dtype="bfloat16", device="cpu")
