"""Rows of a pool as the SVM reads them: where they lie."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.numerics.rows import PlacedRows
from closecall.core.pool.build import build
from closecall.core.sources import source_from


def read(placed: PlacedRows) -> np.ndarray:
    """The float32 rows at the addresses."""
    size = placed.n_features * 4
    raw = [ctypes.string_at(int(place), size) for place in placed.places]
    return np.frombuffer(b"".join(raw), dtype=np.float32).reshape(placed.shape)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_addresses_lead_to_the_rows(dtype, tmp_path):
    """Of all segments, in any order, twice, of a prefix, and joined with a matrix of one's own."""
    pool = build(source_from("digits:700"), tmp_path / "pool", dtype=dtype)
    assert pool.version > 2
    for snapshot in (pool, pool.prefix(301)):
        ids = np.random.default_rng(0).permutation(snapshot.ids)[:250]
        ids = np.append(ids, ids[:3])
        placed = snapshot.placed_rows_of(ids)
        assert np.array_equal(read(placed), snapshot.rows_of(ids))
        own = np.arange(2 * pool.n_features, dtype=np.float32).reshape(2, -1)
        both = (placed + PlacedRows.of(own)).in_order(np.array([253, 0, 254]))
        assert np.array_equal(read(both), np.stack([own[0], snapshot.rows_of(ids[:1])[0], own[1]]))


def test_nothing_is_copied(tmp_path):
    """The addresses of a float32 pool lie in what is mapped, and the mapping outlives the pool."""
    pool = build(source_from("digits:300"), tmp_path / "pool")
    (first, X), *_ = pool.blocks()
    placed, row = pool.placed_rows_of(pool.ids[5:6]), np.array(X[5 - first])
    assert int(placed.places[0]) == X[5 - first].ctypes.data
    del pool, X
    assert np.array_equal(read(placed)[0], row)


def test_an_item_without_a_row_is_refused(tmp_path):
    """As wherever rows are asked for."""
    pool = build(source_from("digits:100"), tmp_path / "pool")
    with pytest.raises(InputError, match="no row"):
        pool.placed_rows_of([10**9])
