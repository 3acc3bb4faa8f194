"""Leave-one-out scores of all labels, from a single training.

A label affects the score of its own item: the SVM adapts to the label, so a wrong label looks right. A score
from an SVM that is trained only on the other labels does not have this flaw. But training one SVM per label
would be too slow.

There is a closed form for the SVM of `core.linear.svm`. Its dual variables are αᵢ, with 0 ≤ αᵢ ≤ Cᵢ. A label
is free if its αᵢ lies strictly between the two bounds. Let aᵢ = yᵢ[xᵢ, 1]. If label i is removed, and each
other αⱼ stays at its bound or stays free, then

    yᵢ(wᵀxᵢ + b) decreases by αᵢSᵢ²,

where Sᵢ is the distance of aᵢ from the linear span of the aⱼ of all free labels j ≠ i (Chapelle & Vapnik,
"Model selection for support vector machines", NIPS 1999; Opper & Winther, "Gaussian processes and SVM: mean
field and leave-one-out", 2000). The span is linear because `core.linear.svm` regularizes the bias like the
weights. If αᵢ = 0, label i does not affect the hyperplane, so the score of its item does not change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.svm import DEFAULT_C, DEFAULT_CLASS_WEIGHT, ClassWeight, Solution, box, solve
from closecall.core.numerics.gram_rotation import rotated
from closecall.core.numerics.rows import Rows, is_sparse

_RIDGE = 1e-10
"""Relative increase of the diagonal of the Gram matrix of the free labels, as in `core.linear.kernels`."""

_ROWS = 4096
"""Number of labels whose distance from the span is computed at a time."""


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """A trained SVM and the leave-one-out score of each label.

    Parameters
    ----------
    hyperplane : Hyperplane
        Trained on all labels.
    scores : array of shape (n_labels,), float64
        For each label, an estimate of wᵀx + b of its item under a hyperplane trained on the other labels. If
        a class has only one label, no hyperplane can be trained without that label, so the score of the item
        comes from the hyperplane trained on all labels.
    """

    hyperplane: Hyperplane
    scores: NDArray[np.float64]


def leave_one_out(
    X: Rows,
    y: NDArray[np.bool_],
    *,
    C: float = DEFAULT_C,
    class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT,
) -> LeaveOneOut:
    """Train on all labels, and score each labeled item as if its label had been left out.

    Parameters
    ----------
    X : array of shape (n_labels, n_features), float32, or csr_array
        One row per label.
    y : array of shape (n_labels,), bool
        True for yes.
    C, class_weight
        See `core.linear.svm.train`. Class weights are computed from all labels, including the label left out.

    Raises
    ------
    InputError
        See `core.linear.svm.train`.
    """
    solution = solve(X, y, C=C, class_weight=class_weight)
    hyperplane = Hyperplane(solution.weights[:-1], float(solution.weights[-1]))
    sign = np.where(y, 1.0, -1.0)
    loss = solution.alpha * _spans(rotated(X) if is_sparse(X) else X, sign, solution, box(y, C, class_weight))
    for kind in (y, ~y):
        if np.count_nonzero(kind) == 1:
            loss[kind] = 0.0
    return LeaveOneOut(hyperplane, hyperplane.scores(X) - sign * loss)


def _spans(
    X: NDArray[np.floating], sign: NDArray[np.float64], solution: Solution, upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return Sᵢ², defined at the top of this module, for every label with αᵢ > 0; 0 for other labels."""
    spans = np.zeros(len(X))
    free = np.flatnonzero((solution.alpha > 0) & (solution.alpha < upper))
    face = _extended(X[free], sign[free])
    if len(free):
        gram = face @ face.T
        gram[np.diag_indices_from(gram)] *= 1 + _RIDGE
        spans[free] = 1 / np.diag(np.linalg.inv(gram))
    basis = np.linalg.qr(face.T)[0]
    bounded = np.flatnonzero(solution.alpha >= upper)
    for first in range(0, len(bounded), _ROWS):
        these = bounded[first : first + _ROWS]
        rows = _extended(X[these], sign[these])
        spans[these] = np.sum(rows**2, axis=1) - np.sum((rows @ basis) ** 2, axis=1)
    return np.maximum(spans, 0.0)


def _extended(X: NDArray[np.floating], sign: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows yᵢ[xᵢ, 1]."""
    rows = np.ones((len(X), X.shape[1] + 1))
    rows[:, :-1] = X
    return np.asarray(rows * sign[:, None])
