from __future__ import annotations

import pytest

from covec.activations import identity


@pytest.fixture
def _before_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fingerprint is known before a process forks: torch's threads do not live on in the child."""
    monkeypatch.setattr(identity, "fingerprint", lambda *_: "known")
