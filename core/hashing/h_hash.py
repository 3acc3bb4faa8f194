"""H-Hash: two bits per function; both bits agree most often for a hyperplane and the points near it.

References
----------
.. [1] P. Jain, S. Vijayanarasimhan, K. Grauman, "Hashing hyperplane queries to near points with applications
   to large-scale active learning", NIPS 2010.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.hashing.augment import Floats32, SparsePoints
from closecall.core.hashing.collision import Probabilities, pair_agrees
from closecall.core.hashing.hyperplane import HyperplaneHasher, Points
from closecall.core.hashing.projection import Vectors, combined, drawn
from closecall.core.linear.hyperplane import Hyperplane


class HHash(HyperplaneHasher):
    """H-Hash: [sign(uᵀx), sign(vᵀx)] for points, [sign(uᵀw), sign(−vᵀw)] for hyperplanes.

    The vectors u and v are Gaussian (Jain et al. 2010 [1]_, eq. 3).
    """

    bits = 2

    pairs_: Vectors
    _drawn = ("pairs_",)

    def collision_probability(self, theta: ArrayLike) -> Probabilities:
        """Return the probability that both bits of a function agree at the angle θ: 1/4 − (θ/π − 1/2)²."""
        return pair_agrees(theta)

    def _draw(self, Z: Points, rng: np.random.Generator) -> None:
        as_bytes = isinstance(Z, SparsePoints)
        self.pairs_ = drawn(rng, (Z.shape[1], 2 * self.n_functions), as_bytes=as_bytes)

    def _point_bits(self, Z: Points) -> NDArray[np.bool_]:
        return np.asarray(Z @ self.pairs_ >= 0)

    def _embedded_hyperplane(self, w: Floats32, hyperplane: Hyperplane) -> Floats32:  # noqa: ARG002
        return w

    def _projections(self, w: Floats32, embedded: Floats32 | None) -> Floats32:  # noqa: ARG002
        return combined(w, self.pairs_)

    def _hyperplane_bits(self, projections: Floats32) -> NDArray[np.bool_]:
        second = np.arange(len(projections)) % 2 == 1
        return np.asarray(np.where(second, -projections, projections) >= 0)

    def _n_embedded(self) -> int:
        return self.augmentation_.n_dimensions

    def _embedded(self, Z: Floats32) -> Floats32:
        return Z
