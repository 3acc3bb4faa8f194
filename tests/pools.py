"""Small pools for tests, how to tell whether two are the same, and builders that are killed."""

from __future__ import annotations

import hashlib
import multiprocessing
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import closecall.core.pool.build_plan
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import Source, source_from

FLEETING = {"progress.json", "build.lock"}
"""What says how a build goes, and is no part of what it built."""


def small_parts(
    monkeypatch: pytest.MonkeyPatch | None = None, *, first: int = 20, segment: int = 50, chunk: int = 7
) -> None:
    """Let a pool of a few hundred items have several segments, and each several chunks."""
    sizes = {
        "FIRST_SEGMENT_ROWS": first,
        "SEGMENT_ROWS": segment,
        "BYTE_SEGMENT_ROWS": segment,
        "CHUNK_ITEMS": chunk,
    }
    for name, size in sizes.items():
        if monkeypatch is None:
            setattr(closecall.core.pool.build_plan, name, size)
        else:
            monkeypatch.setattr(closecall.core.pool.build_plan, name, size)


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


def killed_pools(
    word: str, folder: Path, kills: int, *, longest: float, dtype: str | None = None
) -> list[Path]:
    """Pools of a source whose builders were killed −9, after up to `longest` seconds, and then finished.

    Two builders of each pool are killed, and one that nobody disturbs follows the last kill.
    """
    processes = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    if sys.platform == "linux":
        processes.set_forkserver_preload([__name__])
    rng, killed = np.random.default_rng(0), 0
    for attempt in range(20 * kills):
        path = folder / f"killed {killed // 2}"
        child = processes.Process(target=_build_in_child, args=(word, path, dtype))
        child.start()
        if killed < kills:
            while not path.exists() and child.is_alive():
                time.sleep(0.001)
            time.sleep(rng.uniform(0, longest))
            child.kill()
        child.join()
        killed += child.exitcode == -signal.SIGKILL
        if killed >= kills and attempt > killed:
            break
    assert killed >= kills
    pools = sorted(folder.glob("killed *"))
    for path in pools:
        small_pool(path, source_from(word), dtype=dtype)
    return pools


def _build_in_child(word: str, path: Path, dtype: str | None) -> None:
    small_parts()
    build(source_from(word), path, dtype=dtype, threads=2)  # type: ignore[arg-type]


def gapped_pool(path: Path, n: int, d: int = 8, *, seed: int = 0, **options: object) -> Pool:
    """A pool of n items in some ten segments, with the ids of the contract suite's pools: 5, 8, 11, …"""
    from tests.fakes import FakeSource

    items = 5 + 3 * n
    held_out = np.setdiff1d(np.arange(items), 5 + 3 * np.arange(n))
    with pytest.MonkeyPatch.context() as monkeypatch:
        small_parts(monkeypatch, first=n // 20, segment=n // 8, chunk=97)
        source = FakeSource(items, d, seed=seed, held_out=held_out, lean=1.0)
        return build(source, path, **options)  # type: ignore[arg-type]
