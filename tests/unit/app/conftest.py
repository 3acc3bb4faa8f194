from __future__ import annotations

import threading

import pytest

from closecall.app.projects.pool_builder import Builder
from closecall.core.pool.build import build
from closecall.core.sources import source_from


@pytest.fixture
def built_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build pools in a thread of this process: a child takes seconds to start."""

    def start(builder: Builder) -> None:
        source = source_from(builder._source, use_classes=builder._use_classes)
        threading.Thread(target=build, args=(source, builder._pool)).start()

    monkeypatch.setattr(Builder, "start", start)
