"""Small pools for tests, and how to tell whether two are the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import closecall.core.pool.build
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import Source

FLEETING = {"progress.json", "build.lock"}
"""What says how a build goes, and is no part of what it built."""


def small_parts(
    monkeypatch: pytest.MonkeyPatch | None = None, *, first: int = 20, segment: int = 50, chunk: int = 7
) -> None:
    """Let a pool of a few hundred items have several segments, and each several chunks."""
    sizes = {"FIRST_SEGMENT_ROWS": first, "SEGMENT_ROWS": segment, "CHUNK_ITEMS": chunk}
    for name, size in sizes.items():
        if monkeypatch is None:
            setattr(closecall.core.pool.build, name, size)
        else:
            monkeypatch.setattr(closecall.core.pool.build, name, size)


def small_pool(path: Path, source: Source, **options: object) -> Pool:
    """The pool of `source` in small parts, whatever the sizes are otherwise."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        small_parts(monkeypatch)
        return build(source, path, **options)  # type: ignore[arg-type]


def contents(path: Path) -> dict[str, str]:
    """Every lasting file of the pool by its relative name, with a digest of its bytes."""
    return {
        file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name not in FLEETING
    }
