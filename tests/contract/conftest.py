from __future__ import annotations

import pytest

import closecall.core.linear.scoring
import closecall.core.selection.margin.index


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Pools of a few items, too, are scored in several blocks."""
    monkeypatch.setattr(closecall.core.linear.scoring, "_SCORES", 32)
    monkeypatch.setattr(closecall.core.linear.scoring, "_CACHED_ROWS", 8)


@pytest.fixture(autouse=True, scope="module")
def _no_least_budget():
    """On such pools, too, the margin index spends a budget on clusters."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(closecall.core.selection.margin.index, "LEAST_BUDGET", 1)
        yield
