"""The margin index of a byte pool reads the pool's own bytes, and finds what brute force over them finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.selection.margin import MarginIndex
from tests.fakes import FakeSource
from tests.pools import small_pool

N, D = 3000, 100


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Pool:
    source = FakeSource(N, D, held_out=range(0, N, 50), lean=2.0)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("FIRST_SEGMENT_ROWS", 150), ("BYTE_SEGMENT_ROWS", 700)):
            patch.setattr(f"closecall.core.pool.build_plan.{name}", size)
        return build(source, tmp_path_factory.mktemp("byte") / "pool", dtype="byte")


def planes(n: int = 12) -> list[Hyperplane]:
    """Through the bulk of the pool, at its side, and beyond it."""
    found = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        found.append(Hyperplane(rng.standard_normal(D), (0.0, 1.0, 3.0)[seed % 3] * rng.uniform(0.5, 1)))
    return found


def nearest_by_scan(pool, plane, n, exclude=()):
    margins = np.abs(plane.scores(pool.rows(np.arange(len(pool)))))
    margins[np.isin(pool.ids, exclude)] = np.inf
    order = np.lexsort((pool.ids, margins))[:n]
    return pool.ids[order], margins[order]


def test_it_finds_the_nearest(pool):
    """Of all rows, in order, with the margins of the stored rows; excluded items are passed over."""
    assert pool.version > 4
    index = MarginIndex(confidence=1 - 1e-9).fit(pool)
    for plane in planes():
        gone = nearest_by_scan(pool, plane, 10)[0]
        for exclude in ((), gone):
            ids, margins = nearest_by_scan(pool, plane, 7, exclude)
            found = index.select(plane, 7, exclude=np.sort(np.asarray(exclude, dtype=np.int64)))
            assert np.array_equal(found.ids, ids)
            assert np.allclose(found.margins, margins, rtol=0, atol=1e-12)


def test_a_snapshot_that_ends_within_a_segment(pool):
    """Rows that are not in it are never found, and do not narrow the search."""
    for n in (400, 1100, len(pool) - 1):
        first = pool.prefix(n)
        index = MarginIndex(confidence=1 - 1e-9).fit(first)
        for plane in planes(6):
            for exclude in ((), (-9, -5, 3)):
                found = index.select(plane, 5, exclude=exclude)
                assert np.array_equal(found.ids, nearest_by_scan(first, plane, 5, exclude)[0])


def test_a_budget_is_kept_but_for_whole_clusters(pool, monkeypatch):
    """The densest clusters come first, so few rows suffice for a near one."""
    monkeypatch.setattr("closecall.core.selection.margin.index.LEAST_BUDGET", 1)
    index = MarginIndex(budget=600).fit(pool)
    largest = int(np.diff(index._bytes.statistics.starts).max())
    ranks = []
    for plane in planes():
        found = index.select(plane, 1)
        assert found.scored <= 600 + largest
        margins = np.abs(plane.scores(pool.rows(np.arange(len(pool)))))
        ranks.append(int((margins < found.margins[0] - 1e-12).sum()))
    assert np.median(ranks) <= 2
    few = index.select(planes(1)[0], 900)
    assert len(few.ids) == 900


def test_a_share_of_the_rows(pool, monkeypatch):
    """Of a large byte pool, a hundredth is read unless more is asked for; never less than a minimum."""
    monkeypatch.setattr("closecall.core.selection.margin.index.LEAST_BUDGET", 30)
    largest = int(np.diff(MarginIndex().fit(pool)._bytes.statistics.starts).max())
    for share in (0.001, 0.1, 0.4, 1.0):
        wanted = max(30, int(np.ceil(share * len(pool))))
        scored = [MarginIndex(share=share).fit(pool).select(plane, 1).scored for plane in planes(4)]
        assert all(min(wanted, len(pool)) <= n <= wanted + largest for n in scored)
    everything = MarginIndex().fit(pool)
    assert everything.select(planes(1)[0], 1).scored == len(pool)
    monkeypatch.setattr("closecall.core.selection.margin.index.LARGE", 1000)
    assert everything.select(planes(1)[0], 1).scored <= 30 + largest
    assert MarginIndex(share=1).fit(pool).select(planes(1)[0], 1).scored == len(pool)
    with pytest.raises(InputError, match="a budget or a share, not both"):
        MarginIndex(share=0.1, budget=9000).fit(pool)
    for share in (0, -0.1, 1.1):
        with pytest.raises(InputError, match="share must be above 0 and at most 1"):
            MarginIndex(share=share).fit(pool)


def test_nothing_is_stored_twice(pool, tmp_path):
    """A saved index has no arrays, and a loaded one finds the same."""
    index = MarginIndex().fit(pool)
    index.save(tmp_path / "index")
    assert sum(file.stat().st_size for file in (tmp_path / "index").iterdir()) < 4096
    loaded = MarginIndex.load(tmp_path / "index", pool)
    for plane in planes(4):
        assert np.array_equal(index.select(plane, 5).ids, loaded.select(plane, 5).ids)
    assert index.remember(planes(2)) == [None, None]


def test_growth_is_seen(tmp_path: Path):
    """Segments are added to those that an index has."""
    small = small_pool(tmp_path / "p", FakeSource(200, 20), dtype="byte")
    index = MarginIndex(confidence=1 - 1e-9).fit(small)
    grown = small_pool(tmp_path / "p", FakeSource(400, 20))
    index = index.extended(grown)
    for seed in range(5):
        plane = Hyperplane(np.random.default_rng(seed).standard_normal(20), 0.0)
        assert np.array_equal(index.select(plane, 3).ids, nearest_by_scan(grown, plane, 3)[0])
