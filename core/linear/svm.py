"""A linear support vector machine that is solved exactly rather than approximately.

The classifier is the minimizer of

    ½‖w‖² + ½b² + Σᵢ Cᵢ max(0, 1 − yᵢ(wᵀxᵢ + b)),

the objective of scikit-learn's ``LinearSVC(loss="hinge", dual=True, intercept_scaling=1)``: the bias is the
weight of an appended 1 and is regularized like the other weights. With aᵢ = yᵢ[xᵢ, 1], the dual is a
quadratic program in a box, max Σαᵢ − ½‖Σαᵢaᵢ‖² with 0 ≤ αᵢ ≤ Cᵢ, and w is unique. Labels selected at the
margin make it hard, because nearly all of them are support vectors. It is solved in three steps:

1. *Sides.* Dual coordinate descent with shrinking (Hsieh et al., ICML 2008) in float32 quickly finds for
   nearly every label whether its αᵢ is 0, Cᵢ, or free in between.
2. *Pivots.* A primal-feasible active-set method in float64 (Nocedal & Wright, algorithm 16.3, the constraints
   being a box) corrects the remaining sides, one face of the box at a time, until every label meets its
   optimality condition within `TOLERANCE`. The dual objective increases from face to face, so the method
   terminates.
3. *Numbers.* The free αᵢ are solved for again, from the sides alone, in the order of the ids and in plain
   IEEE arithmetic, without reassociation, fused operations or BLAS. The weights are therefore the same to the
   last bit for any order of the labels, any number of threads and every machine, however steps 1 and 2 found
   the sides. (If several sides are optimal, as with one image labeled under two ids, the last bits may depend
   on the kind of machine.)

Sparse rows are rotated first (`core.numerics.gram_rotation`). The dual only depends on inner products, so n
labels are a dense problem of n features with the same α, and w = Σαᵢyᵢxᵢ over the vocabulary. The rotation is
computed in float64, so that the labels meet their conditions within the same tolerance.

The kernels run on one thread with the GIL released.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numba import carray  # type: ignore[attr-defined]
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.gram_rotation import combination, rotated
from closecall.core.numerics.jit import fast_kernel, pointer, prefetch, strict_kernel
from closecall.core.numerics.rows import PlacedRows, Rows, as_sparse, is_sparse

ClassWeight = Literal["balanced"] | None
Float32s = NDArray[np.float32]
Float64s = NDArray[np.float64]
Index = int | np.intp

TOLERANCE = 1e-9
"""Tolerance of the optimality conditions.

It limits how far yᵢ(wᵀxᵢ + b) may lie on the wrong side of 1 if αᵢ is 0 or Cᵢ, and from 1 if αᵢ is free. If
ΣCᵢ‖aᵢ‖² exceeds 2·10⁵ (for unit rows, if ΣCᵢ exceeds 10⁵), the tolerance is 5·10⁻¹⁵ΣCᵢ‖aᵢ‖² instead, because
the margins are rounded.
"""

DEFAULT_C = 10.0
"""Within 0.1 points of the best C in held-out accuracy, after 50 to 500 labels selected at the margin.

GIST rows of unit norm all point in about the same direction: C ≤ 1 underfits on few labels, and C ≥ 30 gains
nothing.
"""

DEFAULT_CLASS_WEIGHT: ClassWeight = None
"""Selection at the margin balances the labels by itself; "balanced" gained nothing at any C."""

# Relative ridge on the diagonal of a face's Gram matrix. It makes dependent labels push each other to a
# bound.
_RIDGE = 1e-10
_PASSES = 500
_PASS_TOLERANCE = 1e-4
_ENTERING = 8
_STEPS_A_LABEL = 20
_AHEAD = 2  # rows that are requested before they are read
_LINE = 16  # float32 values in a cache line


class Solution(NamedTuple):
    """The optimum of the primal and of the dual problem.

    Parameters
    ----------
    weights : array of shape (n_features + 1,), float64
        w, followed by the bias.
    alpha : array of shape (n_labels,), float64
        The dual variables, in the order in which the labels were given.
    """

    weights: Float64s
    alpha: Float64s


def train(
    X: Rows | PlacedRows,
    y: ArrayLike,
    ids: ArrayLike,
    *,
    C: float = DEFAULT_C,
    class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT,
) -> Hyperplane:
    """Return the hyperplane of the support vector machine for these labels.

    The hyperplane depends only on the set of labels {(id, row, answer)}, C and class_weight. The order of the
    labels and the number of threads do not change a single bit.

    Parameters
    ----------
    X : array of shape (n_labels, n_features), float32, csr_array, or PlacedRows
        One row per label.
    y : array of shape (n_labels,), bool
        True for yes.
    ids : array of shape (n_labels,), int64
        Distinct item ids; they only determine the order of summation.
    C : float
        The cost of violating a margin by 1.
    class_weight : "balanced" or None
        "balanced" multiplies C by n_labels / (2 n_class), so that both classes have the same total weight.

    Raises
    ------
    InputError
        If shapes disagree, an id is repeated, a value is not finite, C is not positive or so large that the
        solver does not converge, class_weight is unknown, or the labels are all yes or all no.
    """
    if not isinstance(X, PlacedRows):
        X = as_sparse(X) if is_sparse(X) else np.asarray(X, dtype=np.float32)
    y = np.asarray(y, dtype=np.bool_)
    ids = np.asarray(ids, dtype=np.int64)
    if len(X.shape) != 2 or y.shape != X.shape[:1] or ids.shape != X.shape[:1]:
        raise InputError(
            f"X, y and ids must have shapes (n, d), (n,) and (n,), got {X.shape}, {y.shape} and {ids.shape}"
        )
    order = np.argsort(ids, kind="stable")
    twice = np.flatnonzero(np.diff(ids[order]) == 0)
    if twice.size:
        raise InputError(f"item {ids[order[twice[0]]]} is labeled twice: every id must be unique")
    weights = solve(_in_order(X, order), y[order], C=C, class_weight=class_weight).weights
    return Hyperplane(weights[:-1], float(weights[-1]))


def _in_order(X: Rows | PlacedRows, order: NDArray[np.int64]) -> Rows | PlacedRows:
    """Return the rows in this order, without a copy if they are dense."""
    if isinstance(X, PlacedRows):
        return X.in_order(order)
    return X[order] if is_sparse(X) else PlacedRows.of(X).in_order(order)


def box(y: NDArray[np.bool_], C: float, class_weight: ClassWeight) -> Float64s:
    """Return Cᵢ, the upper bound of every αᵢ, of shape (n_labels,); raises InputError as `train` does."""
    if not (np.isfinite(C) and C > 0):
        raise InputError(f"C must be a positive number, got {C}")
    if class_weight not in (None, "balanced"):
        raise InputError(f'class_weight must be None or "balanced", got {class_weight!r}')
    yes = int(np.count_nonzero(y))
    no = len(y) - yes
    if yes == 0 or no == 0:
        raise InputError(f"a hyperplane needs at least one yes and one no, got {yes} yes and {no} no")
    if class_weight is None:
        return np.full(len(y), float(C))
    return np.where(y, C * len(y) / (2 * yes), C * len(y) / (2 * no))


def solve(
    X: Rows | PlacedRows,
    y: NDArray[np.bool_],
    *,
    C: float = DEFAULT_C,
    class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT,
) -> Solution:
    """Return both optima, for labels in the given order; arguments and errors are those of `train`."""
    upper = box(y, C, class_weight)
    if isinstance(X, PlacedRows):
        return Solution(*_optimum(X, X, y, C, upper)[:2])
    if not is_sparse(X):
        return solve(PlacedRows.of(X), y, C=C, class_weight=class_weight)
    Z = rotated(X)
    weights, alpha, exact = _optimum(PlacedRows.of(Z), PlacedRows.of(Z.astype(np.float32)), y, C, upper)
    normal = combination(np.where(y, exact, -exact), X)
    return Solution(np.append(normal, weights[-1]), alpha)


def _optimum(
    X: PlacedRows, rough: PlacedRows, y: NDArray[np.bool_], C: float, upper: Float64s
) -> tuple[Float64s, Float64s, Float64s]:
    """Return the weights, α with exact sides, and α that is exact but may lie outside the box by rounding.

    `rough` has the same rows in float32.
    """
    n, d = X.shape
    signs = np.where(y, 1.0, -1.0)
    A, a = _Signed(X.places, signs, _typed(X)), _Signed(rough.places, signs, _typed(rough))
    squares = _squares(A, d)
    if not np.isfinite(squares).all():
        raise InputError(f"row {np.flatnonzero(~np.isfinite(squares))[0]} of X is not finite")
    alpha = np.zeros(n)
    _sides(a, d, squares, upper, alpha, _PASSES, _PASS_TOLERANCE)
    _thin_out(alpha, upper, _free_at_most(d))
    tolerance = max(TOLERANCE, 5e-15 * float(upper @ squares))
    steps = _STEPS_A_LABEL * (n + 100)
    if not _pivots(A, d, squares, upper, alpha, tolerance, steps):
        raise InputError(f"C = {C} is too large for {n} labels: no hyperplane was found in {steps:,} steps")
    weights, exact = _numbers(A, d, upper, alpha)
    return weights, alpha, exact


class _Signed(NamedTuple):
    """The rows aᵢ = yᵢ[xᵢ, 1], as the places of the xᵢ, their yᵢ = ±1, and an array of the type of the xᵢ."""

    places: NDArray[np.uintp]
    signs: Float64s
    typed: Float32s | Float64s


def _typed(X: PlacedRows) -> Float32s | Float64s:
    return np.empty(0, dtype=X.owners[0].dtype if X.owners else np.float32)


@strict_kernel
def _free_at_most(d: int) -> int:
    """Return how many labels may be free: d + 1 where no rows are dependent, and some more where some are."""
    return -(-(d + 1) // _LINE) * _LINE


def _thin_out(alpha: Float64s, upper: Float64s, most: int) -> None:
    """Move all but the `most` innermost free αᵢ to their nearer bound; an optimum needs no more of them."""
    inside = np.minimum(alpha, upper - alpha) / upper
    others = np.argsort(-inside, kind="stable")[most:]
    alpha[others] = np.where(alpha[others] < upper[others] / 2, 0.0, upper[others])


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
    """Prefetch the row: rows of a mapped pool lie apart, so each would otherwise be waited for."""
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


@strict_kernel
def _squares(A: _Signed, d: int) -> Float64s:
    """Return ‖aᵢ‖² of every row."""
    squares = np.ones(A.places.shape[0])
    for i in range(A.places.shape[0]):
        x = carray(pointer(A.places[i], A.typed), (d,))
        for j in range(d):
            squares[i] += np.float64(x[j]) * np.float64(x[j])
    return squares


@strict_kernel
def _combine(A: _Signed, d: int, alpha: Float64s) -> Float64s:
    """Return Σαᵢaᵢ, summed in the order of the rows."""
    w = np.zeros(d + 1)
    for i in range(alpha.shape[0]):
        if alpha[i] != 0.0:
            _add_row(A, i, d, alpha[i], w)
    return w


@strict_kernel
def _sides(
    A: _Signed,
    d: int,
    squares: Float64s,
    upper: Float64s,
    alpha: Float64s,
    passes: int,
    tolerance: float,
) -> None:
    """Run dual coordinate descent from alpha = 0, in place.

    It ends when all projected gradients of a pass are within `tolerance` of each other, or after `passes`
    passes. Labels at a bound that the last pass gave no reason to leave are left out (shrinking) and checked
    again before the end.
    """
    n = alpha.shape[0]
    w = np.zeros(d + 1, dtype=np.float32)
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
    A: _Signed,
    d: int,
    squares: Float64s,
    i: Index,
    face: NDArray[np.int64],
    f: int,
    L: Float64s,
    row: Float64s,
) -> None:
    """Add label i to a face of f labels: append a row to the Cholesky factor of its Gram matrix."""
    # Assigned number by number: for a slice, Numba compiles the error of unequal shapes too, in seconds.
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
    """Remove the k-th of f labels from the face.

    Its row is deleted, and Givens rotations make L triangular again.
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
def _pivots(
    A: _Signed, d: int, squares: Float64s, upper: Float64s, alpha: Float64s, tolerance: float, most: int
) -> bool:
    """Run the active-set method from a feasible alpha, in place; False if `most` steps are not enough.

    A face contains the free labels. At its optimum all their margins are 1. Step towards it as far as the box
    allows; labels that reach a bound leave the face. At the optimum, the labels that violate their condition
    most join the face.
    """
    n, p = alpha.shape[0], d + 1
    capacity = min(n, 2 * _free_at_most(d) + _ENTERING)
    face = np.zeros(capacity, dtype=np.int64)
    L = np.zeros((capacity, capacity))
    row, step = np.empty(p), np.empty(capacity)
    on_face = (alpha > 0.0) & (alpha < upper)
    f = 0
    for inside in np.flatnonzero(on_face):
        _append(A, d, squares, inside, face, f, L, row)
        f += 1
    w = _combine(A, d, alpha)
    violation = np.empty(n)
    for _ in range(most):
        worst = 0.0
        for k in range(f):
            step[k] = 1.0 - _margin(A, face[k], d, w)
            worst = max(worst, abs(step[k]))
        if worst > 0.1 * tolerance:
            _solve(L, f, step)
            theta = 1.0
            for k in range(f):
                i = face[k]
                room = upper[i] - alpha[i] if step[k] > 0.0 else alpha[i]
                if room < theta * abs(step[k]):
                    theta = room / abs(step[k])
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
        entering = 0
        for i in range(n):
            violation[i] = 0.0
            _request(A, min(i + _AHEAD, n - 1), d)
            if not on_face[i]:
                margin = _margin(A, i, d, w)
                violation[i] = 1.0 - margin if alpha[i] == 0.0 else margin - 1.0
                entering += violation[i] > tolerance
        if entering == 0:
            return True
        for _ in range(min(entering, _ENTERING, capacity - f)):
            joining = np.argmax(violation)
            violation[joining] = 0.0
            _append(A, d, squares, joining, face, f, L, row)
            on_face[joining] = True
            f += 1
    return False


@strict_kernel
def _numbers(A: _Signed, d: int, upper: Float64s, alpha: Float64s) -> tuple[Float64s, Float64s]:
    """Return the weights and αᵢ, computed from the sides alone.

    Labels at their upper bound contribute Cᵢaᵢ, and labels on the face have margins of 1.
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
    for j in range(p):
        for k in range(f):
            _add(columns[j, k], columns[j, : k + 1], L[k, : k + 1])
    for k in range(f):
        L[k, k] *= 1.0 + _RIDGE
    column = np.empty(f)
    for k in range(f):
        L[k, k] = np.sqrt(L[k, k])
        for r in range(k + 1, f):
            L[r, k] /= L[k, k]
            column[r] = L[r, k]
        for r in range(k + 1, f):
            _add(-column[r], column[k + 1 : r + 1], L[r, k + 1 : r + 1])
    residual = np.empty(f)
    before = np.inf
    while True:
        residual[:] = 1.0
        for j in range(p):
            _add(-w[j], columns[j], residual)
        worst = np.abs(residual).max() if f else 0.0
        if not worst < before / 2:
            return w, exact
        before = worst
        _solve(L, f, residual)
        for k in range(f):
            _add_row(A, face[k], d, residual[k], w)
            exact[face[k]] += residual[k]
