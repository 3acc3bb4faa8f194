"""The items inside a lasso, a polygon that a user draws around a part of the map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError

TESTS_AT_ONCE = 1 << 18
"""Maximum number of pairs of a position and a side per call of matplotlib.

A call takes about half a millisecond, during which no other thread can run.
"""


def inside(positions: ArrayLike, polygon: ArrayLike) -> NDArray[np.bool_]:
    """Return which positions are inside a polygon, by the even-odd rule.

    A position is inside if a ray from it crosses the polygon's sides an odd number of times. An area that the
    polygon encloses twice is therefore outside. A position on a side may count as inside or outside.

    Parameters
    ----------
    positions : array of shape (n, 2)
        The positions.
    polygon : array of shape (n_corners, 2)
        The corners in order. A side from the last corner to the first closes the polygon.

    Returns
    -------
    array of shape (n,), bool

    Raises
    ------
    InputError
        If the polygon has fewer than three corners, or a coordinate is not finite.
    """
    corners = np.asarray(polygon, dtype=np.float64)
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.isfinite(corners).all():
        raise InputError(
            f"a lasso needs at least 3 corners, each of 2 finite coordinates; got shape {corners.shape}"
        )
    places = np.asarray(positions)
    low, high = corners.min(axis=0), corners.max(axis=0)
    found: NDArray[np.bool_] = ((places >= low) & (places <= high)).all(axis=1)
    path, rows = _path()(corners), np.flatnonzero(found)
    block = max(1, TESTS_AT_ONCE // len(corners))
    for first in range(0, len(rows), block):
        some = rows[first : first + block]
        found[some] = path.contains_points(places[some])
    return found


def _path() -> Any:
    try:
        from matplotlib.path import Path
    except ImportError as error:
        raise InputError(
            f'a lasso needs matplotlib, which cannot be imported ({error}): pip install "closecall[map]"'
        ) from error
    return Path
