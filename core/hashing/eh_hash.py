"""EH-Hash: one bit per function, the sign of the inner product of a random matrix and xxᵀ, for a point x.

References
----------
.. [1] P. Jain, S. Vijayanarasimhan, K. Grauman, "Hashing hyperplane queries to near points with applications
   to large-scale active learning", NIPS 2010.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.augment import Floats32, SparsePoints
from closecall.core.hashing.collision import Probabilities, dense_agrees, rank_agrees
from closecall.core.hashing.hyperplane import MOST_EMBEDDED, HyperplaneHasher, Points
from closecall.core.hashing.projection import combined, drawn
from closecall.core.linear.hyperplane import Hyperplane

MOST_DENSE_FEATURES = 1_000
"""Maximum number of features for dense matrices."""

MOST_DENSE_ENTRIES = 300 * 1_001 * 1_002 // 2
"""Maximum number of entries of all dense matrices together; these entries take 600 MB."""

_AUTO_RANK = 4
_LEAST_BY_COORDINATE = 64
_MONOMIALS_AT_ONCE = 1 << 23


class EHHash(HyperplaneHasher):
    """EH-Hash: sign(⟨U, xxᵀ⟩) for points, sign(−⟨U, wwᵀ⟩) for hyperplanes.

    The matrix U of a function is random (Jain et al. 2010 [1]_, eq. 6).

    Parameters
    ----------
    rank : int, "dense" or "auto"
        The form of U, for augmented points of d dimensions. "dense", as in [1]_, is a d × d matrix of
        independent Gaussians, which costs O(d²) per function. An integer r gives U = Σ_j u_j v_jᵀ with 2r
        independent Gaussian vectors, which costs O(rd). A low rank is slightly less informative: rank 4 keeps
        88 % of the signal (see `core.hashing.collision`). "auto" is dense if the dense form costs no more
        than rank 4, that is, up to 14 features or directions.
    query_samples : int or None
        Number t of entries v_i that a query samples from v = vec(wwᵀ), only for the dense form. None uses all
        d² entries. Entry v_i is drawn with a probability p_i proportional to its square (Lemma 3.4 of [1]_)
        and rescaled to v_i/(t·p_i). The lemma as printed omits the rescaling, but the sampled vector ṽ would
        be biased without it. Sampling increases ‖ṽ‖² to about 1 + d²/(2t), so the fraction
        (1 + d²/(2t))^(−1/2) of the signal remains. For t = 1/ε′² = 10,000 as in [1]_, the fraction is about a
        third at d = 385 and about 97 % at d = 33.

    Other parameters are those of `HyperplaneHasher`.
    """

    def __init__(
        self,
        *,
        rank: int | Literal["dense", "auto"] = "auto",
        query_samples: int | None = None,
        n_functions: int = 300,
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
        self.rank = rank
        self.query_samples = query_samples

    def collision_probability(self, theta: ArrayLike) -> Probabilities:
        """Return the probability that a bit agrees at the angle θ, assuming that `query_samples` is None."""
        return dense_agrees(theta) if self.rank_ is None else rank_agrees(theta, self.rank_)

    def check(self) -> None:
        """See `HyperplaneHasher.check`."""
        super().check()
        if self.rank not in ("auto", "dense") and not (isinstance(self.rank, int) and self.rank >= 1):
            raise InputError(f'rank must be "auto", "dense" or at least 1, got {self.rank!r}')
        if self.query_samples is not None and self.query_samples < 1:
            raise InputError(f"query_samples must be at least 1 or None, got {self.query_samples}")

    @property
    def _drawn(self) -> tuple[str, ...]:
        return ("factors_",) if self.rank_ else ("dense_",)

    def _settle(self, n_dimensions: int) -> None:
        n_entries = n_dimensions * (n_dimensions + 1) // 2
        dense = self.rank == "dense" or (self.rank == "auto" and n_entries <= 2 * _AUTO_RANK * n_dimensions)
        self.rank_ = None if dense else _AUTO_RANK if self.rank == "auto" else int(self.rank)
        if dense and n_dimensions > MOST_DENSE_FEATURES + 1:
            raise InputError(
                f"rank='dense' takes at most {MOST_DENSE_FEATURES:,} features, got {n_dimensions - 1:,}"
            )
        if dense and self.n_functions * n_entries > MOST_DENSE_ENTRIES:
            raise InputError(
                f"rank='dense' with {self.n_functions} functions in {n_dimensions} dimensions needs "
                f"{self.n_functions * n_entries} numbers, but at most {MOST_DENSE_ENTRIES} are allowed"
            )
        if self.query_samples is not None and not dense:
            raise InputError(
                f"query_samples needs rank='dense', got rank={self.rank!r} in {n_dimensions} dimensions: "
                f"at rank {self.rank_} a full query costs less than a sample"
            )
        if dense or n_entries <= MOST_EMBEDDED:
            self.entries_ = np.triu_indices(n_dimensions)
            self.multiplicity_ = np.where(np.equal(*self.entries_), 1, 2).astype(np.float32)

    def _draw(self, Z: Points, rng: np.random.Generator) -> None:
        as_bytes = isinstance(Z, SparsePoints)
        if self.rank_ is not None:
            shape = (Z.shape[1], self.rank_ * 2 * self.n_functions)
            self.factors_ = drawn(rng, shape, as_bytes=as_bytes)
        else:
            # ⟨U, zzᵀ⟩ only depends on the sums U_ij + U_ji, which have variance 2 off the diagonal.
            self.dense_ = rng.standard_normal((self._n_embedded(), self.n_functions), dtype=np.float32)
            self.dense_ *= np.sqrt(self.multiplicity_)[:, None]

    def _point_bits(self, Z: Points) -> NDArray[np.bool_]:
        return np.asarray(self._forms(Z) >= 0)

    def _hyperplane_bits(self, projections: Floats32) -> NDArray[np.bool_]:
        return np.asarray(projections <= 0)

    def _n_embedded(self) -> int:
        n = self.augmentation_.n_dimensions
        return n * (n + 1) // 2

    def _embedded(self, Z: Floats32) -> Floats32:
        """Return the upper triangle of zzᵀ for each row z of Z."""
        i, j = self.entries_
        return np.asarray(Z[:, i] * Z[:, j])

    def _forms(self, Z: Points) -> Floats32:
        """Return ⟨U, zzᵀ⟩ for each row z and each function, of shape (len(Z), n_functions)."""
        if self.rank_ is not None:
            return self._products(Z @ self.factors_)
        Z = Z.dense() if isinstance(Z, SparsePoints) else Z
        if Z.shape[1] >= _LEAST_BY_COORDINATE:
            return self._forms_by_coordinate(Z)
        step = max(1, _MONOMIALS_AT_ONCE // self._n_embedded())
        parts = [Z[first : first + step] for first in range(0, len(Z), step)]
        return np.concatenate([self._embedded(part) @ self.dense_ for part in parts])

    def _forms_by_coordinate(self, Z: Floats32) -> Floats32:
        """Return ⟨U, zzᵀ⟩ for dense U as Σ_i z_i Σ_j≥i U_ij z_j, without storing all products z_i z_j."""
        total = np.zeros((len(Z), self.n_functions), dtype=np.float32)
        first = 0
        for i in range(Z.shape[1]):
            last = first + Z.shape[1] - i
            total += Z[:, i : i + 1] * (Z[:, i:] @ self.dense_[first:last])
            first = last
        return total

    def _embeds(self) -> bool:
        return super()._embeds() or self.rank_ is None

    def _embedded_hyperplane(self, w: Floats32, hyperplane: Hyperplane) -> Floats32:
        """Return the upper triangle of wwᵀ with off-diagonal entries doubled, or a sampled estimate of it."""
        if self.query_samples is None or not w.any():
            return np.asarray(self._embedded(w[None])[0] * self.multiplicity_)
        rng = np.random.default_rng([self.random_state, int(hyperplane.digest, 16)])
        return _sampled(w, self.query_samples, rng)

    def _projections(self, w: Floats32, embedded: Floats32 | None) -> Floats32:
        if self.rank_ is not None or embedded is None:
            return np.asarray(self._products(combined(w, self.factors_)[None])[0])
        if self.query_samples is None:
            return combined(embedded / self.multiplicity_, self.dense_)
        drawn = np.flatnonzero(embedded)
        return combined(embedded[drawn] / self.multiplicity_[drawn], self.dense_[drawn])

    def _products(self, projected: Floats32) -> Floats32:
        """Return Σ_j (u_jᵀz)(v_jᵀz) for all functions, from the projections of z on all u_j and v_j."""
        factors = projected.reshape(len(projected), -1, 2, self.n_functions)
        total = factors[:, 0, 0] * factors[:, 0, 1]
        for term in range(1, factors.shape[1]):
            total += factors[:, term, 0] * factors[:, term, 1]
        return total


def _sampled(w: Floats32, samples: int, rng: np.random.Generator) -> Floats32:
    """Return an unbiased estimate of e, the upper triangle of wwᵀ with off-diagonal entries doubled.

    The function draws `samples` of the d² entries of wwᵀ with replacement. It draws i and j independently, so
    entry (i, j) has the probability p = w_i² w_j² / ‖w‖⁴. Each draw adds w_i w_j / (samples · p) to the
    estimate.
    """
    n = len(w)
    weights = w.astype(np.float64) ** 2
    i, j = rng.choice(n, size=(2, samples), p=weights / weights.sum())
    values = weights.sum() ** 2 / (samples * w[i].astype(np.float64) * w[j])
    low, high = np.minimum(i, j), np.maximum(i, j)
    places = low * (2 * n - low - 1) // 2 + high
    return np.bincount(places, values, minlength=n * (n + 1) // 2).astype(np.float32)
