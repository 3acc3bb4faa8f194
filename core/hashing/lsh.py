"""Random-hyperplane LSH: the smaller the angle between two vectors, the more of their bits agree.

Each bit is h(x) = sign(rᵀx) with a Gaussian vector r, the normal of a random hyperplane. Two vectors at the
angle θ are on different sides of the hyperplane with probability θ/π. Therefore

    Pr[h(x) = h(y)] = 1 − θ(x, y)/π                                                (Charikar 2002 [1]_),

and the fraction of bits in which two codes differ estimates θ/π.

**Centring.** The feature vectors of images lie in a narrow cone around their mean μ. The angles between the
vectors are small, so the bits sign(rᵀx) are nearly the same for all images. Angles measured from the mean are
larger. By default, the bits are therefore sign(rᵀ(x − μ)). Centring does not change distances. If all rows
are about equally far from the mean, centring hardly changes which rows are nearest by angle. The bits are
computed as sign(rᵀx − rᵀμ), so sparse rows stay sparse.

References
----------
.. [1] M. Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.hashing.collision import Probabilities
from closecall.core.hashing.projection import Vectors, combined, drawn
from closecall.core.hashing.similarity import Floats32, Floats64, SimilarityHasher
from closecall.core.numerics.rows import Rows, is_sparse, products


class RandomHyperplaneLSH(SimilarityHasher):
    """Hash family with the bits sign(rᵀ(x − μ)), which agree with probability 1 − θ/π at the angle θ.

    Parameters
    ----------
    centred : bool
        Whether angles are measured from the mean μ of the rows passed to `fit`. Otherwise μ is zero.

    Other parameters are those of `SimilarityHasher`.
    """

    name = "lsh"
    estimates = "angle"
    radius_of = "angle"

    centre_: Floats64
    vectors_: Vectors
    offsets_: Floats32
    _fitted = ("centre_", "vectors_", "offsets_")

    def __init__(self, *, centred: bool = True, n_functions: int = 256, random_state: int = 0) -> None:
        super().__init__(n_functions=n_functions, random_state=random_state)
        self.centred = centred

    def between(self, Q: Rows, X: Rows) -> Floats64:
        """Return the angles between rows q of Q and x of X, of shape (n_queries, n_points).

        The angles are in radians. They are measured from the centre μ, that is, between q − μ and x − μ.
        """
        return angles(self._rows(Q), self._rows(X), self.centre_)

    def collision_probability(self, values: ArrayLike) -> Probabilities:
        """Return 1 − θ/π for each angle θ."""
        return same_side(values)

    def agreement_within(self, radius: float) -> float:
        """See `SimilarityHasher.agreement_within`."""
        return float(same_side(radius))

    def _fit(self, X: Rows, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:  # noqa: ARG002
        n_features = X.shape[1]
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        self.centre_ = mean if self.centred else np.zeros(n_features)
        self.vectors_ = drawn(rng, (n_features, self.n_functions), as_bytes=is_sparse(X))
        self.offsets_ = combined(self.centre_, self.vectors_).astype(np.float32)

    def _values(self, X: Rows) -> Floats32:
        return projected(X, self.vectors_) - self.offsets_


def same_side(theta: ArrayLike) -> Probabilities:
    """Return 1 − θ/π, the probability that two vectors at the angle θ have the same bit."""
    return np.asarray(1 - np.asarray(theta, dtype=np.float64) / np.pi)


def projected(X: Rows, vectors: Vectors) -> Floats32:
    """Return X @ vectors, of shape (n_samples, n_functions). BLAS is not used for a single dense row."""
    if is_sparse(X):
        return products(X, vectors)
    wide = vectors if vectors.dtype == np.float32 else vectors.astype(np.float32)
    if len(X) == 1:
        return combined(np.ascontiguousarray(X[0]), wide)[None]
    return np.asarray(X @ wide, dtype=np.float32)


def angles(Q: Rows, X: Rows, centre: Floats64) -> Floats64:
    """Return the angles in radians between rows of Q and X, measured from `centre`, in float64.

    The result has shape (n_queries, n_points). A row equal to the centre has no direction; its angle to every
    row is a right angle.
    """
    Q, X = Q.astype(np.float64), X.astype(np.float64)
    to_q, to_x = Q @ centre, X @ centre
    inner = Q @ X.T
    inner = inner.toarray() if is_sparse(inner) else inner
    inner = inner - to_q[:, None] - to_x[None, :] + centre @ centre
    return angles_of(inner, _squares(Q, to_q, centre), _squares(X, to_x, centre))


def angles_of(inner: Floats64, q_squares: Floats64, x_squares: Floats64) -> Floats64:
    """Return angles in radians, given inner products and squared norms of queries and points.

    The inner products and the result have the shape (n_queries, n_points).
    """
    norms = np.sqrt(np.maximum(np.outer(q_squares, x_squares), 0.0))
    cosines = np.divide(inner, norms, out=np.zeros_like(inner), where=norms > 0)
    return np.asarray(np.arccos(np.clip(cosines, -1.0, 1.0)))


def _squares(X: Rows, to_centre: Floats64, centre: Floats64) -> Floats64:
    own = X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
    return np.asarray(own).ravel() - 2 * to_centre + centre @ centre
