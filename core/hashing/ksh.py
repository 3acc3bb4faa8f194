"""Supervised hashing with kernels: bits learned so that codes agree within a class and differ between two.

With k(x) = (κ(x, x̂₁), …, κ(x, x̂_m)) of m anchors and its mean k(μ) over all rows, a bit is (eqs. 19, 20
of [2]_)

    h(x) = sign(aᵀk̄(x)),   k̄(x) = k(x) − k(μ).

Let S be 1 for pairs of labelled rows of one class and −1 for pairs of two, and let B have the codes of these
l rows as rows of ±1. Two codes have the inner product r − 2 · Hamming distance, and so the a are to make

    ‖BBᵀ − rS‖²                                                                          (24)

small, B = sign(K̄A), r the number of bits. Bit by bit, with what the bits so far have left over of it,
R = rS − Σ bbᵀ, the next b is to make bᵀRb great, since ‖R − bbᵀ‖² = ‖R‖² − 2bᵀRb + l² [1]_.

**Spectral start.** Without the signs, aᵀK̄ᵀRK̄a under aᵀK̄ᵀK̄a = l is greatest for the first generalised
eigenvector of K̄ᵀRK̄ and K̄ᵀK̄.

**Smoothed.** From there, with b̃ = φ(K̄a), φ(t) = 2/(1 + e⁻ᵗ) − 1,

    g(a) = −b̃ᵀRb̃,   ∇g = −K̄ᵀ[(Rb̃) ⊙ (1 − b̃²)]

is descended by Nesterov's accelerated gradient. Whichever of start and end makes bᵀRb greater with its signs
is kept, as in the authors' program. The descent is in a itself, as published. Where K̄ᵀK̄ has small
eigenvalues it hardly moves a, and that keeps it from learning the labelled rows by heart: descended in
whitened coordinates, g becomes smaller and precision worse. Likewise many steps gain little: on
GIST of CIFAR-10's photographs, by 1,000 labels, 500 instead of 200 make (24) smaller by 2 or 3 per cent, and
precision of the first 1,000 better by 0.3 to 0.8 points.

R is never formed: S = 2ZZᵀ − 11ᵀ with Z the classes' indicators, so that Rv takes O(l(r + 1)).

**Width.** By itself the kernel is the RBF exp(−γ‖x − y‖²) on unit rows, with 1/(2γ) the mean of ‖x − y‖²
over all rows and anchors, as in the authors' program.

What the family's neighbours are nearest by is κ; what its codes find before others are rows of the class.
GIST of 50,000 photographs of CIFAR-10, 1,000 labels, 300 anchors or landmarks: which share of the first 500
items is of the query's class, in percent, the mean of three draws (`closecall bench similar --what
precision`); a tenth would be chance:

======================================  ====  ====  ====  ====  ====  ====
bits                                       8    12    16    24    32    48
======================================  ====  ====  ====  ====  ====  ====
KSH                                     27.7  29.8  31.6  33.9  34.8  36.5
KSH, learned kernel                     27.4  30.0  32.0  33.9  34.8  36.2
KLSH, χ², as published                  12.6  13.2  13.7  14.6  15.1  16.7
KLSH, χ², low rank, seen from the mean  15.5  16.9  17.8  19.4  20.8  22.7
LSH                                     14.0  15.4  16.0  17.2  18.4  20.0
======================================  ====  ====  ====  ====  ====  ====

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
from closecall.core.numerics.rows import Rows

_NEGLIGIBLE = 1e-7
"""Of the largest eigenvalue of K̄ᵀK̄: smaller ones are what rounding leaves of zero."""

_ROUNDED = 1e-6
"""What float32 leaves of a value of K̄ that is zero, at most."""

_LEAST_GAIN = 1e-6
_SAME = 1e-6
"""How far apart rounding leaves equal rows on average, at most."""


class SupervisedKernelHash(ByKernel):
    """Bits sign(aᵀk̄(x)), the a learned from classes.

    Learning takes about n_functions · n_steps · n_labels · (n_anchors + n_functions) · 5·10⁻¹⁰ seconds.

    Parameters
    ----------
    kernel : str, Kernel or None
        κ, or the word for it, see `core.mercer.kernel.kernel_from`; None for the RBF kernel as wide as above.
    n_anchors : int
        m, drawn from all rows, of known class or not. Hashing a point takes so many values of the kernel.
    n_labels : int
        l: of so many rows at most the classes are learned from, drawn from those whose class is known.
    n_steps : int
        How often a is moved at most; 0 leaves it at its spectral start.
    n_functions, random_state
        As of `SimilarityHasher`.

    Attributes
    ----------
    points_ : array of shape (n_points, n_features), float32
        The anchors, as the kernel has prepared them.
    means_ : array of shape (n_points,), float32
        k(μ).
    weights_ : array of shape (n_points, n_functions), float32
        The a.
    left_ : array of shape (n_functions + 1,), float64
        ‖rS − Σ bbᵀ‖² after 0, 1, … bits, as a share of ‖rS‖².
    bandwidth_ : array of shape (), float64
        γ, if the kernel is None; else NaN.
    """

    name = "ksh"
    needs_labels = True

    points_: Floats32
    means_: Floats32
    weights_: Floats32
    left_: Floats64
    bandwidth_: Floats64
    _fitted: ClassVar[tuple[str, ...]] = ("points_", "means_", "weights_", "left_", "bandwidth_")
    _least: ClassVar[dict[str, int]] = {**ByKernel._least, "n_anchors": 1, "n_labels": 2, "n_steps": 0}

    def __init__(
        self,
        *,
        kernel: str | Kernel | None = None,
        n_anchors: int = 300,
        n_labels: int = 1000,
        n_steps: int = 200,
        n_functions: int = 48,
        random_state: int = 0,
    ) -> None:
        super().__init__(n_functions=n_functions, random_state=random_state)
        self.kernel = kernel
        self.n_anchors = n_anchors
        self.n_labels = n_labels
        self.n_steps = n_steps

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
        """Set `points_`, given the anchors and the labelled rows, prepared.

        Returns
        -------
        array of shape (n_points, n_anchors)
            T, with which k(x) = Tᵀ(κ(x, points)).
        """
        self.points_ = anchors
        return np.eye(len(anchors))

    def _values(self, X: Rows) -> Floats32:
        return np.asarray((self._kernel.values(X, self.points_) - self.means_) @ self.weights_)

    def _labelled(self, y: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """The rows that are learned from, ascending."""
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
    """R = rS − Σ bbᵀ of the bits so far, by classes and bits.

    Parameters
    ----------
    classes : array of shape (n_labels,), int64
        From 0 on.
    n_functions : int
        r.

    Attributes
    ----------
    size : float
        ‖R‖².
    """

    def __init__(self, classes: NDArray[np.int64], n_functions: int) -> None:
        self._classes = classes
        self._r = n_functions
        self._bits = np.empty((0, len(classes)))
        self.size = float(n_functions * len(classes)) ** 2

    def times(self, v: Floats64) -> Floats64:
        """Rv."""
        of_classes = np.bincount(self._classes, v)
        wanted = 2 * of_classes[self._classes] - of_classes.sum()
        return np.asarray(self._r * wanted - (self._bits @ v) @ self._bits)

    def under(self, F: Floats64) -> Floats64:
        """FᵀRF of F of shape (n_labels, n), where no bit is taken off yet."""
        of_classes = np.array([F[self._classes == c].sum(axis=0) for c in range(self._classes.max() + 1)])
        total = of_classes.sum(axis=0)
        return np.asarray(self._r * (2 * of_classes.T @ of_classes - np.outer(total, total)))

    def take_off(self, b: Floats64) -> None:
        """Make it R − bbᵀ."""
        self.size += len(b) ** 2 - 2 * float(b @ self.times(b))
        self._bits = np.vstack([self._bits, b])


def learn(K: Floats64, y: NDArray[np.int64], n_functions: int, n_steps: int) -> tuple[Floats64, Floats64]:
    """The a of each bit, and what is left after each.

    Parameters
    ----------
    K : array of shape (n_labels, n_anchors)
        K̄.
    y : array of shape (n_labels,), int64
        Classes.
    n_functions : int
        r.
    n_steps : int
        Of the descent of each bit.

    Returns
    -------
    (array of shape (n_anchors, n_functions), array of shape (n_functions + 1,))
        The a as columns, and ‖R‖²/‖rS‖² before all bits and after each.

    Raises
    ------
    InputError
        If K̄ is zero, and nothing tells the rows apart.
    """
    W = whitening(K)
    R = Residue(np.unique(y, return_inverse=True)[1], n_functions)
    F = K @ W
    pulls = R.under(F)
    found, sizes = np.empty((K.shape[1], n_functions)), [R.size]
    for function in range(n_functions):
        first = W @ leading(pulls)
        last = descended(smoothed(K, R), first, steps=n_steps, least_gain=_LEAST_GAIN)
        # The first of equally good ones: the spectral start.
        a = max(first, last, key=lambda a: agreement(R, signs(K @ a)))
        b = signs(K @ a)
        R.take_off(b)
        pulls -= np.outer(F.T @ b, F.T @ b)
        found[:, function] = a
        sizes.append(R.size)
    return found, np.array(sizes) / sizes[0]


def whitening(K: Floats64) -> Floats64:
    """W with WᵀK̄ᵀK̄W = l·I, of shape (n_anchors, rank): in its columns' span K̄ᵀK̄ is not singular."""
    eigenvalues, vectors = np.linalg.eigh(K.T @ K)
    kept = eigenvalues > max(_NEGLIGIBLE * eigenvalues[-1], K.size * _ROUNDED**2)
    if not kept.any():
        raise InputError(
            "the labelled rows are all at the same values of the kernel: nothing tells them apart"
        )
    return np.asarray(vectors[:, kept] * np.sqrt(len(K) / eigenvalues[kept]))


def leading(A: Floats64) -> Floats64:
    """The eigenvector of the greatest eigenvalue of a symmetric matrix, of norm 1."""
    n = len(A)
    _, vectors = eigh(A, subset_by_index=[n - 1, n - 1])
    return np.asarray(settled_signs(vectors)[:, 0])


def signs(values: Floats64) -> Floats64:
    """1 and −1; zero counts as positive."""
    return np.where(values >= 0, 1.0, -1.0)


def agreement(R: Residue, b: Floats64) -> float:
    """bᵀRb."""
    return float(b @ R.times(b))


def smoothed(K: Floats64, R: Residue) -> Callable[[Floats64], tuple[float, Callable[[], Floats64]]]:
    """g, as `core.hashing.descent` takes it."""

    def g(a: Floats64) -> tuple[float, Callable[[], Floats64]]:
        smooth = np.tanh(K @ a / 2)
        pulled = R.times(smooth)
        return -float(smooth @ pulled), lambda: -(pulled * (1 - smooth**2)) @ K

    return g


def bandwidth(P: Floats32, anchors: Floats32) -> float:
    """γ with 1/(2γ) the mean squared distance of unit rows P and anchors, which are some of them."""
    mean = 2 - 2 * float(P.mean(axis=0, dtype=np.float64) @ anchors.mean(axis=0, dtype=np.float64))
    if mean < _SAME:
        raise InputError("rows must differ for a kernel as wide as they are apart, got the same one always")
    return 1 / (2 * mean)
