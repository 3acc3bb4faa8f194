"""Hash families whose values tend to agree for a hyperplane and the points near it.

A function hashes a point x and the normal w of a hyperplane in the same way, apart from a flipped sign for w.
The values agree most often if x is orthogonal to w, that is, if x lies on the hyperplane. `HHash` has two
bits per function, and both bits must agree. `EHHash` and `BHHash` have one bit per function. Both x and w are
augmented first (see `core.hashing.augment`), and `collision_probability` takes the angle between the
augmented vectors.

Counting the bits that agree with a hyperplane loses information. A weighted sum of a point's bits estimates
its score with H-Hash, and its squared score with the other families (see `core.hashing.reconstruction`). The
method `query` returns both a code to compare and the weights for this estimate.

References
----------
.. [1] P. Jain, S. Vijayanarasimhan, K. Grauman, "Hashing hyperplane queries to near points with applications
   to large-scale active learning", NIPS 2010.
.. [2] W. Liu, J. Wang, Y. Mu, S. Kumar, S.-F. Chang, "Compact hyperplane hashing with bilinear functions",
   ICML 2012.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.augment import Augmentation, Floats32, SparsePoints
from closecall.core.hashing.base import Arrays, Codes, QueryCode, padded, row_blocks
from closecall.core.hashing.collision import Probabilities, dense_agrees, pair_agrees, rank_agrees
from closecall.core.hashing.projection import Vectors, combined, drawn
from closecall.core.hashing.reconstruction import Moments, Reconstruction
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows

MOST_DENSE_FEATURES = 1_000
"""Maximum number of features for EH-Hash with dense matrices."""

MOST_DENSE_ENTRIES = 300 * 1_001 * 1_002 // 2
"""Maximum number of entries of all dense matrices of EH-Hash together; these entries take 600 MB."""

_AUTO_RANK = 4
_LEAST_BY_COORDINATE = 64
_MONOMIALS_AT_ONCE = 1 << 23
_MOST_EMBEDDED = 1_000
_MOST_BITS = 4_000


Points = Floats32 | SparsePoints


class HyperplaneHasher(ABC):
    """Base class of hyperplane families, whose functions are drawn in `fit` and never change afterwards.

    Parameters
    ----------
    n_functions : int
        Number of functions in a code; 300 as in Jain et al. (2010).
    centred, scale, n_directions
        See `core.hashing.augment.Augmentation.fitted`.
    random_state : int
        Seed of all random draws.
    """

    bits: ClassVar[int] = 1

    augmentation_: Augmentation
    moments_: Moments | None
    reconstruction_: Reconstruction | None

    def __init__(
        self,
        *,
        n_functions: int = 300,
        centred: bool = True,
        scale: float = 1.0,
        n_directions: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_functions = n_functions
        self.centred = centred
        self.scale = scale
        self.n_directions = n_directions
        self.random_state = random_state

    def fit(self, X: Rows, *, weighted: bool = True) -> Self:
        """Learn mean, scale and moments from X, of shape (n_samples, n_features), and draw the functions.

        Moments (`core.hashing.reconstruction`) are learned only if `weighted` is true, the code has at most
        4,000 bits, and an embedded point E(x) has at most 1,000 numbers. Without moments, queries have less
        exact weights: the normal of the hyperplane is hashed like a point, and the weight of a bit is the
        number whose sign is the bit.

        Without `n_directions`, sparse points are projected on int8 vectors (`core.hashing.projection`).

        Raises
        ------
        InputError
            If a parameter is out of range, or the rows have too many features for the family.
        """
        self._check()
        self.augmentation_ = Augmentation.fitted(
            X, centred=self.centred, scale=self.scale, n_directions=self.n_directions
        )
        self._settle(self.augmentation_.n_dimensions)
        self._draw(self.augmentation_.points(X), np.random.default_rng(self.random_state))
        n_bits = self.n_functions * self.bits
        few = weighted and n_bits <= _MOST_BITS and self._n_embedded() <= _MOST_EMBEDDED
        self.moments_ = Moments.of(self._bits_and_embedded(X)) if few else None
        self.reconstruction_ = self.moments_.reconstruction() if self.moments_ else None
        return self

    def hash_points(self, X: Rows) -> Codes:
        """Return the codes of the rows of X, of shape (n_samples, n_features)."""
        parts = [self._hash_block(block) for block in row_blocks(X)]
        empty = np.zeros((0, self.n_functions * self.bits), dtype=np.bool_)
        return Codes.from_bits(np.concatenate([empty, *parts]), self.bits)

    def hash_hyperplane(self, hyperplane: Hyperplane) -> Codes:
        """Return the code of a hyperplane."""
        return self.query(hyperplane).code

    def query(self, hyperplane: Hyperplane) -> QueryCode:
        """Return the code of a hyperplane, and the weights with which a point's bits estimate its score."""
        w = self.augmentation_.hyperplane(hyperplane)
        embedded = self._embedded_hyperplane(w, hyperplane) if self._embeds() else None

        def code_of(projections: Floats32) -> Codes:
            return Codes.from_bits(self._hyperplane_bits(projections)[None], self.bits)

        if self.reconstruction_ is None or embedded is None:
            projections = self._projections(w, embedded)
            return QueryCode(
                self.n_functions,
                self.bits,
                projections,
                0.0,
                self.bits == 2,
                lambda: code_of(projections),
                embedded,
            )
        weights, offset = self.reconstruction_.weights(embedded)
        return QueryCode(
            self.n_functions,
            self.bits,
            weights,
            offset,
            self.bits == 2,
            lambda: code_of(self._projections(w, embedded)),
            embedded,
        )

    def arrays(self) -> Arrays:
        """Return the arrays that `fit` learned and drew, by name."""
        moments = self.moments_.arrays() if self.moments_ else {}
        return {
            **self.augmentation_.arrays(),
            **{name: getattr(self, name) for name in self._drawn},
            **{f"moments-{name}": array for name, array in moments.items()},
        }

    def restored(self, arrays: Arrays) -> Self:
        """Set the fitted attributes from the result of `arrays`, instead of calling `fit`."""
        self._check()
        self.augmentation_ = Augmentation.from_arrays(arrays)
        self._settle(self.augmentation_.n_dimensions)
        for name in self._drawn:
            setattr(self, name, arrays[name])
        moments = {
            name.removeprefix("moments-"): array
            for name, array in arrays.items()
            if name.startswith("moments-")
        }
        self.moments_ = Moments.from_arrays(moments) if moments else None
        self.reconstruction_ = self.moments_.reconstruction() if self.moments_ else None
        return self

    @abstractmethod
    def collision_probability(self, theta: ArrayLike) -> Probabilities:
        """Return the probability that one function agrees for a point and a hyperplane.

        `theta` is the angle between their augmented vectors in radians.
        """

    @abstractmethod
    def _draw(self, Z: Points, rng: np.random.Generator) -> None:
        """Draw the functions, given a sample Z of augmented points; set the attributes listed in `_drawn`."""

    @property
    @abstractmethod
    def _drawn(self) -> tuple[str, ...]:
        """Names of the attributes that hold the functions."""

    @abstractmethod
    def _point_bits(self, Z: Points) -> NDArray[np.bool_]:
        """Return the bits of augmented points, of shape (len(Z), n_functions * bits)."""

    def _embeds(self) -> bool:
        """Return whether queries need the embedding e of a hyperplane."""
        return self.reconstruction_ is not None

    @abstractmethod
    def _embedded_hyperplane(self, w: Floats32, hyperplane: Hyperplane) -> Floats32:
        """Return the embedding e of a hyperplane with the augmented normal w, of shape (n_embedded,)."""

    @abstractmethod
    def _projections(self, w: Floats32, embedded: Floats32 | None) -> Floats32:
        """Return the numbers whose signs would be the bits of w if w were an augmented point."""

    @abstractmethod
    def _hyperplane_bits(self, projections: Floats32) -> NDArray[np.bool_]:
        """Return the bits of a hyperplane, given its `_projections`, of shape (n_functions * bits,)."""

    @abstractmethod
    def _n_embedded(self) -> int:
        """Return the dimension of the embeddings E(x) of points and e of hyperplanes."""

    @abstractmethod
    def _embedded(self, Z: Floats32) -> Floats32:
        """Return the embeddings E(x) of augmented points, of shape (len(Z), n_embedded).

        The module `core.hashing.reconstruction` explains the embeddings.
        """

    def _bits_and_embedded(self, X: Rows) -> Iterator[tuple[NDArray[np.bool_], Floats32]]:
        for block in row_blocks(X):
            Z = self.augmentation_.points(block)
            yield self._hash_block(block), self._embedded(Z.dense() if isinstance(Z, SparsePoints) else Z)

    def _settle(self, n_dimensions: int) -> None:  # noqa: B027
        """Set attributes that depend on the number of dimensions."""

    def _check(self) -> None:
        if self.n_functions < 1:
            raise InputError(f"n_functions must be at least 1, got {self.n_functions}")
        if not 0 < self.scale < np.inf:
            raise InputError(f"scale must be positive and finite, got {self.scale}")
        if self.n_directions is not None and self.n_directions < 1:
            raise InputError(f"n_directions must be at least 1 or None, got {self.n_directions}")

    def _hash_block(self, X: Rows) -> NDArray[np.bool_]:
        Z = self.augmentation_.points(X)
        n = len(Z)
        return self._point_bits(Z if isinstance(Z, SparsePoints) else padded(Z))[:n]


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
        """Return the probability that the bits of a point and a hyperplane agree, without `query_samples`."""
        return dense_agrees(theta) if self.rank_ is None else rank_agrees(theta, self.rank_)

    def _check(self) -> None:
        super()._check()
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
        if dense or n_entries <= _MOST_EMBEDDED:
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


class BHHash(EHHash):
    """BH-Hash: sign(uᵀx)·sign(vᵀx) for points, −sign(uᵀw)·sign(vᵀw) for hyperplanes.

    BH-Hash (Liu et al. 2012 [2]_) is EH-Hash with a matrix U = uvᵀ of rank 1, where u and v are Gaussian.

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
