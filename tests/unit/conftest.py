from __future__ import annotations

import pytest

SEED = 3
"""Of every new session: with it, sevens are among the first dozen digits that come at random."""


@pytest.fixture(autouse=True)
def sessions_with_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """New sessions draw their seed at random; in tests they all have the same."""
    monkeypatch.setattr("app.project.secrets.randbelow", lambda _: SEED)
