"""Supervised hashing with kernels: codes learned to agree within a class and differ between classes.

The m anchors x̂₁, …, x̂_m are rows drawn at random. Let k(x) = (κ(x, x̂₁), …, κ(x, x̂_m)) be the kernel
values of a point x and the anchors, and k(μ) the mean of k(x) over all rows. A bit with a learned vector a is
(eqs. 19, 20 of [2]_)

    h(x) = sign(aᵀk̄(x)),   k̄(x) = k(x) − k(μ).

There are l labeled rows and r bits. The matrix S has 1 for pairs of labeled rows of the same class and −1 for
pairs of different classes. The matrix K̄ has the rows k̄(x) of the labeled rows x, and A has the vectors a as
columns. The rows of B = sign(K̄A) are then the codes of the labeled rows, as ±1. The inner product of two
codes is r − 2 · Hamming distance, so A should minimise

    ‖BBᵀ − rS‖²                                                        (r² times eq. 24 of [2]_)

Bits are learned one by one. Let R = rS − Σ bbᵀ be the residue after the bits learned so far, where each b is
a column of B. The next b should maximise bᵀRb, since ‖R − bbᵀ‖² = ‖R‖² − 2bᵀRb + l² [1]_.

**Spectral start.** Without the sign function, the best vector a maximises aᵀK̄ᵀRK̄a subject to aᵀK̄ᵀK̄a = l.
It is the first generalised eigenvector of K̄ᵀRK̄ and K̄ᵀK̄.

**Smoothing.** From this start, Nesterov's accelerated gradient method minimises

    g(a) = −b̃ᵀRb̃,   ∇g = −K̄ᵀ[(Rb̃) ⊙ (1 − b̃²)]

with the smoothed signs b̃ = φ(K̄a), φ(t) = 2/(1 + e⁻ᵗ) − 1. If the exact signs b of the start have a larger
bᵀRb than the signs of the result, the start is kept, as in the authors' program. The descent uses the
coordinates of a, as published. It therefore hardly changes the vector a in directions where K̄ᵀK̄ has small
eigenvalues. This prevents overfitting to the labeled rows. In whitened coordinates, g becomes smaller, but
precision is lower. More steps gain little. On GIST of the images of CIFAR-10 with 1,000 labels, 500 steps
instead of 200 reduce eq. 24 by 2 to 3 % and improve the precision of the first 1,000 items by 0.3 to 0.8
percentage points.

The l × l matrix R is never computed. Since S = 2ZZᵀ − 11ᵀ with the matrix Z of class indicators, a product Rv
takes O(l(r + 1)) operations.

**Width.** The default kernel is the RBF exp(−γ‖x − y‖²) on unit rows, where 1/(2γ) is the mean of ‖x − y‖²
over all rows x and anchors y, as in the authors' program.

**Results.** The codes are learned to place rows of the query's class first. The table gives the percentage of
items with the query's class among the 500 items with the nearest codes. The percentages are means over three
random draws on GIST of the 50,000 images of CIFAR-10, with 1,000 labels and 300 anchors or landmarks
(`closecall bench similar --what precision`). Random codes would give 10 %.

============================================  ====  ====  ====  ====  ====  ====
bits                                             8    12    16    24    32    48
============================================  ====  ====  ====  ====  ====  ====
KSH                                           27.7  29.8  31.6  33.9  34.8  36.5
KSH, learned kernel                           27.4  30.0  32.0  33.9  34.8  36.2
KLSH, χ², as published                        12.6  13.2  13.7  14.6  15.1  16.7
KLSH, χ², low rank, measured from the mean    15.5  16.9  17.8  19.4  20.8  22.7
LSH                                           14.0  15.4  16.0  17.2  18.4  20.0
============================================  ====  ====  ====  ====  ====  ====

References
----------
.. [1] W. Liu, J. Wang, R. Ji, Y.-G. Jiang, S.-F. Chang, "Supervised hashing with kernels", CVPR 2012.
.. [2] Y. Li, H. Cheng, "Supervised hashing with learned metric", section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays, row_blocks
from closecall.core.hashing.by_kernel import ByKernel
from closecall.core.hashing.descent import descended
from closecall.core.hashing.similarity import Floats32, Floats64
from closecall.core.linear.hyperplane import settled_signs
from closecall.core.mercer.kernel import Cosine, Kernel, kernel_from, rbf
from closecall.core.numerics.interruption import go_on
from closecall.core.numerics.rows import Rows

_NEGLIGIBLE = 1e-7
"""Fraction of the largest eigenvalue of K̄ᵀK̄. Smaller eigenvalues are treated as zero."""

_ROUNDED = 1e-6
"""Maximum rounding error of a centred kernel value in float32."""

_LEAST_GAIN = 1e-6
_SAME = 1e-6
"""Mean squared distance below which all rows are considered equal."""


class SupervisedKernelHash(ByKernel):
    """Hash family with the bits sign(aᵀk̄(x)), where the vectors a are learned from classes.

    k̄(x) contains the centred kernel values of a point x and the anchors. With l labels, learning takes about
    n_functions · n_steps · l · (n_anchors + n_functions) · 5·10⁻¹⁰ seconds, and 20 · l · n_anchors bytes.

    Parameters
    ----------
    kernel : str, Kernel or None
        The kernel, or its name such as "chi2"; see `core.mercer.kernel.kernel_from`. None selects the RBF
        kernel with a width estimated from the rows (`bandwidth`).
    n_anchors : int
        Number of anchors, drawn from all rows, whether or not their class is known. Hashing a point computes
        one value of the kernel per anchor.
    n_labels : int or None
        Maximum number of labeled rows to learn from. If more rows have a known class, some are drawn at
        random. None uses all labeled rows; the papers use 1,000.
    n_steps : int
        Maximum number of gradient steps for each vector a. With 0 steps, a is the result of the spectral
        start (see the module).
    n_functions, random_state
        As in `SimilarityHasher`.

    Attributes
    ----------
    points_ : array of shape (n_points, n_features), float32
        The anchors, as prepared by the kernel.
    means_ : array of shape (n_points,), float32
        Mean of the kernel values of each point and all rows.
    weights_ : array of shape (n_points, n_functions), float32
        The vectors a as columns.
    left_ : array of shape (n_functions + 1,), float64
        Squared norm of the `Residue` after 0, 1, … bits, divided by the first value.
    bandwidth_ : array of shape (), float64
        Parameter γ of the RBF kernel if the parameter `kernel` is None, otherwise NaN.
    """

    name = "ksh"
    needs_labels = True

    points_: Floats32
    means_: Floats32
    weights_: Floats32
    left_: Floats64
    bandwidth_: Floats64
    _fitted: ClassVar[tuple[str, ...]] = ("points_", "means_", "weights_", "left_", "bandwidth_")
    _least: ClassVar[dict[str, int]] = {**ByKernel._least, "n_anchors": 1, "n_steps": 0}

    def __init__(
        self,
        *,
        kernel: str | Kernel | None = None,
        n_anchors: int = 300,
        n_labels: int | None = None,
        n_steps: int = 200,
        n_functions: int = 48,
        random_state: int = 0,
    ) -> None:
        super().__init__(n_functions=n_functions, random_state=random_state)
        self.kernel = kernel
        self.n_anchors = n_anchors
        self.n_labels = n_labels
        self.n_steps = n_steps

    def _check(self) -> None:
        super()._check()
        if self.n_labels is not None and self.n_labels < 2:
            raise InputError(f"n_labels must be at least 2 or None, got {self.n_labels}")

    def _fit(self, X: Rows, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:
        assert y is not None
        if X.shape[0] < self.n_anchors:
            raise InputError(
                f"{self.name} needs at least as many rows as anchors, {self.n_anchors}, got {X.shape[0]}"
            )
        labelled = self._labelled(y, rng)
        P = (Cosine() if self.kernel is None else kernel_from(self.kernel)).prepared(X)
        anchors = P[np.sort(rng.choice(len(P), self.n_anchors, replace=False))]
        self.bandwidth_ = np.array(np.nan if self.kernel is not None else bandwidth(P, anchors))
        self._kernel = self._kernel_again({})
        mixing = self._settle(anchors, P[labelled], y[labelled], rng)
        sums = np.zeros(len(self.points_))
        for part in row_blocks(P):
            sums += self._kernel.values(part, self.points_).sum(axis=0, dtype=np.float64)
        self.means_ = (sums / len(P)).astype(np.float32)
        K = self._kernel.values(P[labelled], self.points_).astype(np.float64) - self.means_
        learned, self.left_ = learn(K @ mixing, y[labelled], self.n_functions, self.n_steps)
        self.weights_ = (mixing @ learned).astype(np.float32)

    def _settle(
        self,
        anchors: Floats32,
        P: Floats32,  # noqa: ARG002
        y: NDArray[np.int64],  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Floats64:
        """Set `points_`, given the anchors and the labeled rows, all prepared by the kernel.

        Returns
        -------
        array of shape (n_points, n_anchors)
            Matrix T such that k(x) = Tᵀk₀(x) for any point x. k₀(x) contains the values of the kernel
            `_kernel` for x and `points_`. The bits are learned from k(x), which contains the values of a
            second kernel for x and the anchors. In this class, the second kernel is `_kernel`, too, and T is
            the identity.
        """
        self.points_ = anchors
        return np.eye(len(anchors))

    def _values(self, X: Rows) -> Floats32:
        return np.asarray((self._kernel.values(X, self.points_) - self.means_) @ self.weights_)

    def _labelled(self, y: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the indices of the labeled rows to learn from, ascending."""
        rows = np.sort(rng.permutation(np.flatnonzero(y >= 0))[: self.n_labels])
        n_classes = len(np.unique(y[rows]))
        if n_classes < 2:
            raise InputError(
                f"{self.name} learns from labels of at least two classes, got {len(rows):,} labels of "
                f"{n_classes} {'class' if n_classes == 1 else 'classes'}"
            )
        return rows

    def _kernel_again(self, arrays: Arrays) -> Kernel:
        if self.kernel is None:
            return rbf(float(self.bandwidth_))
        return kernel_from(self.kernel, arrays or None)


class Residue:
    """The matrix R = rS − Σ bbᵀ: desired minus actual inner products of the codes of labeled rows.

    r is the number of bits in a code. S has 1 for rows of the same class and −1 otherwise. Each vector b
    contains a learned bit of all labeled rows, as ±1. Only the classes and the vectors b are stored.

    Parameters
    ----------
    classes : array of shape (n_labels,), int64
        Class of each labeled row, numbered from 0.
    n_functions : int
        Number r of bits in a code.

    Attributes
    ----------
    size : float
        Squared Frobenius norm of R.
    """

    def __init__(self, classes: NDArray[np.int64], n_functions: int) -> None:
        self._classes = classes
        self._r = n_functions
        self._bits = np.empty((0, len(classes)))
        self.size = float(n_functions * len(classes)) ** 2

    def times(self, v: Floats64) -> Floats64:
        """Return the product Rv."""
        of_classes = np.bincount(self._classes, v)
        wanted = 2 * of_classes[self._classes] - of_classes.sum()
        return np.asarray(self._r * wanted - (self._bits @ v) @ self._bits)

    def under(self, F: Floats64) -> Floats64:
        """Return FᵀRF, for F of shape (n_labels, n); valid only before the first `take_off`."""
        of_classes = np.array([F[self._classes == c].sum(axis=0) for c in range(self._classes.max() + 1)])
        total = of_classes.sum(axis=0)
        return np.asarray(self._r * (2 * of_classes.T @ of_classes - np.outer(total, total)))

    def take_off(self, b: Floats64) -> None:
        """Replace R by R − bbᵀ, where b is a new bit of all labeled rows."""
        self.size += len(b) ** 2 - 2 * float(b @ self.times(b))
        self._bits = np.vstack([self._bits, b])


def learn(K: Floats64, y: NDArray[np.int64], n_functions: int, n_steps: int) -> tuple[Floats64, Floats64]:
    """Learn the vector a of each bit; return the vectors, and the size of the residue after each bit.

    Parameters
    ----------
    K : array of shape (n_labels, n_anchors)
        Centred kernel values of the labeled rows and the anchors, K̄.
    y : array of shape (n_labels,), int64
        Classes of the labeled rows.
    n_functions : int
        Number of bits.
    n_steps : int
        Maximum number of gradient steps for each bit.

    Returns
    -------
    (array of shape (n_anchors, n_functions), array of shape (n_functions + 1,))
        The vectors a as columns. The squared norm of the `Residue` before the first bit and after each bit,
        divided by the first value.

    Raises
    ------
    InputError
        If all rows of K̄ are equal, so that no bit can separate them.
    """
    W = whitening(K)
    R = Residue(np.unique(y, return_inverse=True)[1], n_functions)
    F = K @ W
    pulls = R.under(F)
    found, sizes = np.empty((K.shape[1], n_functions)), [R.size]
    for function in range(n_functions):
        go_on()
        first = W @ leading(pulls)
        last = descended(smoothed(K, R), first, steps=n_steps, least_gain=_LEAST_GAIN)
        # `max` returns the first maximum, so the spectral start wins a tie.
        a = max(first, last, key=lambda a: agreement(R, signs(K @ a)))
        b = signs(K @ a)
        R.take_off(b)
        pulls -= np.outer(F.T @ b, F.T @ b)
        found[:, function] = a
        sizes.append(R.size)
    return found, np.array(sizes) / sizes[0]


def whitening(K: Floats64) -> Floats64:
    """Return a matrix W with WᵀKᵀKW = l·I, where l is the number of rows of K.

    W has shape (n_anchors, rank), where rank is the numerical rank of K.

    Raises
    ------
    InputError
        If all rows of K are equal up to rounding.
    """
    eigenvalues, vectors = np.linalg.eigh(K.T @ K)
    kept = eigenvalues > max(_NEGLIGIBLE * eigenvalues[-1], K.size * _ROUNDED**2)
    if not kept.any() or (np.ptp(K, axis=0) <= 2 * _ROUNDED).all():
        raise InputError(
            f"the kernel gives all {len(K):,} labeled rows the same values, so no bit can separate them: "
            f"choose another kernel, or label rows that are less alike"
        )
    return np.asarray(vectors[:, kept] * np.sqrt(len(K) / eigenvalues[kept]))


def leading(A: Floats64) -> Floats64:
    """Return the unit eigenvector of a symmetric matrix for its largest eigenvalue."""
    n = len(A)
    _, vectors = eigh(A, subset_by_index=[n - 1, n - 1])
    return np.asarray(settled_signs(vectors)[:, 0])


def signs(values: Floats64) -> Floats64:
    """Return −1 for negative values and 1 for all others."""
    return np.where(values >= 0, 1.0, -1.0)


def agreement(R: Residue, b: Floats64) -> float:
    """Return bᵀRb. A new bit b of the labeled rows should maximise this number."""
    return float(b @ R.times(b))


def smoothed(K: Floats64, R: Residue) -> Callable[[Floats64], tuple[float, Callable[[], Floats64]]]:
    """Return the objective −b̃ᵀRb̃, where b̃ are the smoothed signs of Ka, as a function of the vector a.

    The type of the function is `core.hashing.descent.Objective`.
    """

    def g(a: Floats64) -> tuple[float, Callable[[], Floats64]]:
        smooth = np.tanh(K @ a / 2)
        pulled = R.times(smooth)
        return -float(smooth @ pulled), lambda: -(pulled * (1 - smooth**2)) @ K

    return g


def bandwidth(P: Floats32, anchors: Floats32) -> float:
    """Return γ, where 1/(2γ) is the mean squared distance between the unit rows P and the anchors.

    Raises
    ------
    InputError
        If all rows are equal.
    """
    mean = 2 - 2 * float(P.mean(axis=0, dtype=np.float64) @ anchors.mean(axis=0, dtype=np.float64))
    if mean < _SAME:
        raise InputError("the width of the kernel cannot be estimated, because all rows are equal")
    return 1 / (2 * mean)
