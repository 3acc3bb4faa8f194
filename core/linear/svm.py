"""A linear support vector machine that is solved exactly rather than approximately.

The classifier is the minimizer of

    ½‖w‖² + ½b² + Σᵢ Cᵢ max(0, 1 − yᵢ(wᵀxᵢ + b)),

the objective of scikit-learn's ``LinearSVC(loss="hinge", dual=True, intercept_scaling=1)``: the bias is the
weight of an appended 1 and is regularized like the other weights. With aᵢ = yᵢ[xᵢ, 1], the dual is a
quadratic program in a box: maximize Σαᵢ − ½‖Σαᵢaᵢ‖² subject to 0 ≤ αᵢ ≤ Cᵢ. The optimal w is unique. Labels
selected at the margin make the program hard, because nearly all of them are support vectors. The program is
solved in three steps:

1. *Sides.* A label has one of three sides: αᵢ = 0, αᵢ = Cᵢ, or αᵢ free in between. Dual coordinate descent
   with shrinking (Hsieh et al., ICML 2008) in float32 quickly finds the sides of nearly all labels.
2. *Pivots.* A primal-feasible active-set method in float64 (Nocedal & Wright, algorithm 16.3, with a box as
   the constraints) corrects the remaining sides, one face of the box at a time, until every label meets its
   optimality condition within `TOLERANCE`. The dual objective increases from face to face, so the method
   terminates.
3. *Numbers.* The free αᵢ are computed again, from the sides alone. All sums are taken in the order of the
   ids, in plain IEEE arithmetic without reassociation, fused operations or BLAS. The weights are therefore
   the same to the last bit for any order of the labels, any number of threads and every machine. There is
   one exception: if the optimal sides are not unique, for example because one image is labeled under two ids,
   the last bits may depend on the kind of machine.

Training may start from the dual variables of an earlier solution (`Dual`). The active-set method then begins
with the earlier sides. If only a few labels have changed, it ends after a few faces. If the method does not
end soon, coordinate descent continues from the α that it has reached. The result is the same to the last bit,
because the numbers depend on the sides alone, and the optimal sides are unique if every label is clearly on
its side (see `_CLEAR`). If a label is not clearly on its side, training is repeated without the earlier
solution.

Sparse rows are rotated first (`core.numerics.gram_rotation`). The dual depends only on inner products, so the
n sparse rows can be replaced by n dense rows of n features with the same α. In the original features,
w = Σαᵢyᵢxᵢ. The rotation is computed in float64, so that labels of sparse rows also meet their optimality
conditions within `TOLERANCE`.

The inner loops are in `core.linear.kernels`. They run on one thread with the GIL released.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dtrtri

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.kernels import (
    Float32s,
    Float64s,
    Signed,
    free_at_most,
    numbers,
    pivots,
    sides,
    squared_norms,
)
from closecall.core.numerics.gram_rotation import combination, rotated
from closecall.core.numerics.rows import PlacedRows, Rows, as_sparse, is_sparse

ClassWeight = Literal["balanced"] | None

TOLERANCE = 1e-9
"""Tolerance of the optimality conditions.

If the dual variable αᵢ of a label is 0 or Cᵢ, the tolerance limits how far the margin yᵢ(wᵀxᵢ + b) may be on
the wrong side of 1. If αᵢ lies in between, the tolerance limits the distance of the margin from 1. If
ΣCᵢ‖aᵢ‖² exceeds 2·10⁵, where aᵢ = yᵢ[xᵢ, 1], the tolerance is 5·10⁻¹⁵ΣCᵢ‖aᵢ‖² instead, because the margins
are rounded. For rows xᵢ of unit norm, this is the case if ΣCᵢ exceeds 10⁵.
"""

DEFAULT_C = 10.0
"""Default C. After 50 to 500 labels selected at the margin, the accuracy on held-out items is at most 0.1
percentage points below the accuracy with the best C.

GIST rows of unit norm all point in about the same direction. C ≤ 1 therefore underfits if there are few
labels. C ≥ 30 gains nothing.
"""

DEFAULT_CLASS_WEIGHT: ClassWeight = None
"""Default class weights: none. Labels selected at the margin are nearly balanced already, and "balanced"
gained nothing at any C.
"""

_PASSES = 500
_PASS_TOLERANCE = 1e-4
_STEPS_A_LABEL = 20

_LEAST_PASSES = 4
"""Number of passes over all labels that may find violations after a start from an earlier solution.

If one more pass finds violations, coordinate descent continues.
"""

_NEAR = 0.05
"""Labels are checked less often if their margins are at least this far from violating optimality conditions.

In training from an earlier solution, such labels are checked only in passes over all labels.
"""

_CLEAR = 1e-7
"""A label is clearly on its side if its margin has at least this distance from the optimality condition of
another side. If αᵢ is free, the distance is measured after αᵢ has been moved to a bound, and the other free
αⱼ have been adjusted.

If all labels are clearly on their sides, every way of solving the program ends with the same sides, because
the distance is a hundred times as large as `TOLERANCE`.
"""

_DEPENDENT = 1e-6
"""The rows of free labels count as linearly dependent if the squared distance of a row from the span of the
other rows is at most this share of the row's squared norm. The labels are then not clearly free, because
different values of the αᵢ give the same weights. The ridge of `kernels.pivots`, which hides dependence, is
far below this share.
"""


class Dual(NamedTuple):
    """The dual variables of a solution, by item. Training may start from them; see `train`.

    Parameters
    ----------
    ids : array of shape (n,), int64
        Items whose dual variable is positive, ascending.
    y : array of shape (n,), bool
        Labels of these items, True for yes.
    shares : array of shape (n,), float64
        αᵢ / Cᵢ, at most 1.
    """

    ids: NDArray[np.int64]
    y: NDArray[np.bool_]
    shares: Float64s

    def shares_of(self, ids: NDArray[np.int64], y: NDArray[np.bool_]) -> Float64s:
        """Return αᵢ / Cᵢ of each label, of shape (len(ids),); 0 if the item is unknown or had another label.

        `ids` must be ascending.
        """
        shares = np.zeros(len(ids))
        places = np.minimum(np.searchsorted(ids, self.ids), len(ids) - 1)
        same = (ids[places] == self.ids) & (y[places] == self.y)
        shares[places[same]] = self.shares[same]
        return shares


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
    start: Dual | None = None,
) -> Hyperplane:
    """Return the hyperplane of the support vector machine for these labels.

    The hyperplane depends only on the set of labels {(id, row, answer)}, C and class_weight. The order of the
    labels, the number of threads and `start` do not change a single bit of the hyperplane.

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
        "balanced" multiplies C by n_labels / (2 n_class) for the labels of a class with n_class labels, so
        that both classes have the same total weight.
    start : Dual or None
        Dual variables of an earlier solution. If its labels are nearly the same, training takes less time,
        and may converge even with a C that is too large for training without `start`.

    Raises
    ------
    InputError
        If shapes disagree, if an id is repeated, if a value is not finite, if C is not positive or so large
        that the solver does not converge, if class_weight is unknown, or if the labels are all yes or all no.
    """
    return train_with_dual(X, y, ids, C=C, class_weight=class_weight, start=start)[0]


def train_with_dual(
    X: Rows | PlacedRows,
    y: ArrayLike,
    ids: ArrayLike,
    *,
    C: float = DEFAULT_C,
    class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT,
    start: Dual | None = None,
) -> tuple[Hyperplane, Dual]:
    """Return the hyperplane, and the dual variables from which a later training may start; see `train`."""
    if not isinstance(X, PlacedRows):
        X = as_sparse(X) if is_sparse(X) else np.asarray(X, dtype=np.float32)
    y = np.asarray(y, dtype=np.bool_)
    ids = np.asarray(ids, dtype=np.int64)
    if len(X.shape) != 2 or y.shape != X.shape[:1] or ids.shape != X.shape[:1]:
        raise InputError(
            f"X, y and ids must have shapes (n, d), (n,) and (n,), got {X.shape}, {y.shape} and {ids.shape}"
        )
    order = np.argsort(ids, kind="stable")
    ids, y = ids[order], y[order]
    twice = np.flatnonzero(np.diff(ids) == 0)
    if twice.size:
        raise InputError(f"item {ids[twice[0]]} is labeled twice: every id must be unique")
    upper = box(y, C, class_weight)
    shares = None if start is None else start.shares_of(ids, y)
    weights, alpha = _solve(_in_order(X, order), y, C, upper, shares)
    support = np.flatnonzero(alpha)
    dual = Dual(ids[support], y[support], alpha[support] / upper[support])
    return Hyperplane(weights[:-1], float(weights[-1])), dual


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
    """Return the optimum of the primal and of the dual problem.

    This function sums over the labeled rows in the given order; `train` first sorts them by id. See `train`
    for parameters and errors.
    """
    return _solve(X, y, C, box(y, C, class_weight), None)


def _solve(
    X: Rows | PlacedRows, y: NDArray[np.bool_], C: float, upper: Float64s, shares: Float64s | None
) -> Solution:
    """Return the optimum; the solver starts from α = shares·C if `shares` are given."""
    if isinstance(X, PlacedRows):
        return Solution(*_optimum(X, X, y, C, upper, shares)[:2])
    if not is_sparse(X):
        return _solve(PlacedRows.of(X), y, C, upper, shares)
    Z = rotated(X)
    rough = PlacedRows.of(Z.astype(np.float32))
    weights, alpha, exact = _optimum(PlacedRows.of(Z), rough, y, C, upper, shares)
    normal = combination(np.where(y, exact, -exact), X)
    return Solution(np.append(normal, weights[-1]), alpha)


def _optimum(
    X: PlacedRows,
    rough: PlacedRows,
    y: NDArray[np.bool_],
    C: float,
    upper: Float64s,
    shares: Float64s | None,
) -> tuple[Float64s, Float64s, Float64s]:
    """Return the weights and two versions of α.

    In the first version, each αᵢ is exactly on its side: 0, Cᵢ or strictly in between. In the second, the
    values in between are computed accurately, and rounding may have moved some of them slightly beyond 0 or
    Cᵢ. `rough` has the rows of `X` in float32.
    """
    n, d = X.shape
    signs = np.where(y, 1.0, -1.0)
    A, a = Signed(X.places, signs, _typed(X)), Signed(rough.places, signs, _typed(rough))
    squares = squared_norms(A, d)
    if not np.isfinite(squares).all():
        raise InputError(f"row {np.flatnonzero(~np.isfinite(squares))[0]} of X is not finite")
    tolerance = max(TOLERANCE, 5e-15 * float(upper @ squares))
    steps = _STEPS_A_LABEL * (n + 100)
    if shares is not None:
        alpha = np.clip(shares, 0.0, 1.0) * upper
        _thin_out(alpha, upper, free_at_most(d))
        greatest = pivots(A, d, squares, upper, alpha, tolerance, steps, _LEAST_PASSES, _NEAR)
        if greatest > tolerance:
            greatest = _descended(A, a, d, squares, upper, alpha, tolerance, steps)
        if greatest < -_CLEAR * tolerance / TOLERANCE:
            weights, exact, face, L = numbers(A, d, upper, alpha)
            if _are_clearly_free(alpha[face], upper[face], L, _CLEAR * tolerance / TOLERANCE):
                return weights, alpha, exact
    alpha = np.zeros(n)
    if _descended(A, a, d, squares, upper, alpha, tolerance, steps) > tolerance:
        raise InputError(f"C = {C} is too large for {n} labels: no hyperplane was found in {steps:,} steps")
    weights, exact = numbers(A, d, upper, alpha)[:2]
    return weights, alpha, exact


def _descended(
    A: Signed,
    a: Signed,
    d: int,
    squares: Float64s,
    upper: Float64s,
    alpha: Float64s,
    tolerance: float,
    steps: int,
) -> float:
    """Run coordinate descent and then the active-set method from a feasible alpha; see `pivots`."""
    sides(a, d, squares, upper, alpha, _PASSES, _PASS_TOLERANCE)
    _thin_out(alpha, upper, free_at_most(d))
    return pivots(A, d, squares, upper, alpha, tolerance, steps, steps, -np.inf)


def _are_clearly_free(alpha: Float64s, upper: Float64s, L: Float64s, distance: float) -> bool:
    """Return whether every free label is clearly free; see `_CLEAR`.

    If αᵢ moves by δ and the other free αⱼ are adjusted, the margin of label i changes by δ/(G⁻¹)ᵢᵢ. The Gram
    matrix of the free labels is G = LLᵀ, and 1/(G⁻¹)ᵢᵢ is the squared distance of row i from the span of
    the other rows.
    """
    if not len(L):
        return True
    inverse, failed = dtrtri(L, lower=1)
    if failed:
        return False
    of_inverse, squares = np.square(inverse).sum(axis=0), np.square(L).sum(axis=1)
    if (of_inverse * squares * _DEPENDENT >= 1).any():
        return False
    room = np.minimum(alpha, upper - alpha)
    return bool((room > distance * of_inverse).all())


def _typed(X: PlacedRows) -> Float32s | Float64s:
    return np.empty(0, dtype=X.owners[0].dtype if X.owners else np.float32)


def _thin_out(alpha: Float64s, upper: Float64s, most: int) -> None:
    """Move free αᵢ to their nearer bounds, so that at most `most` free αᵢ remain.

    The αᵢ that are farthest from their bounds remain free. This is safe, because the problem has an optimum
    with at most `most` free αᵢ.
    """
    if np.count_nonzero((alpha > 0.0) & (alpha < upper)) <= most:
        return
    inside = np.minimum(alpha, upper - alpha) / upper
    others = np.argsort(-inside, kind="stable")[most:]
    alpha[others] = np.where(alpha[others] < upper[others] / 2, 0.0, upper[others])
