"""A lasso on the map of a pool, as the log keeps it, and the selection of items inside it.

The log has the corners, and the digest of the layout that they were drawn on. ``closecall verify`` therefore
finds the same items, even if the map has been made again since.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.choosing import select_smallest
from closecall.app.engine.training import Trained
from closecall.core.errors import InputError
from closecall.core.map import PoolMap, inside
from closecall.core.pool.pool import Pool
from closecall.core.selection import RowReader, Selection
from closecall.storage.repeats import ItemGroups

PAGE = 60
"""Number of items that a lasso shows at once, as a page.

Only the record of the page's first item has the corners.
"""

MOST_CORNERS = 200
"""Maximum number of corners of a lasso."""


@dataclass(frozen=True)
class Lasso:
    """A polygon on a map.

    Parameters
    ----------
    layout : str
        Digest of the map's layout; see `core.map.PoolMap`.
    n_rows : int
        Number of the pool's rows that were on the map when the lasso was drawn.
    corners : tuple of (float, float)
        The corners in order, as positions on the map; see `core.map.inside`.

    Raises
    ------
    InputError
        If there are more than `MOST_CORNERS` corners.
    """

    layout: str
    n_rows: int
    corners: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if len(self.corners) > MOST_CORNERS:
            raise InputError(f"a lasso may have at most {MOST_CORNERS:,} corners, got {len(self.corners):,}")

    def params(self) -> dict[str, Any]:
        """Return the lasso as JSON."""
        return {"map": self.layout, "rows": self.n_rows, "corners": [list(corner) for corner in self.corners]}

    @classmethod
    def of(cls, params: object) -> Self:
        """Read a lasso back from the JSON that `params` returned.

        Raises
        ------
        InputError
            If the JSON is damaged, or has too many corners.
        """
        try:
            if not isinstance(params, Mapping):
                raise TypeError(f"it must be an object, got {params!r:.80}")
            layout, n_rows = params["map"], params["rows"]
            if not isinstance(layout, str) or type(n_rows) is not int or n_rows < 0:
                raise ValueError(
                    f"it needs a map and its number of rows, got {layout!r:.40} and {n_rows!r:.40}"
                )
            corners = tuple((float(x), float(y)) for x, y in params["corners"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the lasso is damaged: {error}") from error
        return cls(layout, n_rows, corners)

    def items(self, pool: Pool) -> NDArray[np.int64]:
        """Return the items inside the polygon, ascending; `pool` is the newest snapshot of the pool.

        Raises
        ------
        InputError
            If the pool no longer has this map, if the map has fewer than `n_rows` rows, or if the corners
            make no polygon.
        """
        positions = PoolMap.open(pool, self.layout).positions
        if self.n_rows > len(positions):
            raise InputError(
                f"the lasso was drawn on a map with {self.n_rows:,} items, and the map has {len(positions):,}"
            )
        found: NDArray[np.int64] = pool.ids[: self.n_rows][inside(positions[: self.n_rows], self.corners)]
        return found


def select_among(
    pool: Pool,
    items: NDArray[np.int64],
    trained: Trained,
    n: int,
    groups: ItemGroups | None,
    *,
    rule: int,
) -> Selection:
    """Select the `n` items nearest to the hyperplane.

    Equally near items are selected in the order of their ids. Without a hyperplane, all items are selected in
    this order.

    Parameters
    ----------
    pool : Pool
        The pool of the items.
    items : array of shape (n_items,), int64, ascending
        The items to select from.
    trained : Trained
        The model, which may have no hyperplane yet.
    n : int
        Maximum number of items to select.
    groups : ItemGroups or None
        The groups of near-duplicates, if any. None of the selected items is a near-duplicate of another.
    rule : int
        The version of `app.engine.selection_parameters.GROUP_RULE`.

    Raises
    ------
    PoolExhausted
        If there are no items to select from.
    """
    started, plane = time.perf_counter(), trained.hyperplane
    margins = np.zeros(len(items)) if plane is None else RowReader(pool).margins(pool.row_of(items), plane)
    selection = select_smallest(items, margins, n, groups, rule=rule, n_items=len(pool))
    near = np.full(len(selection.ids), math.nan) if plane is None else selection.margins
    scored = 0 if plane is None else len(items)
    return replace(selection, margins=near, seconds=time.perf_counter() - started, scored=scored)
