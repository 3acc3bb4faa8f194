"""A worker searches the snapshot that it is asked about, or says in a sentence why it does not."""

from __future__ import annotations

import shutil

import pytest

from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.workers.worker import Snapshot, opened, prepare
from tests.fakes import FakeSource
from tests.pools import small_pool


@pytest.fixture
def path(tmp_path):
    opened.cache_clear()
    small_pool(tmp_path / "pool", FakeSource(300, 12))
    return tmp_path / "pool"


def test_the_same_rows(path):
    """Its pool may have grown meanwhile."""
    pool = Pool.open(path)
    prepare(Snapshot.of(pool))
    small_pool(path, FakeSource(500, 12))
    grown = Pool.open(path)
    assert len(grown) > len(pool)
    for snapshot in (pool, pool.prefix(120), grown):
        found, _ = opened(Snapshot.of(snapshot))
        assert found.digest == snapshot.digest
        assert len(found) == len(snapshot)


def test_another_pool_at_its_place(path, tmp_path):
    """One that replaced the pool is refused, and found again when it comes back."""
    pool = Pool.open(path)
    prepare(Snapshot.of(pool))
    path.rename(tmp_path / "aside")
    other = small_pool(path, FakeSource(300, 12, seed=1))
    with pytest.raises(InputError, match=f"it has another pool at {path}"):
        opened(Snapshot.of(pool)._replace(n_rows=120, digest=pool.prefix(120).digest))
    prepare(Snapshot.of(other))


def test_no_pool_fewer_rows_or_another_version(path):
    """One sentence each, which names the place."""
    snapshot = Snapshot.of(Pool.open(path))
    with pytest.raises(InputError, match="has only 300 of 1,000 rows"):
        opened(snapshot._replace(n_rows=1000))
    with pytest.raises(InputError, match=r"it has Closecall .+ instead of 9\.9"):
        opened(snapshot._replace(closecall="9.9"))
    shutil.rmtree(path)
    with pytest.raises(InputError, match="There is no pool at"):
        prepare(snapshot._replace(n_rows=12))
