"""Random hyperplanes in the feature space of a kernel: kernelized LSH and its variants.

The feature space of a kernel κ may have infinitely many dimensions. Points are therefore projected on a
subspace spanned by m landmarks x̂₁, …, x̂_m, a random sample of the rows. K is the kernel matrix of the
landmarks. The centred matrix K̄ = HKH with H = I − 11ᵀ/m has the eigendecomposition K̄ = UDUᵀ with descending
eigenvalues. The kernel values of a point x are k(x) = (κ(x, x̂₁), …, κ(x, x̂_m)). Kernel PCA projects x on
the first r principal components by

    φ(x) = D_r^{−1/2} U_rᵀ k(x)                                                           (eq. 12 of [2]_)

where U_r and D_r contain the first r eigenvectors and eigenvalues. Each random vector v of r dimensions gives
a bit sign(φ(x)ᵀv). The families differ in v and in φ:

`KernelizedLSH` [1]_
    A vector e has ones at t random landmarks and zeros elsewhere. The bit is sign(wᵀk(x)) with
    w = K̄_r^{−1/2} e (eqs. 4 and 18 of [2]_). Since K̄_r^{−1/2} = U_r D_r^{−1/2} U_rᵀ, wᵀk(x) = φ(x)ᵀv with
    v = U_rᵀe. The covariance of e is c·H with c = t(m − t)/(m(m − 1)), so the covariance of v is c·I. By the
    central limit theorem, v is approximately Gaussian.
`KernelPCALSH`
    v is Gaussian.
`NystromLSH`
    v is Gaussian, and K replaces K̄ (eq. 11 of [2]_). The first component is then close to the mean, a
    direction that hardly separates the points. With angles from the origin, as published, recall is
    therefore lower. With angles from the mean, recall is as high as with the other families.

**Rank.** The original KLSH uses the maximum, r = m − 1. Components with small eigenvalues are estimated badly
from m landmarks, so projections of other points on these components are mostly noise. Projecting on fewer
components (the *low-rank* form) is better. The best number depends on the data and the kernel.

**Scale.** A kernel transformed to exp(s(κ − 1)) (eq. 19 of [2]_) has the same order of neighbours, but its
eigenvalues decay more slowly. `core.experiment.kernelized` chooses r and s on separate queries.

**Centring.** As published, x is not centred, so angles are measured from the origin of the feature space. In
the centred form, as in kernel PCA, angles are measured from the mean μ of the landmarks. Angles from the mean
are larger (`core.hashing.lsh`).

The table gives the percentage of 1,000 queries whose nearest item by κ is among the 100 items whose codes
differ least. It was measured with one random seed on GIST of CIFAR-10 enlarged to a million images, with 256
bits and m = 1,000. r and s were chosen on the original 50,000 images:

============  =============  =============  ===========  =====================
kernel        measured from  original form  low rank     low rank, transformed
============  =============  =============  ===========  =====================
χ²            origin         22             38 (r = 32)  52 (s = 9)
χ²            mean           41             55 (r = 64)  56 (s = 5)
intersection  origin         26             39 (r = 64)  47 (s = 9)
intersection  mean           39             54 (r = 64)  54 (s = 1)
============  =============  =============  ===========  =====================

References
----------
.. [1] B. Kulis, K. Grauman: Kernelized Locality-Sensitive Hashing, TPAMI 34 (2012).
.. [2] K. Jiang, Q. Que, B. Kulis: Revisiting Kernelized Locality-Sensitive Hashing for Improved Large-Scale
   Image Retrieval, CVPR 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays, Codes, padded, row_blocks
from closecall.core.hashing.by_kernel import ByKernel
from closecall.core.hashing.lsh import angles_of
from closecall.core.hashing.similarity import Floats32, Floats64
from closecall.core.linear.hyperplane import settled_signs
from closecall.core.mercer.kernel import Kernel, kernel_from, require_positive
from closecall.core.numerics.rows import Rows

_NEGLIGIBLE = 1e-6
"""Eigenvalues below this fraction of the largest eigenvalue, or of the largest kernel value κ(x, x), count as
zero, because they may be rounding errors.
"""


class Spectrum(NamedTuple):
    """The positive eigenvalues of the landmarks' kernel matrix, descending, and their eigenvectors.

    Parameters
    ----------
    eigenvalues : array of shape (rank,)
    vectors : array of shape (n_landmarks, rank)
    """

    eigenvalues: Floats64
    vectors: Floats64

    def basis(self, rank: int | None) -> Floats64:
        """Return the first `rank` eigenvectors, each divided by the square root of its eigenvalue.

        The result has shape (n_landmarks, rank). If `rank` is None or exceeds the number of eigenvalues, all
        eigenvectors are returned.
        """
        return np.asarray(self.vectors[:, :rank] / np.sqrt(self.eigenvalues[:rank]))


def spectrum(K: Floats64, what: str, *, centred: bool = True) -> Spectrum:
    """Return the positive eigenvalues of K and their eigenvectors.

    Parameters
    ----------
    K : array of shape (n_landmarks, n_landmarks)
        Kernel matrix of the landmarks.
    what : str
        Description of K for error messages.
    centred : bool
        Whether to centre K first.

    Raises
    ------
    InputError
        If K is not positive semidefinite, or has no positive eigenvalue.
    """
    K = (K + K.T) / 2
    largest = float(K.diagonal().max())
    if centred:
        means = K.mean(axis=0)
        K = K - means - means[:, None] + means.mean()
    eigenvalues, vectors = np.linalg.eigh(K)
    require_positive(eigenvalues, what, at_least=largest)
    kept = int(np.count_nonzero(eigenvalues > _NEGLIGIBLE * max(eigenvalues[-1], largest)))
    if not kept:
        raise InputError(f"{what} has the same value for all of them, so no bit can separate points")
    eigenvalues, vectors = eigenvalues[: -kept - 1 : -1], vectors[:, : -kept - 1 : -1]
    return Spectrum(eigenvalues, settled_signs(vectors))


class KernelHasher(ByKernel):
    """Base class of the families of kernelized LSH, with the bits sign(φ(x)ᵀv).

    φ(x) is the projection of a point x on principal components in the feature space of a kernel, and v is a
    random vector. In the centred form, the bits are sign((φ(x) − φ(μ))ᵀv) with the mean μ of the landmarks.

    Parameters
    ----------
    kernel : str or Kernel
        The kernel, or its name such as "chi2"; see `core.mercer.kernel.kernel_from`.
    n_landmarks : int
        Number m of landmarks. Hashing a point computes m values of the kernel.
    rank : int or None
        Number r of principal components of the landmarks, from 1 to m − 1. None uses all components with a
        positive eigenvalue.
    centred : bool
        Whether angles are measured from the mean μ of the landmarks; False is the published form.
    n_functions, random_state
        As in `SimilarityHasher`.

    Attributes
    ----------
    landmarks_ : array of shape (n_landmarks, n_features), float32
        The landmarks, as prepared by the kernel.
    means_ : array of shape (n_landmarks,), float32
        Mean of the rows of the landmarks' kernel matrix.
    basis_ : array of shape (n_landmarks, rank), float32
        U_r D_r^{−1/2}, where U_r and D_r contain the first r eigenvectors and eigenvalues of the landmarks'
        kernel matrix.
    vectors_ : array of shape (rank, n_functions), float32
        The vectors v as columns, drawn with the identity matrix as covariance.
    """

    kernel: str | Kernel
    landmarks_centred: ClassVar[bool] = True

    landmarks_: Floats32
    means_: Floats32
    basis_: Floats32
    vectors_: Floats32
    _fitted: ClassVar[tuple[str, ...]] = ("landmarks_", "means_", "basis_", "vectors_")
    _least: ClassVar[dict[str, int]] = {**ByKernel._least, "n_landmarks": 2}

    def __init__(
        self,
        *,
        kernel: str | Kernel = "chi2",
        n_landmarks: int = 1000,
        rank: int | None = None,
        centred: bool = True,
        n_functions: int = 256,
        random_state: int = 0,
    ) -> None:
        super().__init__(n_functions=n_functions, random_state=random_state)
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.rank = rank
        self.centred = centred

    def embedded(self, X: Rows) -> Floats32:
        """Return φ(x), or φ(x) − φ(μ) if centred, for each row x of X, of shape (n_samples, rank).

        φ(x) is the projection of x on the principal components, and μ the mean of the landmarks.
        """
        return self._embedded(self._rows(X))

    def angles(self, Q: Rows, X: Rows) -> Floats64:
        """Return the angles between `embedded` rows of Q and X in radians, of shape (n_queries, n_points).

        At an angle θ, one function agrees with probability 1 − θ/π, as for other random hyperplanes
        (`core.hashing.lsh`). This is exact if the vectors v are Gaussian.
        """
        q, x = self.embedded(Q).astype(np.float64), self.embedded(X).astype(np.float64)
        return angles_of(q @ x.T, (q * q).sum(axis=1), (x * x).sum(axis=1))

    def eigenvalues(self) -> Floats64:
        """Return the positive eigenvalues of the landmarks' kernel matrix, descending, in float64.

        The matrix is centred, except for `NystromLSH`. The family uses all or the first `rank` of the
        eigenvalues. Divided by the number of landmarks, the eigenvalues of the centred matrix estimate those
        of the covariance of all points in the feature space of the kernel.
        """
        return self._spectrum(self._landmark_kernel()).eigenvalues

    def restored(self, arrays: Arrays) -> Self:
        """See `SimilarityHasher.restored`."""
        super().restored(arrays)
        self._settle()
        return self

    def _fit(self, X: Rows, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:  # noqa: ARG002
        self._kernel = kernel_from(self.kernel)
        if X.shape[0] < self.n_landmarks:
            raise InputError(
                f"{self.name} needs at least as many rows as landmarks, {self.n_landmarks}, got {X.shape[0]}"
            )
        chosen = np.sort(rng.choice(X.shape[0], self.n_landmarks, replace=False))
        self.landmarks_ = self._kernel.prepared(X[chosen])
        K = self._landmark_kernel()
        found = self._spectrum(K)
        self.means_ = K.mean(axis=0).astype(np.float32)
        self.basis_ = found.basis(self.rank).astype(np.float32)
        self.vectors_ = self._draw(rng, found.vectors[:, : self.rank]).astype(np.float32)
        self._settle()

    def _landmark_kernel(self) -> Floats64:
        return self._kernel.values(self.landmarks_, self.landmarks_).astype(np.float64)

    def _spectrum(self, K: Floats64) -> Spectrum:
        what = f"the kernel {self._kernel.word} on {self.n_landmarks} landmarks"
        return spectrum(K, what, centred=self.landmarks_centred)

    def _draw(self, rng: np.random.Generator, U: Floats64) -> Floats64:
        """Return the random vectors v as columns, of shape (rank, n_functions)."""
        return rng.standard_normal((U.shape[1], self.n_functions))

    def _settle(self) -> None:
        basis, means = self.basis_.astype(np.float64), self.means_.astype(np.float64)
        self._weights = (basis @ self.vectors_).astype(np.float32)
        self._origin = np.zeros(basis.shape[1]) if self.centred else means @ basis
        self._shift = (self._origin @ self.vectors_).astype(np.float32)

    def _embedded(self, X: Rows) -> Floats32:
        K = self._kernel.values(X, self.landmarks_)
        return np.asarray((K - self.means_) @ self.basis_ + self._origin.astype(np.float32))

    def _values(self, X: Rows) -> Floats32:
        return self._of_kernel(self._kernel.values(X, self.landmarks_))

    def _of_kernel(self, K: Floats32) -> Floats32:
        """Return the numbers whose signs are the bits of points, of shape (n_samples, n_functions).

        A row of K contains the kernel values of one point and all landmarks. `means_` is subtracted from each
        row before the row is projected, because smaller numbers have smaller rounding errors in float32.
        """
        return np.asarray((K - self.means_) @ self._weights + self._shift)

    def _check(self) -> None:
        super()._check()
        if self.rank is not None and not 1 <= self.rank < self.n_landmarks:
            raise InputError(
                f"rank must be None or from 1 to {self.n_landmarks - 1}, one less than the number of "
                f"landmarks, got {self.rank}"
            )


class KernelizedLSH(KernelHasher):
    """Kernelized LSH with the published vectors v: each is the whitened sum of some random landmarks.

    Parameters
    ----------
    n_sampled : int
        Number of landmarks in the sum. With about 30 or more, v is approximately Gaussian.

    Other parameters are those of `KernelHasher`.

    Attributes
    ----------
    sampled_ : array of shape (n_functions, n_sampled), int64
        Indices of the landmarks in the sum of each bit.
    """

    name = "klsh"

    sampled_: NDArray[np.int64]
    _fitted: ClassVar[tuple[str, ...]] = (*KernelHasher._fitted, "sampled_")

    def __init__(
        self,
        *,
        kernel: str | Kernel = "chi2",
        n_landmarks: int = 1000,
        n_sampled: int = 50,
        rank: int | None = None,
        centred: bool = True,
        n_functions: int = 256,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            kernel=kernel,
            n_landmarks=n_landmarks,
            rank=rank,
            centred=centred,
            n_functions=n_functions,
            random_state=random_state,
        )
        self.n_sampled = n_sampled

    def _draw(self, rng: np.random.Generator, U: Floats64) -> Floats64:
        self.sampled_ = sampled_landmarks(rng, self.n_functions, self.n_sampled, len(U))
        return clt_vectors(self.sampled_, U)

    def _check(self) -> None:
        super()._check()
        if not 1 <= self.n_sampled < self.n_landmarks:
            raise InputError(
                f"n_sampled must be from 1 to {self.n_landmarks - 1}, one less than the number of landmarks, "
                f"got {self.n_sampled}"
            )


class KernelPCALSH(KernelHasher):
    """Kernelized LSH with a Gaussian vector v for each bit."""

    name = "kpca-lsh"


class NystromLSH(KernelHasher):
    """Kernelized LSH with a Gaussian vector v for each bit and components of the uncentred kernel matrix."""

    name = "nystrom-lsh"
    landmarks_centred = False


def hash_together(families: Sequence[KernelHasher], X: Rows) -> list[Codes]:
    """Return the codes of the points by each of several families, computing the kernel only once.

    Parameters
    ----------
    families : sequence of KernelHasher
        Families fitted to the same rows with the same `random_state`, `n_landmarks` and kernel, so that all
        have the same landmarks. The scale of the kernel's transformation may differ.
    X : array of shape (n_samples, n_features)
        The points.

    Raises
    ------
    InputError
        If the families do not have the same landmarks or the same kernel.
    """
    first = families[0]
    for other in families:
        words = first._kernel.flat.word, other._kernel.flat.word
        if words[0] != words[1]:
            raise InputError(
                f"families that hash together must have the same kernel apart from its scale, got {words[0]} "
                f"and {words[1]}"
            )
        if not np.array_equal(other.landmarks_, first.landmarks_):
            raise InputError("families that hash together must have the same landmarks")
    flat = first._kernel.flat
    parts: list[list[NDArray[np.bool_]]] = [
        [np.zeros((0, family.n_functions), dtype=np.bool_)] for family in families
    ]
    for block in row_blocks(first._rows(X)):
        K = flat.values(padded(block), first.landmarks_)
        for bits, family in zip(parts, families, strict=True):
            bits.append(family._of_kernel(family._kernel.of_flat(K))[: len(block)] >= 0)
    return [Codes.from_bits(np.concatenate(bits)) for bits in parts]


def sampled_landmarks(rng: np.random.Generator, n_functions: int, t: int, m: int) -> NDArray[np.int64]:
    """Draw t distinct landmarks out of m for each function; the result has shape (n_functions, t)."""
    return np.array([rng.choice(m, t, replace=False) for _ in range(n_functions)])


def clt_vectors(sampled: NDArray[np.int64], U: Floats64) -> Floats64:
    """Return one random vector per function: the sum of the rows of U for the function's sampled landmarks.

    U has a row for each landmark and an eigenvector in each column. The vectors are scaled so that their
    covariance is the identity matrix. The result has shape (rank, n_functions).
    """
    t, m = sampled.shape[1], len(U)
    variance = t * (m - t) / (m * (m - 1))
    return np.asarray(U[sampled].sum(axis=1).T / np.sqrt(variance))
