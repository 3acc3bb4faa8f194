"""Random Fourier features: cosines whose products equal the Gaussian kernel in expectation.

A kernel that only depends on x − y is the Fourier transform of a probability density (Bochner's theorem). For
κ(x, y) = exp(−γ‖x − y‖²), it is the normal density N(0, 2γI). Draw D vectors w from this density, and D
phases b uniformly from [0, 2π). The D features of a point x are

    z(x) = √(2/D) cos(wᵀx + b),    E[z(x)ᵀz(y)] = κ(x, y),                                           ([1]_)

since 2 cos(wᵀx + b) cos(wᵀy + b) = cos(wᵀ(x − y)) + cos(wᵀ(x + y) + 2b), and the second term is 0 on average.
The mean squares of the two terms are (1 + κ⁴)/2 and 1/2, and the mean of their product is 0, so

    Var[z(x)ᵀz(y)] = (1 + κ⁴/2 − κ²)/D.

Sparse rows are multiplied by Gaussian numbers rounded to bytes (`core.hashing.projection`). The rounding has
the same effect as increasing γ by 0.008 %.

References
----------
.. [1] A. Rahimi, B. Recht, "Random features for large-scale kernel machines", NIPS 2007.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.base import row_blocks
from closecall.core.hashing.lsh import projected
from closecall.core.hashing.projection import UNIT, Vectors, drawn
from closecall.core.linear.hyperplane import euclidean
from closecall.core.numerics.rows import Rows

Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]

_NEIGHBOUR = 50
_MOST_QUERIES = 1_000
_SAME = 1e-6
"""Distance below which two unit rows are considered equal; rounding errors are smaller."""


@dataclass(frozen=True, eq=False)
class Waves:
    """Random vectors w and phases b of the features cos(wᵀx + b).

    Parameters
    ----------
    vectors : array of shape (n_features, n_waves), float32 or int8
        The vectors w as columns, divided by √(2γ); if int8, in units of 1/32.
    phases : array of shape (n_waves,), float32
        The phases b, from 0 to 2π.
    gamma : float
        Parameter γ of the kernel exp(−γ‖x − y‖²).
    """

    vectors: Vectors
    phases: Floats32
    gamma: float

    @classmethod
    def drawn(
        cls, rng: np.random.Generator, n_features: int, n_waves: int, gamma: float, *, as_bytes: bool = False
    ) -> Waves:
        """Draw the vectors and phases for the kernel exp(−γ‖x − y‖²), with int8 vectors if `as_bytes`.

        Raises
        ------
        InputError
            If gamma is not positive.
        """
        require_bandwidth(gamma)
        vectors = drawn(rng, (n_features, n_waves), as_bytes=as_bytes)
        phases = rng.uniform(0, 2 * np.pi, n_waves).astype(np.float32)
        return cls(vectors, phases, gamma)

    def heights(self, X: Rows) -> Floats32:
        """Return cos(wᵀx + b) for each row x of X, of shape (n_samples, n_waves)."""
        unit = UNIT if self.vectors.dtype == np.int8 else 1.0
        turns = projected(X, self.vectors) * np.float32(unit * np.sqrt(2 * self.gamma))
        turns += self.phases
        return np.asarray(np.cos(turns, out=turns))

    def features(self, X: Rows) -> Floats32:
        """Return the random Fourier features √(2/n_waves) cos(wᵀx + b) for each row x of X.

        The result has shape (n_samples, n_waves).
        """
        return self.heights(X) * np.float32(np.sqrt(2 / len(self.phases)))


def variance(kappa: ArrayLike, n_waves: int) -> Floats64:
    """Return the variance of estimates of the kernel value `kappa` by products of random Fourier features.

    The variance is over random draws of `n_waves` features.
    """
    squares = np.asarray(kappa, dtype=np.float64) ** 2
    return np.asarray((1 + squares**2 / 2 - squares) / n_waves)


def gaussian(Q: Rows, X: Rows, gamma: float) -> Floats64:
    """Return exp(−γ‖q − x‖²) for each row q of Q and x of X, of shape (n_queries, n_points)."""
    return np.asarray(np.exp(-gamma * euclidean(Q, X) ** 2))


def bandwidth(X: Rows, rng: np.random.Generator, most_queries: int = _MOST_QUERIES) -> float:
    """Return γ = 1/(2r²), where r is the mean distance of a row to its 50th nearest neighbour in X.

    If X has at most 50 rows, r is the mean distance to the most distant row. The mean is over at most
    `most_queries` rows.

    Raises
    ------
    InputError
        If r is zero up to rounding.
    """
    n = X.shape[0]
    place = min(_NEIGHBOUR, n - 1)
    asked = X[np.sort(rng.permutation(n)[:most_queries])]
    near = np.empty((asked.shape[0], 0))
    for block in row_blocks(X):
        far = np.concatenate([near, euclidean(asked, block)], axis=1)
        near = np.partition(far, min(place, far.shape[1] - 1), axis=1)[:, : place + 1]
    r = float(near.max(axis=1).mean())
    if r < _SAME:
        raise InputError(
            "gamma must be given: it cannot be estimated, because the rows are equal to their neighbours"
        )
    return 0.5 * r**-2


def require_bandwidth(gamma: float) -> None:
    """Raise InputError unless `gamma` is positive and finite."""
    if not 0 < gamma < np.inf:
        raise InputError(f"gamma must be positive and finite, got {gamma}")
