"""BH-Hash with random functions, and LBH-Hash, which learns one function after another from a sample.

Codes of random functions are informative only if they have many bits. LBH-Hash [1]_ learns the vectors u and
v of each bit sign(uᵀx)·sign(vᵀx). The codes of two sample points x and x' should agree if |cos(x, x')| is
large, and disagree if it is small. The code of a hyperplane is the code of its normal w with all bits
flipped, so it agrees with the codes of points orthogonal to w. The desired agreement of a pair of points is

    S = 1 where |cos| ≥ t₁,  −1 where |cos| ≤ t₂,  and 2|cos| − 1 between,

where t₁ and t₂ are the means of the largest 5 % and of the smallest 5 % of |cos| over the pairs. The matrix X
has the sample points as rows, and B has their codes of k bits as rows of ±1. The objective is to minimise
‖BBᵀ/k − S‖². Bits are learned one by one. Let R = kS − Σ bbᵀ be the residue after the bits learned so far,
where each b is a column of B. The next b should maximise bᵀRb. The signs in b are smoothed to
b̃ = φ(uᵀx · xᵀv), φ(t) = 2/(1 + e⁻ᵗ) − 1. Nesterov's accelerated gradient method starts from random u and v
and minimises

    g(u, v) = −b̃ᵀR b̃,   ∇_u g = −Xᵀ[(R b̃) ⊙ (1 − b̃²) ⊙ Xv],   ∇_v g = −Xᵀ[(R b̃) ⊙ (1 − b̃²) ⊙ Xu].

The gradients follow from φ' = (1 − φ²)/2 and the symmetry of R. The points are first augmented
(`core.hashing.augment`), then scaled to unit norm. Scaling does not change the cosines.

References
----------
.. [1] W. Liu, J. Wang, Y. Mu, S. Kumar, S.-F. Chang, "Compact hyperplane hashing with bilinear functions",
   ICML 2012.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.augment import Floats32, SparsePoints
from closecall.core.hashing.descent import descended as descend
from closecall.core.hashing.eh_hash import EHHash
from closecall.core.hashing.hyperplane import Points

Floats64 = NDArray[np.float64]

_TAIL = 0.05
_STEPS = 60
_LEAST_GAIN = 1e-4
MOST_SPARSE_FEATURES = 4_000
"""Maximum number of features of sparse rows to learn from, because learning makes these rows dense."""


class BHHash(EHHash):
    """BH-Hash: sign(uᵀx)·sign(vᵀx) for points, −sign(uᵀw)·sign(vᵀw) for hyperplanes.

    BH-Hash (Liu et al. 2012 [1]_) is EH-Hash with a matrix U = uvᵀ of rank 1, where u and v are Gaussian.

    Parameters are those of `HyperplaneHasher`.
    """

    def __init__(
        self,
        *,
        n_functions: int = 300,
        centred: bool = True,
        scale: float = 1.0,
        n_directions: int | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            rank=1,
            n_functions=n_functions,
            centred=centred,
            scale=scale,
            n_directions=n_directions,
            random_state=random_state,
        )


class LBHHash(BHHash):
    """LBH-Hash: BH-Hash with learned vectors u and v.

    Learning n functions from m rows takes about n · m² · 10⁻⁷ seconds, so use few functions.
    `collision_probability` returns the probability for random functions, as in `BHHash`.

    Parameters
    ----------
    n_samples : int
        Maximum number of rows to learn from, drawn at random from the rows passed to `fit`.

    Other parameters are those of `HyperplaneHasher`.
    """

    def __init__(
        self,
        *,
        n_samples: int = 1000,
        n_functions: int = 32,
        centred: bool = True,
        scale: float = 1.0,
        n_directions: int | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            n_functions=n_functions,
            centred=centred,
            scale=scale,
            n_directions=n_directions,
            random_state=random_state,
        )
        self.n_samples = n_samples

    def check(self) -> None:
        """See `HyperplaneHasher.check`."""
        super().check()
        if self.n_samples < 1:
            raise InputError(f"n_samples must be at least 1, got {self.n_samples}")

    def _draw(self, Z: Points, rng: np.random.Generator) -> None:
        if isinstance(Z, SparsePoints) and Z.shape[1] - 1 > MOST_SPARSE_FEATURES:
            raise InputError(
                f"lbh-hash learns from sparse rows of at most {MOST_SPARSE_FEATURES:,} features, "
                f"got {Z.shape[1] - 1:,}: lbh-hash-weighted projects them on n_directions"
            )
        Z = Z.dense() if isinstance(Z, SparsePoints) else Z
        some = rng.permutation(len(Z))[: self.n_samples]
        X = Z[some] / np.linalg.norm(Z[some], axis=1, keepdims=True)
        start = rng.standard_normal((self.n_functions, 2, Z.shape[1]), dtype=np.float32)
        learned = learn(X.astype(np.float32), start)
        self.factors_ = np.ascontiguousarray(learned.transpose(2, 1, 0).reshape(Z.shape[1], -1))


def wanted_agreement(X: Floats32) -> Floats32:
    """Return the desired agreement, from −1 to 1, of the codes of each pair of unit rows in X."""
    cosines = np.abs(X @ X.T)
    ordered = np.sort(cosines, axis=None)
    tail = max(1, int(_TAIL * len(ordered)))
    t1, t2 = ordered[-tail:].mean(), ordered[:tail].mean()
    S: Floats32 = 2 * cosines - 1
    S[cosines >= t1] = 1
    S[cosines <= t2] = -1
    return S


def learn(X: Floats32, start: Floats32) -> Floats32:
    """Learn the vectors (u, v) of each bit, and return them in an array of the shape of `start`.

    Parameters
    ----------
    X : array of shape (n_samples, n_dimensions)
        Unit rows.
    start : array of shape (n_functions, 2, n_dimensions)
        Starting points of each u and v.
    """
    found = np.empty_like(start)
    R = len(start) * wanted_agreement(X)
    for function, first in enumerate(start):
        found[function] = descended(X, R, first)
        b = signs(X, found[function])
        R -= np.outer(b, b)
    return found


def signs(X: Floats32, pair: Floats32) -> Floats32:
    """Return sign(uᵀx)·sign(vᵀx) of the rows of X as ±1, of shape (len(X),); `pair` is (u, v)."""
    return np.where((X @ pair.T).prod(axis=1) >= 0, np.float32(1), np.float32(-1))


def objective(X: Floats32, R: Floats32, pair: Floats64) -> tuple[float, Floats64]:
    """Return the objective g(u, v) of a bit (see the module), and its gradients with respect to u and v.

    The gradients are the two rows of an array of shape (2, n_dimensions).
    """
    projected = X @ pair.T.astype(np.float32)
    smooth = np.tanh(projected[:, 0] * projected[:, 1] / 2)
    pulled = R @ smooth
    slopes = pulled * (1 - smooth**2)
    # The gradient with respect to u contains Xv, and that with respect to v contains Xu. The columns are
    # therefore reversed.
    gradient = -(slopes[:, None] * projected[:, ::-1]).T @ X
    return -float(smooth.astype(np.float64) @ pulled), gradient.astype(np.float64)


def descended(X: Floats32, R: Floats32, start: Floats32) -> Floats32:
    """Return the vectors (u, v) with the smallest `objective` found by gradient descent from `start`."""

    def g(pair: Floats64) -> tuple[float, Callable[[], Floats64]]:
        value, gradient = objective(X, R, pair)
        return value, lambda: gradient

    found = descend(g, start.astype(np.float64), steps=_STEPS, least_gain=_LEAST_GAIN)
    return found.astype(np.float32)
