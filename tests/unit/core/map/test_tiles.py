from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closecall.core.errors import InputError
from closecall.core.map import MapTiles
from tests.scale import examples

N = 2000


@pytest.fixture(scope="module")
def positions() -> np.ndarray:
    """Two clumps, and an item at each corner of a square from (−3, 1) to (5, 9)."""
    rng = np.random.default_rng(0)
    clumps = np.concatenate([rng.normal((-1, 3), 0.3, (N // 2, 2)), rng.normal((3, 7), 0.6, (N // 2, 2))])
    corners = [(-3, 1), (5, 1), (-3, 9), (5, 9)]
    return np.concatenate([clumps.clip((-3, 1), (5, 9)), corners]).astype(np.float32)


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    return np.random.default_rng(1).standard_normal(N + 4).astype(np.float32)


def brute_force(positions, scores, zoom, column, row, n_cells):
    """Count, mean and least margin of each cell with items, by comparing every position with its borders."""
    side = 8 / 2**zoom
    left, low = -3 + column * side, 1 + row * side
    found = {}
    for (x, y), score in zip(positions.tolist(), scores.tolist(), strict=True):
        # The greatest coordinates belong to the last cell.
        i = min(int((x + 3) // (side / n_cells)), 2**zoom * n_cells - 1) - column * n_cells
        j = min(int((y - 1) // (side / n_cells)), 2**zoom * n_cells - 1) - row * n_cells
        if 0 <= i < n_cells and 0 <= j < n_cells:
            found.setdefault((i, j), []).append(score)
    assert left < 5
    assert low < 9
    return {
        cell: (len(own), sum(own) / len(own), min(abs(score) for score in own)) for cell, own in found.items()
    }


@pytest.mark.parametrize(
    ("zoom", "column", "row", "n_cells"),
    [(0, 0, 0, 16), (0, 0, 0, 1), (1, 0, 0, 8), (1, 1, 1, 32), (3, 1, 2, 4), (3, 7, 7, 4), (2, 3, 0, 64)],
)
def test_cells_have_the_items_between_their_borders(positions, scores, zoom, column, row, n_cells):
    """Their number, their mean score and their least margin."""
    cells = MapTiles(positions).cells(zoom, column, row, scores, n_cells=n_cells)
    expected = brute_force(positions, scores, zoom, column, row, n_cells)
    assert (
        dict.fromkeys(zip(cells.column.tolist(), cells.row.tolist(), strict=True)).keys() == expected.keys()
    )
    for i, j, count, mean, margin in zip(*(values.tolist() for values in cells), strict=True):
        assert (count, pytest.approx(mean, abs=1e-6), pytest.approx(margin)) == expected[i, j]


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 6), st.sampled_from([1, 4, 16]))
def test_the_tiles_of_a_zoom_have_every_item_once(zoom, n_cells):
    """And scores that add up."""
    rng = np.random.default_rng(zoom)
    positions, scores = rng.standard_normal((300, 2)), rng.standard_normal(300)
    tiles = MapTiles(positions)
    count, total = 0, 0.0
    for column in range(2**zoom):
        for row in range(2**zoom):
            cells = tiles.cells(zoom, column, row, scores, n_cells=n_cells)
            count += int(cells.n_items.sum())
            total += float((cells.n_items * cells.mean).sum())
    assert count == 300
    assert total == pytest.approx(scores.sum())


def test_items_at_one_place():
    """A map without extent has one cell at every zoom."""
    tiles = MapTiles(np.full((5, 2), 2.5))
    cells = tiles.cells(0, 0, 0, np.arange(5.0))
    assert (cells.n_items.tolist(), cells.mean.tolist(), cells.margin.tolist()) == ([5], [2.0], [0.0])


@pytest.mark.parametrize("narrow", [0, 1])
def test_items_are_in_the_middle_of_a_square(narrow):
    """Even if they extend less in one dimension."""
    positions = np.random.default_rng(0).uniform((-3, 1), (5, 9), (100, 2))
    positions[:, narrow] /= 4
    tiles = MapTiles(positions)
    low, high = positions.min(axis=0), positions.max(axis=0)
    assert tiles.origin + tiles.side / 2 == pytest.approx((low + high) / 2)
    assert tiles.side == pytest.approx((high - low).max())


def test_bad_input_is_refused(positions, scores):
    """Each with the values that are allowed."""
    tiles = MapTiles(positions)
    for arguments, sentence in [
        ((0, 1, 0, scores), r"no tile \(1, 0\) at zoom 0"),
        ((0, 0, -1, scores), r"no tile \(0, -1\)"),
        ((-1, 0, 0, scores), "zoom must be from 0 to 13"),
        ((14, 0, 0, scores), "zoom must be from 0 to 13 with 128 cells, got 14"),
        ((0, 0, 0, scores[1:]), rf"scores must have shape \({N + 4},\)"),
    ]:
        with pytest.raises(InputError, match=sentence):
            tiles.cells(*arguments)
    with pytest.raises(InputError, match="n_cells must be a power of two, got 12"):
        tiles.cells(0, 0, 0, scores, n_cells=12)
    for bad in (np.empty((0, 2)), np.ones((3, 3)), [[0, np.nan]]):
        with pytest.raises(InputError, match="positions must be finite numbers"):
            MapTiles(bad)
