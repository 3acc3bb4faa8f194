"""Density tiles of a map: for each cell of a grid, the number of items in it and their scores.

The map is a square, with the items in its middle. At zoom z, it is divided into 2ᶻ × 2ᶻ tiles, and each tile
into cells. Tile (0, 0) has the smallest coordinates. Items are sorted once by Morton code [1]_, which
interleaves the bits of an item's two coordinates. The items of any tile or cell are then consecutive, so
computing a tile takes time in proportion to its number of items.

References
----------
.. [1] G. M. Morton: A Computer Oriented Geodetic Data Base and a New Technique in File Sequencing, IBM, 1966.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError

DEPTH = 20
"""Number of bits per coordinate in a Morton code. They resolve a millionth of the map's side."""

CELLS = 128
"""Number of cells on the side of a tile."""

Int64s = NDArray[np.int64]


class Cells(NamedTuple):
    """The nonempty cells of a tile. Each array has shape (n_cells,).

    Parameters
    ----------
    column, row : array of int64
        Position of the cell in the tile, from 0 at the smallest coordinates.
    n_items : array of int64
        Number of items in the cell.
    mean : array of float64
        Mean of the scores wᵀx + b of the items in the cell.
    margin : array of float64
        Smallest |wᵀx + b| of the items in the cell.
    """

    column: Int64s
    row: Int64s
    n_items: Int64s
    mean: NDArray[np.float64]
    margin: NDArray[np.float64]


class MapTiles:
    """The items of a map, sorted so that the items of any tile are consecutive. Thread-safe.

    Parameters
    ----------
    positions : array of shape (n_items, 2)
        The positions of the items. There must be at least one item.

    Attributes
    ----------
    origin : array of shape (2,), float64
        The map's corner with the smallest coordinates.
    side : float
        Length of the map's sides.

    Raises
    ------
    InputError
        If there are no items, or a coordinate is not finite.
    """

    def __init__(self, positions: ArrayLike) -> None:
        places = np.asarray(positions, dtype=np.float64)
        if places.ndim != 2 or places.shape[1] != 2 or not len(places) or not np.isfinite(places).all():
            raise InputError(f"positions must be finite numbers of shape (n, 2), got shape {places.shape}")
        low = places.min(axis=0)
        extent = places.max(axis=0) - low
        self.side = float(extent.max()) or 1.0
        self.origin = low - (self.side - extent) / 2
        last = (1 << DEPTH) - 1
        steps = np.minimum((places - self.origin) * ((1 << DEPTH) / self.side), last).astype(np.int64)
        codes = _spread(steps[:, 0]) | _spread(steps[:, 1]) << 1
        self._order = np.argsort(codes, kind="stable")
        self._codes = codes[self._order]

    def __len__(self) -> int:
        return len(self._order)

    def cells(self, zoom: int, column: int, row: int, scores: ArrayLike, *, n_cells: int = CELLS) -> Cells:
        """Return the cells of a tile, in order of their Morton codes.

        Parameters
        ----------
        zoom, column, row : int
            Zoom level and position of the tile, with 0 ≤ column, row < 2^zoom.
        scores : array of shape (n_items,)
            wᵀx + b of all items.
        n_cells : int
            Number of cells on the side of the tile, a power of two.

        Raises
        ------
        InputError
            If there is no such tile, if `n_cells` is not a power of two, if the cells would be smaller than
            2^−`DEPTH` of the map's side, or if there is not one score per item.
        """
        values = np.asarray(scores)
        if values.shape != (len(self),):
            raise InputError(f"scores must have shape ({len(self)},), got {values.shape}")
        if n_cells < 1 or n_cells & (n_cells - 1):
            raise InputError(f"n_cells must be a power of two, got {n_cells}")
        finest = DEPTH - (n_cells.bit_length() - 1)
        if not 0 <= zoom <= finest:
            raise InputError(f"zoom must be from 0 to {finest} with {n_cells} cells, got {zoom}")
        if not (0 <= column < 1 << zoom and 0 <= row < 1 << zoom):
            raise InputError(f"there is no tile ({column}, {row}) at zoom {zoom}")
        across, down = _spread(np.array([column, row])).tolist()
        tile = across | down << 1
        first, end = np.searchsorted(self._codes, np.array([tile, tile + 1]) << 2 * (DEPTH - zoom))
        shift = 2 * (finest - zoom)
        codes = (self._codes[first:end] >> shift) & (n_cells * n_cells - 1)
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        if not len(starts):
            nothing, none = np.empty(0, dtype=np.int64), np.empty(0)
            return Cells(nothing, nothing, nothing, none, none)
        own = values[self._order[first:end]].astype(np.float64)
        n_items = np.diff(starts, append=len(codes))
        return Cells(
            _gathered(codes[starts]),
            _gathered(codes[starts] >> 1),
            n_items,
            np.add.reduceat(own, starts) / n_items,
            np.minimum.reduceat(np.abs(own), starts),
        )


_MASKS = ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333))
_EVERY_OTHER = 0x5555555555555555


def _spread(x: Int64s) -> Int64s:
    """Move bit i of each number below 2³¹ to bit 2i."""
    for shift, mask in _MASKS:
        x = (x | x << shift) & mask
    return (x | x << 1) & _EVERY_OTHER


def _gathered(x: Int64s) -> Int64s:
    """Move bit 2i of each number to bit i, and drop all odd bits: the inverse of `_spread`."""
    x = x & _EVERY_OTHER
    for shift, (_, mask) in zip((1, 2, 4, 8), reversed(_MASKS), strict=True):
        x = (x | x >> shift) & mask
    return (x | x >> 16) & 0x00000000FFFFFFFF
