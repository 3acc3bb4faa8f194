from __future__ import annotations

import pytest

import core.scoring


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Pools of a few items, too, are scored in several blocks."""
    monkeypatch.setattr(core.scoring, "_SCORES", 32)
    monkeypatch.setattr(core.scoring, "_CACHED_ROWS", 8)
