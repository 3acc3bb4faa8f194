"""Kernels in the sense of Mercer: similarities κ(x, y) that are inner products in some feature space.

(Compiled loops, as in `core.numerics.jit`, are called kernels too, but are unrelated.)

All kernels here are normalised: κ(x, x) = 1. For this purpose, each row is scaled once before it is compared
(`Kernel.prepared`), which saves a division by √(κ(x, x)·κ(y, y)) for each pair. Equation numbers are those of
[1]_.

===============  ==========================  =================================  ===========================
name             prepared rows               κ(x, y)                            2·(1 − κ(x, y))
===============  ==========================  =================================  ===========================
`Cosine`         unit Euclidean norm         xᵀy                                ‖x − y‖²
`ChiSquared`     histograms: they add to 1   Σ 2·x_f·y_f/(x_f + y_f)  (eq. 20)  Σ (x_f − y_f)²/(x_f + y_f)
`Intersection`   histograms: they add to 1   Σ min(x_f, y_f)  (eq. 21)          Σ |x_f − y_f|
`Learned`        Gx scaled to unit norm      xᵀAy / √(xᵀAx · yᵀAy)              ‖x' − y'‖²
===============  ==========================  =================================  ===========================

The sums are over all features f of the prepared rows x and y. For `Learned`, A = GᵀG is the metric, and x'
and y' are the prepared rows of x and y.

**The monotone transformation** `Transformed`, exp(s·(κ − 1)) (eq. 19), preserves every ranking and makes the
eigenvalues of κ decay more slowly. With the last column as a distance, the transformed kernel is
exp(−s/2 · distance). The Gaussian RBF kernel with parameter γ on unit rows is therefore the transformed
`Cosine` with s = 2γ, the exponential χ² kernel exp(−γ·χ²) is the transformed `ChiSquared`, and the Laplacian
kernel is the transformed `Intersection`.

χ² and intersection are kernels of histograms, so features must not be negative. GIST and edge histograms as
stored in a pool are valid; centred or projected features are not.

References
----------
.. [1] K. Jiang, Q. Que, B. Kulis: Revisiting Kernelized Locality-Sensitive Hashing for Improved Large-Scale
   Image Retrieval, CVPR 2015.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.mercer import sums
from closecall.core.numerics.rows import Rows, is_sparse

Matrix = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]


class Kernel(ABC):
    """A normalised kernel κ on the rows of dense matrices; immutable."""

    @property
    @abstractmethod
    def word(self) -> str:
        """Name of the kernel with its parameters, such as "chi2:scale=5"; `kernel_from` accepts it."""

    @abstractmethod
    def prepared(self, X: Rows) -> Matrix:
        """Scale the rows of X for comparison; return a C-contiguous float32 array.

        X has shape (n_samples, n_features).

        Raises
        ------
        InputError
            If the kernel does not apply to a row; the message names the row and the reason.
        """

    @abstractmethod
    def values(self, A: Matrix, B: Matrix) -> Matrix:
        """Return κ for each pair of a row of A and a row of B, of shape (len(A), len(B)), float32.

        All rows must be `prepared`. Callers must keep the number of pairs small enough for memory.
        """

    @property
    def flat(self) -> Kernel:
        """The untransformed kernel: this kernel itself, unless it is `Transformed`."""
        return self

    def of_flat(self, values: Matrix) -> Matrix:
        """Return the values of this kernel, given the `values` of the untransformed kernel `flat`."""
        return values

    def matrix(self, X: Rows, Y: Rows) -> Matrix:
        """Return κ for each pair of a row of X and a row of Y, of shape (n_samples_X, n_samples_Y).

        Raises
        ------
        InputError
            See `prepared`.
        """
        return self.values(self.prepared(X), self.prepared(Y))

    def arrays(self) -> Arrays:
        """Return the arrays that `kernel_from` needs in addition to `word`, by name."""
        return {}


@dataclass(frozen=True)
class Cosine(Kernel):
    """The cosine of the angle between two rows."""

    word: ClassVar[str] = "cosine"

    def prepared(self, X: Rows) -> Matrix:
        """Return rows of unit Euclidean norm; see `Kernel.prepared`."""
        return _scaled(_finite(X, self.word), 2, self.word)

    def values(self, A: Matrix, B: Matrix) -> Matrix:
        """See `Kernel.values`."""
        return np.asarray(A @ B.T)


@dataclass(frozen=True)
class ChiSquared(Kernel):
    """The additive χ² kernel of two histograms."""

    word: ClassVar[str] = "chi2"

    def prepared(self, X: Rows) -> Matrix:
        """Return rows that add to 1; see `Kernel.prepared`."""
        return _histograms(X, self.word)

    def values(self, A: Matrix, B: Matrix) -> Matrix:
        """See `Kernel.values`."""
        out = np.empty((len(A), len(B)), dtype=np.float32)
        sums.chi_squared(A, B, out)
        return out


@dataclass(frozen=True)
class Intersection(Kernel):
    """The intersection of two histograms."""

    word: ClassVar[str] = "intersection"

    def prepared(self, X: Rows) -> Matrix:
        """Return rows that add to 1; see `Kernel.prepared`."""
        return _histograms(X, self.word)

    def values(self, A: Matrix, B: Matrix) -> Matrix:
        """See `Kernel.values`."""
        out = np.empty((len(A), len(B)), dtype=np.float32)
        sums.intersection(A, B, out)
        return out


@dataclass(frozen=True)
class Transformed(Kernel):
    """The transformed kernel exp(s·(κ − 1)), which ranks rows in the same order as κ.

    If s is large, the eigenvalues decay more slowly than the eigenvalues of κ.

    Parameters
    ----------
    kernel : Kernel
        The kernel κ.
    scale : float
        The factor s; positive.

    Raises
    ------
    InputError
        If the scale is not positive and finite.
    """

    kernel: Kernel
    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf:
            raise InputError(
                f"the scale of a transformed kernel must be positive and finite, got {self.scale}"
            )

    @property
    def word(self) -> str:
        """Name of the untransformed kernel, followed by the exact scale: for example, "chi2:scale=5"."""
        separator = "," if ":" in self.kernel.word else ":"
        return f"{self.kernel.word}{separator}scale={str(float(self.scale)).removesuffix('.0')}"

    @property
    def flat(self) -> Kernel:
        """The untransformed kernel."""
        return self.kernel.flat

    def of_flat(self, values: Matrix) -> Matrix:
        """See `Kernel.of_flat`."""
        inner = self.kernel.of_flat(values)
        return np.asarray(np.exp(np.float32(self.scale) * (inner - np.float32(1))))

    def prepared(self, X: Rows) -> Matrix:
        """Return the rows as prepared by the untransformed kernel; see `Kernel.prepared`."""
        return self.kernel.prepared(X)

    def values(self, A: Matrix, B: Matrix) -> Matrix:
        """See `Kernel.values`."""
        return self.of_flat(self.flat.values(A, B))

    def arrays(self) -> Arrays:
        """Return the arrays of the untransformed kernel."""
        return self.kernel.arrays()


class Learned(Kernel):
    """The cosine under a learned Mahalanobis metric A.

    Parameters
    ----------
    A : array of shape (n_features, n_features)
        The metric, symmetric and positive semidefinite, such as `core.metric.ExplicitMetric.A`.

    Raises
    ------
    InputError
        If A is not symmetric or not positive semidefinite.
    """

    word = "learned"

    def __init__(self, A: NDArray[np.floating[Any]]) -> None:
        metric = np.asarray(A, dtype=np.float64)
        if metric.ndim != 2 or metric.shape[0] != metric.shape[1] or not np.isfinite(metric).all():
            raise InputError(f"a metric must be a square matrix of finite numbers, got shape {metric.shape}")
        if not np.allclose(metric, metric.T, rtol=1e-6, atol=1e-9 * np.abs(metric).max(initial=0)):
            raise InputError("a metric must be symmetric, got one that is not")
        eigenvalues, vectors = np.linalg.eigh((metric + metric.T) / 2)
        require_positive(eigenvalues, "the metric")
        roots = np.sqrt(np.maximum(eigenvalues, 0))
        self._G = np.ascontiguousarray((vectors * roots).T, dtype=np.float32)
        self._A = metric

    def prepared(self, X: Rows) -> Matrix:
        """Return Gx for each row x, scaled to unit norm; see `Kernel.prepared`."""
        X = _finite(X, self.word)
        if X.shape[1] != len(self._G):
            raise InputError(f"the metric has {len(self._G)} features, but the rows have {X.shape[1]}")
        return _scaled(X @ self._G.T, 2, self.word)

    def values(self, A: Matrix, B: Matrix) -> Matrix:
        """See `Kernel.values`."""
        return np.asarray(A @ B.T)

    def arrays(self) -> Arrays:
        """Return the metric."""
        return {"metric": self._A}


KERNELS: dict[str, type[Cosine | ChiSquared | Intersection]] = {
    kernel.word: kernel for kernel in (Cosine, ChiSquared, Intersection)
}


def rbf(gamma: float) -> Transformed:
    """Return the kernel exp(−γ‖x − y‖²) on unit rows; raises InputError unless 0 < γ < ∞."""
    return Transformed(Cosine(), 2 * gamma)


def kernel_from(word: str | Kernel, arrays: Arrays | None = None) -> Kernel:
    """Return the kernel with this name, such as ``chi2``, ``intersection:scale=5`` or ``rbf:gamma=2``.

    Parameters
    ----------
    word : str or Kernel
        ``cosine``, ``chi2``, ``intersection`` or ``learned``, optionally with a scale, or ``rbf`` with its
        gamma. A kernel is returned unchanged.
    arrays : dict, optional
        The result of `Kernel.arrays`; only ``learned``, the kernel of a learned metric, needs it.

    Raises
    ------
    InputError
        If there is no such kernel, or a number is missing or out of range.
    """
    if isinstance(word, Kernel):
        return word
    name, _, rest = word.partition(":")
    numbers = [part.partition("=") for part in rest.split(",")] if rest else []
    if name == "rbf":
        if not numbers or numbers[0][0] != "gamma":
            raise InputError(f"the kernel rbf needs a bandwidth, as in rbf:gamma=2, got {word!r}")
        kernel: Kernel = rbf(_number(numbers.pop(0)[2], word))
    elif name == Learned.word and arrays is not None and "metric" in arrays:
        kernel = Learned(arrays["metric"])
    elif name in KERNELS:
        kernel = KERNELS[name]()
    else:
        raise InputError(f"kernel must be one of {', '.join(KERNELS)}, rbf:gamma=…, got {word!r}")
    for parameter, _, number in numbers:
        if parameter != "scale":
            raise InputError(f"the kernel {name} only takes a scale, as in {name}:scale=5, got {word!r}")
        kernel = Transformed(kernel, _number(number, word))
    return kernel


def require_positive(eigenvalues: NDArray[np.float64], what: str, *, at_least: float = 0.0) -> None:
    """Raise InputError if an eigenvalue is more negative than rounding errors can explain.

    Parameters
    ----------
    eigenvalues : array of shape (n,)
        Eigenvalues of a symmetric matrix whose entries were rounded to float32.
    what : str
        Subject of the error message: what must be positive semidefinite.
    at_least : float
        Rounding errors are assumed to be proportional to the largest eigenvalue, or to `at_least` if this is
        larger.
    """
    least, most = float(eigenvalues.min()), float(eigenvalues.max())
    if least < -_ROUNDING * max(most, at_least):
        raise InputError(
            f"{what} is not positive semidefinite: its smallest eigenvalue is {least:.3g}, "
            f"its largest {most:.3g}"
        )


_ROUNDING = 1e-6

_AT_ONCE = 8_192
"""Number of rows whose norms are computed in float64 together."""


def _number(text: str, word: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{text!r} in {word!r} is not a number") from None


def _finite(X: Rows, word: str) -> Matrix:
    if is_sparse(X):
        raise InputError(f"the kernel {word} needs dense rows, got sparse ones")
    dense: Matrix = np.ascontiguousarray(X, dtype=np.float32)
    if dense.ndim != 2:
        raise InputError(f"the kernel {word} needs rows of shape (n_samples, n_features), got {dense.shape}")
    bad = np.flatnonzero(~np.isfinite(dense).all(axis=1))
    if bad.size:
        raise InputError(
            f"features must be finite for the kernel {word}, but row {bad[0]} has NaN or infinity"
        )
    return dense


OF_HISTOGRAMS = (ChiSquared.word, Intersection.word)
"""Names of the kernels that refuse negative features."""

ROUNDING = 1e-3
"""Magnitude up to which these kernels take a negative feature for zero: byte pools round features."""


def _histograms(X: Rows, word: str) -> Matrix:
    X = _finite(X, word)
    if X.size and X.min() < 0:
        if X.min() >= -ROUNDING:
            nonnegative: Matrix = np.maximum(X, np.float32(0))
            return nonnegative
        row = int(np.flatnonzero((X < -ROUNDING).any(axis=1))[0])
        raise InputError(
            f"the kernel {word} compares histograms, and row {row} has the negative feature "
            f"{X[row].min():.3g}: use the kernel cosine, or features without negative values"
        )
    return _scaled(X, 1, word)


def _scaled(X: Matrix, order: int, word: str) -> Matrix:
    norms = np.empty(len(X))
    for first in range(0, len(X), _AT_ONCE):
        part = X[first : first + _AT_ONCE].astype(np.float64)
        norms[first : first + len(part)] = np.linalg.norm(part, ord=order, axis=1)
    zero = np.flatnonzero(norms == 0)
    if zero.size:
        raise InputError(f"the kernel {word} cannot compare row {zero[0]}, because it is all zeros")
    scaled: Matrix = np.divide(X, norms[:, None].astype(np.float32))
    return scaled
