"""The rows nearest to a hyperplane: float32 finds candidates, and float64 ranks them.

**Why this equals brute force in float64.** Let d be the number of features, u = 2⁻²⁴, and
γ = ku / (1 − ku) with k = d + 3. Let w and b be rounded to float32, and let the d products be summed in
float32 in any order. By the Cauchy–Schwarz inequality, the error of wᵀx + b is at most E = γ(‖x‖‖w‖ + |b|)
(Higham, *Accuracy and Stability*, 3.1). Let a be the n-th smallest |wᵀx + b| in float32. Then the n-th
smallest exact value is at most a + E, so each of the n nearest rows has a float32 value of at most a + 2E.
All rows with a float32 value of at most a + 2E are recomputed in float64 (`core.selection.reader`). The
sequence of operations does not depend on where a row is stored, so equal rows get equal values. Ties go to
the lower id.

In a byte pool, up to `FINE` coordinates consist of two terms (see `core.quantization.codebook`), and the
centre adds another. For all pools, k = d + min(d, `FINE`) + 4 is therefore used.

The bound holds if nothing overflows or underflows in float32, so hyperplanes are `balanced` first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.quantization.codebook import FINE

Floats64 = NDArray[np.float64]
Ids = NDArray[np.int64]

_SMALL = 2.0**-20
_ROW_NORM = 3.0
"""Upper bound on the norm of the rows of a pool, which are unit rows, and of the sums that compute a score.

In a byte pool, wᵀx is computed as wᵀμ + uᵀp (see `core.quantization.codebook`), and ‖p‖ ≤ ‖x‖ + ‖μ‖ ≤ 2,
apart from rounding.
"""


def balanced(hyperplane: Hyperplane) -> tuple[Hyperplane, float]:
    """Return the hyperplane divided by a power of two, so that float32 does not overflow, and the divisor.

    The divisor is 1 if the largest coefficient is from 2⁻²⁰ to 2²⁰. Otherwise, the largest coefficient is
    between 1 and 2 after the division. The set of points on the hyperplane does not change, and margins keep
    their significant digits.
    """
    greatest = max(float(np.abs(hyperplane.normal).max()), abs(hyperplane.bias))
    if not greatest or _SMALL <= greatest <= 1 / _SMALL:
        return hyperplane, 1.0
    unit = 2.0 ** (np.frexp(greatest)[1] - 1)
    return Hyperplane(hyperplane.normal / unit, hyperplane.bias / unit), unit


def float32_error(hyperplane: Hyperplane) -> float:
    """Return E, the bound on the float32 error of wᵀx + b for any row; see the module's docstring."""
    d = len(hyperplane.normal)
    units = (d + min(d, FINE) + 4) * 2.0**-24
    return units / (1 - units) * (_ROW_NORM * hyperplane.norm + abs(hyperplane.bias))


def rounding_error(hyperplane: Hyperplane) -> float:
    """Return a bound on |wᵀx − wᵀx̂| if x̂ is a row x of norm at most 1.1, rounded to float32.

    ‖x − x̂‖ ≤ u‖x‖. Sums in float64 add much less than the last tenth of the bound.
    """
    return 1.2 * 2.0**-24 * hyperplane.norm + 2.0**-40 * abs(hyperplane.bias)


def nearest_first(ids: Ids, margins: Floats64, n: int) -> tuple[Ids, Floats64]:
    """Return the ids with the n smallest margins, and these margins, ascending; ties go to the lower id."""
    order = np.lexsort((ids, margins))[:n]
    return ids[order], margins[order]


def within_reach(margins: NDArray[np.floating], n: int, error: float) -> NDArray[np.int64]:
    """Return the positions of all finite margins whose exact values may be among the n smallest.

    Parameters
    ----------
    margins : array of shape (m,)
        |wᵀx + b|; infinite for rows that cannot be selected.
    n : int
        Number of smallest margins to find.
    error : float
        Upper bound on the error of a margin.

    Returns
    -------
    array of int64
    """
    reach = _not_below_nth(margins, n) + 2 * error
    some = at_most(margins, reach) if np.isfinite(reach) else np.flatnonzero(np.isfinite(margins))
    if len(some) <= n:
        return some
    nth = float(np.partition(margins[some], n - 1)[n - 1])
    return some[at_most(margins[some], nth + 2 * error)]


def at_most(margins: NDArray[np.floating], reach: float) -> NDArray[np.int64]:
    """Return the positions of margins that are at most `reach`, after `reach` is rounded up to float32."""
    return np.flatnonzero(margins <= np.nextafter(np.float32(reach), np.float32(np.inf)))


def _not_below_nth(margins: NDArray[np.floating], n: int) -> float:
    """Return an upper bound on the n-th smallest margin, possibly infinite.

    The bound is the largest of the minima of n parts of the array. Computing it takes less time than finding
    the n-th smallest margin.
    """
    if n >= len(margins):
        return np.inf
    starts = np.linspace(0, len(margins), n, endpoint=False).astype(np.int64)
    return float(np.minimum.reduceat(margins, starts).max())
