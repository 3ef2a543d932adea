"""What all tests share: one thread, a cache of their own, tiny models of every family and the embedded model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from covec import cache
from covec.errors import CovecError
from tiny import FAMILIES, tiny_model

if TYPE_CHECKING:
    from covec.models.text import TextModel

torch.set_num_threads(1)


SLOW = {"laws", "families", "checks", "claims"}  # rooms that hold whole models to what the others promise
EMBEDDED = {"smol", "minilm"}  # fixtures below


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help=f"without {', '.join(sorted(SLOW))} and the embedded model")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--quick`, keep what says soon whether a change broke something."""
    if config.getoption("--quick"):
        slow = [SLOW & set(item.path.parts) or EMBEDDED & set(getattr(item, "fixturenames", ())) for item in items]
        config.hook.pytest_deselected(items=[item for item, left_out in zip(items, slow, strict=True) if left_out])
        items[:] = [item for item, left_out in zip(items, slow, strict=True) if not left_out]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A fresh user cache (looks and the like), of which only the converted models are the user's own."""
    models = cache.folder("models")
    models.mkdir(parents=True, exist_ok=True)
    own = tmp_path_factory.mktemp("cache")
    (own / "models").symlink_to(models, target_is_directory=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COVEC_CACHE", os.fspath(own))
        yield own


@pytest.fixture(scope="session", params=FAMILIES)
def tiny(request: pytest.FixtureRequest) -> TextModel:
    """A tiny random text model, one of each family in turn."""
    from covec.models.text import TextModel

    module, tokenizer = tiny_model(request.param)
    return TextModel(module, tokenizer, name=f"tiny-{request.param}")


@pytest.fixture(scope="session")
def smol(_own_cache: Path) -> TextModel:
    """The embedded model in float32; its tests are skipped only where it cannot be had (no network, not cached)."""
    return _embedded("smollm2-135m")


@pytest.fixture(scope="session")
def minilm(_own_cache: Path) -> TextModel:
    """The embedded model of sentences in float32, under the same terms."""
    return _embedded("all-minilm-l6-v2")


def _embedded(name: str) -> TextModel:
    from covec.models.load import load

    try:
        return load(name, dtype="float32", device="cpu")
    except CovecError as error:
        if "network" not in str(error):
            raise
        pytest.skip(str(error))
