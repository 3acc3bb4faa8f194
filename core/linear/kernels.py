"""Inner loops of the support vector machine, compiled by Numba: the three steps of `core.linear.svm`.

The loops run on one thread with the GIL released.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray  # type: ignore[attr-defined]
from numpy.typing import NDArray

from closecall.core.numerics.jit import fast_kernel, pointer, prefetch, strict_kernel

Float32s = NDArray[np.float32]
Float64s = NDArray[np.float64]
Index = int | np.intp

# Relative increase of the diagonal of the Gram matrix of a face (see `pivots`), so that the matrix has a
# Cholesky factor even if the rows of the labels are linearly dependent.
_RIDGE = 1e-10
_ENTERING = 8
_REFINEMENTS = 20  # maximum number of further steps if the labels that joined a face can't move; see `pivots`
_AHEAD = 2  # number of rows by which prefetching is ahead of reading
_LINE = 16  # float32 values in a cache line


class Signed(NamedTuple):
    """The rows aᵢ = yᵢ[xᵢ, 1] of all labels i, without a copy of the xᵢ.

    `places` has the memory address of each xᵢ, `signs` has yᵢ = ±1, and `typed` is any array with the dtype
    of the xᵢ.
    """

    places: NDArray[np.uintp]
    signs: Float64s
    typed: Float32s | Float64s


@strict_kernel
def free_at_most(d: int) -> int:
    """Return the maximum number of free labels, which have 0 < α < C, for rows of d features.

    The rows of free labels should be linearly independent. With the bias, a row has d + 1 entries, so at most
    d + 1 rows are independent. This number is rounded up to a multiple of 16, which leaves room for a few
    dependent rows.
    """
    return -(-(d + 1) // _LINE) * _LINE


@fast_kernel
def _dot(a, b):  # type: ignore[no-untyped-def]
    """Return aᵀb in the precision of b."""
    total = b.dtype.type(0)
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@fast_kernel
def _margin(A, i, d, w):  # type: ignore[no-untyped-def]
    """Return aᵢᵀw, summed in the precision of w."""
    return A.signs[i] * np.float64(_dot(carray(pointer(A.places[i], A.typed), (d,)), w) + w[d])


@strict_kernel
def _request(A, i, d):  # type: ignore[no-untyped-def]
    """Prefetch row i, because the rows of a memory-mapped pool are scattered and slow to reach."""
    coming = carray(pointer(A.places[i], A.typed), (1, d))
    for j in range(0, d, _LINE):
        prefetch(coming, 0, j)


@strict_kernel
def _add(scale: float | np.floating, a: Float32s | Float64s, out: Float32s | Float64s) -> None:
    """Add scale·a to out."""
    for j in range(a.shape[0]):
        out[j] += scale * a[j]


@strict_kernel
def _add_row(A, i, d, scale, out):  # type: ignore[no-untyped-def]
    """Add scale·aᵢ to out, in the precision of out."""
    signed = out.dtype.type(A.signs[i] * scale)
    _add(signed, carray(pointer(A.places[i], A.typed), (d,)), out)
    out[d] += signed


@fast_kernel
def _squared(a):  # type: ignore[no-untyped-def]
    """Return ‖a‖² in float64."""
    total = 0.0
    for j in range(a.shape[0]):
        total += np.float64(a[j]) * np.float64(a[j])
    return total


@strict_kernel
def squared_norms(A: Signed, d: int) -> Float64s:
    """Return ‖aᵢ‖² of every row. The weights do not depend on the last bits of these numbers."""
    n = A.places.shape[0]
    squares = np.ones(n)
    for i in range(n):
        _request(A, min(i + _AHEAD, n - 1), d)
        squares[i] += _squared(carray(pointer(A.places[i], A.typed), (d,)))
    return squares


@strict_kernel
def _combine(A: Signed, d: int, alpha: Float64s) -> Float64s:
    """Return Σαᵢaᵢ, summed in the order of the rows."""
    w = np.zeros(d + 1)
    for i in range(alpha.shape[0]):
        if alpha[i] != 0.0:
            _add_row(A, i, d, alpha[i], w)
    return w


@strict_kernel
def sides(
    A: Signed,
    d: int,
    squares: Float64s,
    upper: Float64s,
    alpha: Float64s,
    passes: int,
    tolerance: float,
) -> None:
    """Run dual coordinate descent from a feasible alpha, in place.

    The descent ends when all projected gradients of a pass over all labels are within `tolerance` of each
    other, or after `passes` passes. To save time, some labels are left out of further passes (shrinking). A
    label is left out if it is at a bound, and its gradient points out of the box and lies beyond all
    projected gradients of the previous pass.
    """
    n = alpha.shape[0]
    w = np.zeros(d + 1, dtype=np.float32)
    for i in range(n):
        if alpha[i] != 0.0:
            _add_row(A, i, d, alpha[i], w)
    active = np.arange(n)
    m = n
    state = np.uint64(88172645463325252)
    highest_before, lowest_before = np.inf, -np.inf
    for _ in range(passes):
        for k in range(m):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            other = k + np.int64(state % np.uint64(m - k))
            active[k], active[other] = active[other], active[k]
        highest, lowest = -np.inf, np.inf
        k = 0
        while k < m:
            i = active[k]
            _request(A, active[min(k + _AHEAD, n - 1)], d)
            gradient = _margin(A, i, d, w) - 1.0
            at_zero, at_upper = alpha[i] == 0.0, alpha[i] == upper[i]
            if (at_zero and gradient > highest_before) or (at_upper and gradient < lowest_before):
                m -= 1
                active[k], active[m] = active[m], i
                continue
            projected = min(gradient, 0.0) if at_zero else max(gradient, 0.0) if at_upper else gradient
            highest, lowest = max(highest, projected), min(lowest, projected)
            if projected != 0.0:
                old = alpha[i]
                alpha[i] = min(max(old - gradient / squares[i], 0.0), upper[i])
                _add_row(A, i, d, alpha[i] - old, w)
            k += 1
        if highest - lowest >= tolerance:
            highest_before = highest if highest > 0.0 else np.inf
            lowest_before = lowest if lowest < 0.0 else -np.inf
        elif m < n:
            m = n
            highest_before, lowest_before = np.inf, -np.inf
        else:
            return


@strict_kernel
def _append(
    A: Signed,
    d: int,
    squares: Float64s,
    i: Index,
    face: NDArray[np.int64],
    f: int,
    L: Float64s,
    row: Float64s,
) -> None:
    """Add label i to the f free labels in `face`, and a row to the Cholesky factor L of their Gram matrix."""
    # Numbers are assigned one by one. For a slice, Numba would also compile the error for unequal shapes,
    # which takes seconds.
    for j in range(row.shape[0]):
        row[j] = 0.0
    _add_row(A, i, d, 1.0, row)
    for k in range(f):
        L[f, k] = (_margin(A, face[k], d, row) - _dot(L[k, :k], L[f, :k])) / L[k, k]
    pivot = squares[i] * (1.0 + _RIDGE) - _dot(L[f, :f], L[f, :f])
    L[f, f] = np.sqrt(max(pivot, _RIDGE * squares[i]))
    face[f] = i


@strict_kernel
def _remove(face: NDArray[np.int64], f: int, k: int, L: Float64s) -> None:
    """Remove the k-th of the f free labels in `face`.

    The row of this label is deleted from the Cholesky factor L, and Givens rotations make L triangular again.
    """
    for r in range(k, f - 1):
        face[r] = face[r + 1]
        for c in range(r + 2):
            L[r, c] = L[r + 1, c]
    for c in range(k, f - 1):
        length = np.hypot(L[c, c], L[c, c + 1])
        cosine, sine = L[c, c] / length, L[c, c + 1] / length
        for r in range(c, f - 1):
            left, right = L[r, c], L[r, c + 1]
            L[r, c] = cosine * left + sine * right
            L[r, c + 1] = cosine * right - sine * left


@strict_kernel
def _solve(L: Float64s, f: int, x: Float64s) -> None:
    """Solve LLᵀz = x with the leading f × f part of L; z replaces x."""
    for k in range(f):
        for j in range(k):
            x[k] -= L[k, j] * x[j]
        x[k] /= L[k, k]
    for k in range(f - 1, -1, -1):
        x[k] /= L[k, k]
        for j in range(k):
            x[j] -= L[k, j] * x[k]


@strict_kernel
def _violation(A, i, d, w, alpha):  # type: ignore[no-untyped-def]
    """Return by how much a label with α = 0 or α = C violates its optimality condition."""
    margin = _margin(A, i, d, w)
    return 1.0 - margin if alpha[i] == 0.0 else margin - 1.0


@strict_kernel
def pivots(
    A: Signed,
    d: int,
    squares: Float64s,
    upper: Float64s,
    alpha: Float64s,
    tolerance: float,
    most: int,
    passes: int,
    nearness: float,
) -> float:
    """Run the active-set method from a feasible alpha, in place.

    The face is the set of free labels, with 0 < αᵢ < Cᵢ. At the optimum of a face, the margins of its labels
    are all 1. Each step moves alpha towards this optimum as far as the box allows, and labels that reach a
    bound leave the face. When the optimum is reached, the labels that most violate their optimality condition
    join the face.

    The optimum counts as reached when the margins are 1 within a tenth of the tolerance. The remaining errors
    of the margins may send all labels that have just joined back to their bounds before any label moves. To
    keep this from repeating for ever, the optimum is then refined before labels join again.

    A pass over all labels finds the labels that violate their condition, and the labels that meet it by less
    than `nearness`. From then on, only these labels are checked, until none of them violates its condition.
    Then another pass follows. With a `nearness` of −∞, each optimum of a face is followed by a pass.

    The method ends when a pass finds that all labels meet their optimality conditions within `tolerance`. It
    gives up after `most` steps, or when `passes` + 1 passes have found violations.

    Returns
    -------
    float
        The greatest amount by which a label with α = 0 or α = C violates its optimality condition. Negative
        if all these labels meet their conditions with room to spare. Infinite if the method has not reached
        the optimum; alpha is feasible even then.
    """
    n, p = alpha.shape[0], d + 1
    capacity = min(n, 2 * free_at_most(d) + _ENTERING)
    face = np.zeros(capacity, dtype=np.int64)
    L = np.empty((capacity, capacity))  # megabytes, of which only the leading lower triangle is used
    row, step = np.empty(p), np.empty(capacity)
    on_face = (alpha > 0.0) & (alpha < upper)
    f = 0
    for inside in np.flatnonzero(on_face):
        _append(A, d, squares, inside, face, f, L, row)
        f += 1
    w = _combine(A, d, alpha)
    violation = np.empty(n)
    near, n_near = np.empty(n, dtype=np.int64), 0
    has_moved, refinements = True, 0
    for _ in range(most):
        worst = 0.0
        for k in range(f):
            step[k] = 1.0 - _margin(A, face[k], d, w)
            worst = max(worst, abs(step[k]))
        if worst > 0.1 * tolerance or (worst > 0.0 and refinements > 0):
            refinements -= 1
            _solve(L, f, step)
            theta = 1.0
            for k in range(f):
                i = face[k]
                room = upper[i] - alpha[i] if step[k] > 0.0 else alpha[i]
                if room < theta * abs(step[k]):
                    theta = room / abs(step[k])
            has_moved |= theta > 0.0
            for k in range(f - 1, -1, -1):
                i = face[k]
                old = alpha[i]
                room = upper[i] - old if step[k] > 0.0 else old
                if step[k] == 0.0 or theta * abs(step[k]) < room * (1.0 - 1e-12):
                    alpha[i] = old + theta * step[k]
                else:
                    alpha[i] = upper[i] if step[k] > 0.0 else 0.0
                    _remove(face, f, k, L)
                    on_face[i] = False
                    f -= 1
                _add_row(A, i, d, alpha[i] - old, w)
            continue
        if not has_moved:
            has_moved, refinements = True, _REFINEMENTS
            continue
        entering = 0
        for c in range(n_near):
            i = near[c]
            violation[i] = -np.inf if on_face[i] else _violation(A, i, d, w, alpha)
            entering += violation[i] > tolerance
        if entering == 0:
            greatest, n_near = -np.inf, 0
            for i in range(n):
                _request(A, min(i + _AHEAD, n - 1), d)
                violation[i] = -np.inf if on_face[i] else _violation(A, i, d, w, alpha)
                entering += violation[i] > tolerance
                greatest = max(greatest, violation[i])
                if violation[i] > -nearness:
                    near[n_near] = i
                    n_near += 1
            if entering == 0:
                return greatest
            if passes == 0:
                break
            passes -= 1
        for _ in range(min(entering, _ENTERING, capacity - f)):
            joining = np.argmax(violation)
            violation[joining] = -np.inf
            _append(A, d, squares, joining, face, f, L, row)
            on_face[joining] = True
            f += 1
        has_moved, refinements = False, 0
    return np.inf


@strict_kernel
def _add_four(scale, a, b, c, e, out):  # type: ignore[no-untyped-def]
    """Add scale[0]·a, scale[1]·b, scale[2]·c and scale[3]·e to out, one after the other."""
    for j in range(out.shape[0]):
        out[j] = out[j] + scale[0] * a[j] + scale[1] * b[j] + scale[2] * c[j] + scale[3] * e[j]


@strict_kernel
def _gram(columns: Float64s, L: Float64s) -> None:
    """Add the Gram matrix of f vectors to the lower triangle of L.

    The vectors are the columns of `columns`, of shape (p, f). The p products of each entry are added in the
    order of the coordinates. Four are added per pass over L, so that L is read into the cache less often.
    """
    p, f = columns.shape
    whole = p - p % 4
    for j in range(0, whole, 4):
        for k in range(f):
            _add_four(
                (columns[j, k], columns[j + 1, k], columns[j + 2, k], columns[j + 3, k]),
                columns[j, : k + 1],
                columns[j + 1, : k + 1],
                columns[j + 2, : k + 1],
                columns[j + 3, : k + 1],
                L[k, : k + 1],
            )
    for j in range(whole, p):
        for k in range(f):
            _add(columns[j, k], columns[j, : k + 1], L[k, : k + 1])


@strict_kernel
def _factor(L: Float64s) -> None:
    """Replace the lower triangle of L by its Cholesky factor.

    From each entry, the contributions of the columns are subtracted in column order, four columns at a time.
    """
    f = L.shape[0]
    panel = np.empty((4, f))
    for first in range(0, f, 4):
        end = min(first + 4, f)
        for k in range(first, end):
            L[k, k] = np.sqrt(L[k, k])
            for r in range(k + 1, f):
                L[r, k] /= L[k, k]
                panel[k - first, r] = L[r, k]
                for c in range(k + 1, min(end, r + 1)):
                    L[r, c] -= L[r, k] * L[c, k]
        for r in range(end, f):
            _add_four(
                (-panel[0, r], -panel[1, r], -panel[2, r], -panel[3, r]),
                panel[0, end : r + 1],
                panel[1, end : r + 1],
                panel[2, end : r + 1],
                panel[3, end : r + 1],
                L[r, end : r + 1],
            )


@strict_kernel
def numbers(
    A: Signed, d: int, upper: Float64s, alpha: Float64s
) -> tuple[Float64s, Float64s, NDArray[np.int64], Float64s]:
    """Return the weights and the αᵢ, computed only from the side of each label.

    A label has one of three sides: αᵢ = 0, αᵢ = Cᵢ, or αᵢ free in between. The weights are Σαᵢaᵢ, and the
    free αᵢ make the margins of their labels equal to 1. The free labels, and the Cholesky factor of their
    Gram matrix, are returned, too.
    """
    p = d + 1
    exact = np.where(alpha >= upper, upper, 0.0)
    w = _combine(A, d, exact)
    face = np.flatnonzero((alpha > 0.0) & (alpha < upper))
    f = face.shape[0]
    columns, row = np.empty((p, f)), np.empty(p)
    for k in range(f):
        row[:] = 0.0
        _add_row(A, face[k], d, 1.0, row)
        for j in range(p):
            columns[j, k] = row[j]
    L = np.zeros((f, f))
    _gram(columns, L)
    for k in range(f):
        L[k, k] *= 1.0 + _RIDGE
    _factor(L)
    residual = np.empty(f)
    before = np.inf
    while True:
        residual[:] = 1.0
        for j in range(p):
            _add(-w[j], columns[j], residual)
        worst = np.abs(residual).max() if f else 0.0
        if not worst < before / 2:
            return w, exact, face, L
        before = worst
        _solve(L, f, residual)
        for k in range(f):
            _add_row(A, face[k], d, residual[k], w)
            exact[face[k]] += residual[k]
