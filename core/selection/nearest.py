"""The nearest of some rows to a hyperplane: float32 finds them, float64 decides between them.

**Why this equals brute force in float64.** Let u = 2⁻²⁴. A sum of d float32 products, in any order, with w
and b rounded to float32 first, is wrong by at most E = γ(‖x‖‖w‖ + |b|), γ = (d + 3)u / (1 − (d + 3)u), by
Cauchy and Schwarz (Higham, *Accuracy and Stability*, 3.1). Let a be the n-th smallest |wᵀx + b| in float32.
Then the n-th smallest true one is at most a + E, so every true one of the n nearest has a float32 value of
at most a + 2E. Exactly these rows are computed again in float64 (`core.selection.reader`), each by the same
sequence of operations wherever it stands, so that equal rows get equal values, and ties go to the lower id.

The bound holds where nothing overflows or vanishes in float32, so hyperplanes are `balanced` first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane

Floats64 = NDArray[np.float64]
Ids = NDArray[np.int64]

_SMALL = 2.0**-20
_ROW_NORM = 1 + 2.0**-10
"""Rows of a pool are of unit norm, up to rounding, of float16 at worst."""


def balanced(hyperplane: Hyperplane) -> tuple[Hyperplane, float]:
    """The hyperplane with weights that float32 can do with, and the power of two by which they were divided.

    It is the same hyperplane, and its margins have the same digits.
    """
    greatest = max(float(np.abs(hyperplane.normal).max()), abs(hyperplane.bias))
    if not greatest or _SMALL <= greatest <= 1 / _SMALL:
        return hyperplane, 1.0
    unit = 2.0 ** (np.frexp(greatest)[1] - 1)
    return Hyperplane(hyperplane.normal / unit, hyperplane.bias / unit), unit


def float32_error(hyperplane: Hyperplane) -> float:
    """E above: how wrong a float32 wᵀx + b of a unit row can be."""
    units = (len(hyperplane.normal) + 3) * 2.0**-24
    return units / (1 - units) * (_ROW_NORM * hyperplane.norm + abs(hyperplane.bias))


def nearest_first(ids: Ids, margins: Floats64, n: int) -> tuple[Ids, Floats64]:
    """The n smallest margins and their ids; ties by the lower id."""
    order = np.lexsort((ids, margins))[:n]
    return ids[order], margins[order]


def within_reach(margins: NDArray[np.floating], n: int, error: float) -> NDArray[np.int64]:
    """Places of all margins that may belong to the n smallest true ones; infinite ones never do.

    Parameters
    ----------
    margins : array of shape (m,)
        |wᵀx + b|; infinite where a row is not to be had.
    n : int
        How many of the smallest are wanted.
    error : float
        How wrong a margin is at most.
    """
    reach = _not_below_nth(margins, n) + 2 * error
    some = at_most(margins, reach) if np.isfinite(reach) else np.flatnonzero(np.isfinite(margins))
    if len(some) <= n:
        return some
    nth = float(np.partition(margins[some], n - 1)[n - 1])
    return some[at_most(margins[some], nth + 2 * error)]


def at_most(margins: NDArray[np.floating], reach: float) -> NDArray[np.int64]:
    """Places of the margins that are not greater than `reach`, which float32 must not round down."""
    return np.flatnonzero(margins <= np.nextafter(np.float32(reach), np.float32(np.inf)))


def _not_below_nth(margins: NDArray[np.floating], n: int) -> float:
    """A cheap number that at least n margins do not exceed, if so many are finite.

    The n-th smallest itself would take a partition of all; the greatest of the minima of n parts does.
    """
    if n >= len(margins):
        return np.inf
    starts = np.linspace(0, len(margins), n, endpoint=False).astype(np.int64)
    return float(np.minimum.reduceat(margins, starts).max())
