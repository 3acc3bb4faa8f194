"""The state of a map at one time: places and scores of items, the items nearest the hyperplane, and tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.app.display.density import colours, png
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.map import MapTiles, PoolMap
from closecall.core.map.build import FOLDER
from closecall.core.pool.pool import Pool

BAND = 0.01
"""Share of the map's items that are in the band. The band is the items nearest the hyperplane."""

LEAST_BAND = 12
"""Minimum number of items in the band."""

FULL_COLOUR = 0.9
"""The full colour of yes or no begins at this quantile of |wᵀx + b|."""

DENSE = 99
"""At zoom 0, a cell is opaque if its number of items is at least this percentile."""

KEPT_TILES = 256
"""Maximum number of painted tiles that are kept per version of a map, about 10 kB each."""

_CELLS_PER_ITEM = 13
"""Number of cells per item in the finest tiles: enough that few cells have more than one item.

Items cover about a seventh of the square, so there are about two covered cells per item.
"""

_LEAST_CELLS, _MOST_CELLS = 6, 8
"""Binary logarithms of the least and greatest number of cells on the side of a tile."""


@dataclass(frozen=True, eq=False)
class Ground:
    """The places of items: the map as it is on disk at one time.

    Parameters
    ----------
    pool : Pool
        The pool, reduced to the rows that are on the map.
    positions : array of shape (n_rows, 2), float32
    tiles : MapTiles
    layout : str
        Digest of the map's layout.
    stamp : int
        Time of the last change to the map's folder, in nanoseconds.
    n_known : int
        Number of rows that the pool had when the map was read. The map may have fewer.
    """

    pool: Pool
    positions: NDArray[np.float32]
    tiles: MapTiles
    layout: str
    stamp: int
    n_known: int

    @classmethod
    def open(cls, pool: Pool) -> Ground:
        """Read the map of a pool.

        Raises
        ------
        InputError
            If the pool has no map, or the map has no items yet, is damaged or belongs to another pool.
        """
        stamp = _stamp(pool)
        made = PoolMap.open(pool)
        positions = made.positions
        if not len(positions):
            raise InputError("the pool's map has no items yet: finish it with closecall pool map")
        n_rows, digest = len(positions), made.digest
        return cls(pool.prefix(n_rows), positions, MapTiles(positions), digest, stamp, len(pool))

    def is_current(self, pool: Pool) -> bool:
        """Return False if the map on disk, or the number of rows in `pool`, has changed since `open`."""
        return self.stamp == _stamp(pool) and len(pool) == self.n_known

    @cached_property
    def n_cells(self) -> int:
        """Number of cells on the side of a tile."""
        return 1 << min(max(self._depth, _LEAST_CELLS), _MOST_CELLS)

    @cached_property
    def finest(self) -> int:
        """Greatest zoom of the tiles; at this zoom, there are at least `_CELLS_PER_ITEM` cells per item."""
        return max(0, self._depth - _MOST_CELLS)

    @property
    def _depth(self) -> int:
        return math.ceil(math.log(_CELLS_PER_ITEM * len(self.positions), 4))

    @cached_property
    def dense(self) -> float:
        """At zoom 0, a cell with at least this many items is opaque."""
        whole = self.tiles.cells(0, 0, 0, np.zeros(len(self.positions), np.float32), n_cells=self.n_cells)
        return float(np.percentile(whole.n_items, DENSE))

    def places(self, fractions: ArrayLike) -> NDArray[np.float64]:
        """Convert fractions of the map's side into coordinates on the map."""
        found: NDArray[np.float64] = self.tiles.origin + np.asarray(fractions) * self.tiles.side
        return found

    def fractions(self, rows: Sequence[int]) -> NDArray[np.float64]:
        """Return the places of rows as fractions of the map's side."""
        found: NDArray[np.float64] = (self.positions[rows] - self.tiles.origin) / self.tiles.side
        return found

    def row_of(self, item: int) -> int | None:
        """Return the row of an item, or None if it has no place on the map."""
        return int(self.pool.row_of([item])[0]) if self.pool.has_row(item) else None


@dataclass(frozen=True, eq=False)
class Version:
    """The map under one hyperplane.

    Parameters
    ----------
    number : int
        Counts the versions of a map.
    ground : Ground
    scores : array of shape (n_rows,), float32, or None
        wᵀx + b of the items on the map; None without a hyperplane.
    digest : str or None
        Digest of the hyperplane.
    n_labels : int
        Number of labels that the hyperplane was trained on.
    margin : float
        Greatest |wᵀx + b| in the band. The band is the items nearest the hyperplane.
    n_in_band : int
        Number of items in the band: the share `BAND` of the map's items, or `LEAST_BAND` items if this is
        more. Items that tie at the band's edge are all in it.
    furthest : float
        |wᵀx + b| from which on a cell has the full colour; see `app.display.density.colours`.
    """

    number: int
    ground: Ground
    scores: NDArray[np.float32] | None = None
    digest: str | None = None
    n_labels: int = 0
    margin: float = 0.0
    n_in_band: int = 0
    furthest: float = 1.0
    _painted: dict[tuple[int, int, int, str], bytes | None] = field(default_factory=dict)

    @classmethod
    def of(cls, number: int, ground: Ground, hyperplane: Hyperplane | None, n_labels: int) -> Version:
        """Return a version with all items' scores and the band; without a hyperplane, it has neither."""
        if hyperplane is None:
            return cls(number, ground, n_labels=n_labels)
        scores = ground.pool.scores(hyperplane)
        n, margins = len(scores), np.abs(scores)
        last = min(n, max(LEAST_BAND, math.ceil(BAND * n))) - 1
        far = int(FULL_COLOUR * (n - 1))
        parted = np.partition(margins, sorted({last, far}))
        margin, furthest = float(parted[last]), float(parted[far])
        return cls(
            number,
            ground,
            scores,
            hyperplane.digest,
            n_labels,
            margin,
            int(np.count_nonzero(margins <= margin)),
            furthest or 1.0,
        )

    @cached_property
    def n_positive(self) -> int | None:
        """Number of items on the positive side of the hyperplane; None without a hyperplane."""
        return None if self.scores is None else int(np.count_nonzero(self.scores > 0))

    def tile(self, zoom: int, column: int, row: int, theme: str) -> bytes | None:
        """Return a tile as `LiveMap.tile` does; a tile that was painted before is not painted again."""
        place = zoom, column, row, theme
        try:
            return self._painted[place]
        except KeyError:
            pass
        if len(self._painted) >= KEPT_TILES:
            self._painted.clear()
        painted = self._painted[place] = self._paint(*place)
        return painted

    def _paint(self, zoom: int, column: int, row: int, theme: str) -> bytes | None:
        tiles, n_cells = self.ground.tiles, self.ground.n_cells
        scores = np.zeros(len(tiles), np.float32) if self.scores is None else self.scores
        cells = tiles.cells(zoom, column, row, scores, n_cells=n_cells)
        if not len(cells.n_items):
            return None
        in_band = np.zeros(len(cells.n_items))
        if self.scores is not None:  # the mean of a boolean: the share of a cell's items in the band
            is_in_band = np.abs(self.scores) <= self.margin
            in_band = tiles.cells(zoom, column, row, is_in_band, n_cells=n_cells).mean
        dense = self.ground.dense / 4**zoom
        return png(cells, colours(cells, in_band, furthest=self.furthest, dense=dense, theme=theme), n_cells)


def _stamp(pool: Pool) -> int:
    try:
        return (pool.path / FOLDER).stat().st_mtime_ns
    except OSError:
        return 0
