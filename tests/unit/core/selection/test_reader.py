from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from closecall.core.selection import ArrayPool, reader
from closecall.core.selection.nearest import float32_error
from closecall.core.selection.reader import RowReader
from tests.contract.kit import hyperplanes
from tests.fakes import FakeSource
from tests.pools import small_pool

D = 37


@pytest.fixture(scope="module")
def many_segments(tmp_path_factory):
    """A pool of dozens of segments, in both number formats."""
    folder = tmp_path_factory.mktemp("pools")
    return {
        dtype: small_pool(folder / dtype, FakeSource(900, D, held_out=range(0, 900, 11)), dtype=dtype)
        for dtype in ("float32", "float16")
    }


def rows_in_any_order(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        np.arange(n),
        np.arange(n)[::-1],
        rng.permutation(n),
        rng.integers(n, size=3 * n),
        np.array([n - 1]),
        np.array([0, n - 1, 0, n - 1, n - 1]),
        np.empty(0, dtype=np.int64),
    ]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_are_read_where_they_lie(monkeypatch, many_segments, dtype):
    """In any order, as often as they are asked for, whichever of many small segments they are in."""
    monkeypatch.setattr(reader, "_COPIED_ROWS", 50)
    pool = many_segments[dtype]
    assert len(list(pool.blocks())) > 10
    rows_of = RowReader(pool)
    X = pool.rows(np.arange(len(pool)))
    for plane in hyperplanes(3, d=D):
        margins = np.abs(plane.scores(X))
        for rows in rows_in_any_order(len(pool)):
            assert np.allclose(rows_of.margins(rows, plane), margins[rows], rtol=0, atol=1e-13)
            wrong = np.abs(rows_of.rough_margins(rows, plane) - margins[rows])
            assert (wrong <= float32_error(plane)).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_row_s_margin_depends_on_nothing_but_the_row(many_segments, dtype):
    """To the last bit: not on where it stands, nor on its segment, nor on the other rows asked for."""
    pool = many_segments[dtype]
    X = pool.rows(np.arange(len(pool)))
    (plane,) = hyperplanes(1, d=D)
    expected = RowReader(pool).margins(np.arange(len(pool)), plane)
    at_once = ArrayPool(X)
    at_once._X = X  # as they are stored, not made unit rows again
    assert np.array_equal(RowReader(at_once).margins(np.arange(len(pool)), plane), expected)
    for rows in rows_in_any_order(len(pool)):
        assert np.array_equal(RowReader(pool).margins(rows, plane), expected[rows])


def test_several_threads_may_read_at_once(many_segments):
    """Each gets its own rows."""
    pool = many_segments["float32"]
    rows_of = RowReader(pool)
    jobs = [(rows, plane) for rows in rows_in_any_order(len(pool)) for plane in hyperplanes(6, d=D)]
    alone = [rows_of.margins(*job) for job in jobs]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda job: rows_of.margins(*job), jobs))
    assert all(map(np.array_equal, alone, together))


@pytest.mark.parametrize("d", [1, 15, 16, 17, 64])
def test_rows_of_any_length(d):
    """Shorter than a line of the cache, just as long, and longer."""
    pool = ArrayPool(np.random.default_rng(d).standard_normal((50, d)))
    for plane in hyperplanes(3, d=d):
        expected = np.abs(plane.scores(pool.rows(np.arange(50))))
        assert np.allclose(RowReader(pool).margins(np.arange(50), plane), expected, rtol=0, atol=1e-13)
