from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from closecall.app.projects.pool_builder import Builder
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.selection.margin.layout import Layout
from closecall.core.sources import source_from
from tests.projects import new_project, open_workspace


@pytest.fixture(autouse=True, scope="session")
def build_a_margin_index_once() -> Iterator[None]:
    """Hundreds of projects have copies of one pool; its margin index is the same in all of them."""
    layouts: dict[Any, Layout] = {}
    build_layout = Layout.built

    def built(pool: Any, n_clusters: Any, seed: int, old: Layout | None, progress: Any) -> Layout:
        if old is not None or not isinstance(pool, Pool) or len(pool) > 5000:
            return build_layout(pool, n_clusters, seed, old, progress)
        key = pool.digest, n_clusters, seed
        if key not in layouts:
            layouts[key] = build_layout(pool, n_clusters, seed, None, progress)
        elif progress is not None:
            progress(len(pool), len(pool))
        return layouts[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Layout, "built", built)
        yield


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with open_workspace(tmp_path) as workspace:
        yield workspace


@pytest.fixture
def project(workspace: Workspace) -> OpenProject:
    return new_project(workspace)


@pytest.fixture
def built_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build pools in a thread of this process: a child takes seconds to start."""

    def start(builder: Builder) -> None:
        _, _, word, *options = builder._words
        source = source_from(word, use_classes="--no-classes" not in options)
        threading.Thread(target=build, args=(source, builder._pool)).start()

    monkeypatch.setattr(Builder, "start", start)
