"""Hash families whose values tend to agree for a hyperplane and the points near it.

Each family hashes a point x one way and a hyperplane w another, with the sign turned, so that they agree most
often where x is orthogonal to w. `HHash` gives two bits a function, which count only as a whole pair;
`EHHash` and `BHHash` one. Both x and w are augmented first (see `core.hashing.augment`), and the angle in
`collision_probability` is the one between the augmented vectors.

References
----------
.. [1] P. Jain, S. Vijayanarasimhan, K. Grauman, "Hashing hyperplane queries to near points with applications
   to large-scale active learning", NIPS 2010.
.. [2] W. Liu, J. Wang, Y. Mu, S. Kumar, S.-F. Chang, "Compact hyperplane hashing with bilinear functions",
   ICML 2012.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError
from core.geometry import Hyperplane
from core.hashing.augment import Augmentation, Floats32
from core.hashing.base import Arrays, Codes
from core.hashing.collision import Probabilities, dense_agrees, pair_agrees, rank_agrees
from core.hashing.projection import combined

BLOCK_ROWS = 2048
"""Points are hashed in blocks of exactly this many rows, the last filled up with zeros, so that a row's bits
do not depend on how many rows follow it: a matrix product's last digits may depend on its shape."""

_AUTO_RANK = 4
_MOST_DENSE_ENTRIES = 300 * 386 * 385 // 2
_MONOMIALS_AT_ONCE = 1 << 23


class HyperplaneHasher(ABC):
    """A family of `n_functions` hash functions, drawn in `fit` and the same ever after.

    Parameters
    ----------
    n_functions : int
        k; the paper uses 300.
    centred : bool
    scale : float
    n_directions : int or None
        See `core.hashing.augment`.
    random_state : int
    """

    bits: ClassVar[int] = 1

    augmentation_: Augmentation

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

    def fit(self, X: Floats32) -> Self:
        """Take mean and scale from X, of shape (n_samples, n_features), and draw the functions.

        Raises
        ------
        InputError
            If a parameter is out of range.
        """
        self._check()
        self.augmentation_ = Augmentation.fitted(
            X, centred=self.centred, scale=self.scale, n_directions=self.n_directions
        )
        self._settle(self.augmentation_.n_dimensions)
        self._draw(self.augmentation_.n_dimensions, np.random.default_rng(self.random_state))
        return self

    def hash_points(self, X: Floats32) -> Codes:
        """The codes of the rows of X, of shape (n_samples, n_features)."""
        parts = [self._hash_block(X[start : start + BLOCK_ROWS]) for start in range(0, len(X), BLOCK_ROWS)]
        empty = np.zeros((0, self.n_functions * self.bits), dtype=np.bool_)
        return Codes.from_bits(np.concatenate([empty, *parts]), self.bits)

    def hash_hyperplane(self, hyperplane: Hyperplane) -> Codes:
        """The one code of a hyperplane."""
        w = self.augmentation_.hyperplane(hyperplane)
        return Codes.from_bits(self._hyperplane_bits(w, hyperplane)[None], self.bits)

    def arrays(self) -> Arrays:
        """What `fit` found and drew, by name."""
        return {**self.augmentation_.arrays(), **{name: getattr(self, name) for name in self._drawn}}

    def restored(self, arrays: Arrays) -> Self:
        """Take over what `arrays` gave, instead of `fit`."""
        self._check()
        self.augmentation_ = Augmentation.from_arrays(arrays)
        self._settle(self.augmentation_.n_dimensions)
        for name in self._drawn:
            setattr(self, name, arrays[name])
        return self

    @abstractmethod
    def collision_probability(self, theta: ArrayLike) -> Probabilities:
        """Of one function, for a point and a hyperplane whose augmented vectors enclose the angle theta."""

    @abstractmethod
    def _draw(self, n_dimensions: int, rng: np.random.Generator) -> None:
        """Draw the functions; their arrays are named by `_drawn`."""

    @property
    @abstractmethod
    def _drawn(self) -> tuple[str, ...]:
        """The attributes in which the functions are."""

    @abstractmethod
    def _point_bits(self, Z: Floats32) -> NDArray[np.bool_]:
        """The bits of augmented points, of shape (len(Z), n_functions * bits)."""

    @abstractmethod
    def _hyperplane_bits(self, w: Floats32, hyperplane: Hyperplane) -> NDArray[np.bool_]:
        """The bits of an augmented hyperplane, of shape (n_functions * bits,)."""

    def _settle(self, n_dimensions: int) -> None:  # noqa: B027
        """Decide what depends on the number of dimensions."""

    def _check(self) -> None:
        if self.n_functions < 1:
            raise InputError(f"n_functions must be at least 1, got {self.n_functions}")
        if not self.scale > 0:
            raise InputError(f"scale must be positive, got {self.scale}")
        if self.n_directions is not None and self.n_directions < 1:
            raise InputError(f"n_directions must be at least 1 or None, got {self.n_directions}")

    def _hash_block(self, X: Floats32) -> NDArray[np.bool_]:
        Z = self.augmentation_.points(X)
        if len(Z) < BLOCK_ROWS:
            Z = np.concatenate([Z, np.zeros((BLOCK_ROWS - len(Z), Z.shape[1]), dtype=np.float32)])
        return self._point_bits(Z)[: len(X)]


class HHash(HyperplaneHasher):
    """H-Hash: [sign(uᵀx), sign(vᵀx)] for points, [sign(uᵀw), sign(−vᵀw)] for hyperplanes [1]_, eq. 4."""

    bits = 2

    pairs_: Floats32
    _drawn = ("pairs_",)

    def collision_probability(self, theta: ArrayLike) -> Probabilities:
        """That both bits of a pair agree: 1/4 − (θ/π − 1/2)²."""
        return pair_agrees(theta)

    def _draw(self, n_dimensions: int, rng: np.random.Generator) -> None:
        self.pairs_ = rng.standard_normal((n_dimensions, 2 * self.n_functions), dtype=np.float32)

    def _point_bits(self, Z: Floats32) -> NDArray[np.bool_]:
        return np.asarray(Z @ self.pairs_ >= 0)

    def _hyperplane_bits(self, w: Floats32, hyperplane: Hyperplane) -> NDArray[np.bool_]:  # noqa: ARG002
        projected = combined(w, self.pairs_)
        projected[1::2] *= -1
        return np.asarray(projected >= 0)


class EHHash(HyperplaneHasher):
    """EH-Hash: sign(⟨U, xxᵀ⟩) for points, sign(−⟨U, wwᵀ⟩) for hyperplanes [1]_, eq. 7.

    Parameters
    ----------
    rank : int, "dense" or "auto"
        What U is. "dense", as in the paper: a d × d matrix of independent Gaussians, O(d²) a function. An
        integer r: Σ_j u_j v_jᵀ with 2r independent Gaussian vectors, O(rd), and a little less telling (see
        `core.hashing.collision`; rank 4 keeps 88 % of the signal). "auto": dense where that costs no more
        than rank 4, that is up to 14 dimensions.
    query_samples : int or None
        For the dense form: how many entries of vec(wwᵀ) a query samples (Lemma 3.4), with probabilities in
        proportion to their squares, rescaled by v_i/(t·p_i), which the lemma as printed leaves out and
        without which ṽ is biased. None takes all d². The sample makes ‖ṽ‖² about 1 + d²/(2t), so only the
        fraction (1 + d²/(2t))^(−1/2) of the signal is left: at d = 385 and the paper's t = 1/ε′² = 10,000
        about a third, and at d = 33 about 97 %.

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
        """That the one bit agrees; of a query that takes all entries of vec(wwᵀ)."""
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
        if dense and self.n_functions * n_entries > _MOST_DENSE_ENTRIES:
            raise InputError(
                f"rank='dense' with {self.n_functions} functions in {n_dimensions} dimensions needs "
                f"{self.n_functions * n_entries} numbers, at most {_MOST_DENSE_ENTRIES} are allowed"
            )
        if self.query_samples is not None and not dense:
            raise InputError(
                f"query_samples needs rank='dense', got rank={self.rank!r} in {n_dimensions} dimensions: "
                f"at rank {self.rank_} a whole query costs less than a sample"
            )
        self.entries_ = np.triu_indices(n_dimensions) if dense else None

    def _draw(self, n_dimensions: int, rng: np.random.Generator) -> None:
        if self.rank_ is not None:
            shape = (n_dimensions, self.rank_ * 2 * self.n_functions)
            self.factors_ = rng.standard_normal(shape, dtype=np.float32)
        elif self.entries_ is not None:
            # Only U's symmetric part matters: off the diagonal, U_ij + U_ji has variance 2.
            i, j = self.entries_
            deviations = np.where(i == j, 1, np.sqrt(2)).astype(np.float32)
            self.dense_ = rng.standard_normal((len(i), self.n_functions), dtype=np.float32)
            self.dense_ *= deviations[:, None]

    def _point_bits(self, Z: Floats32) -> NDArray[np.bool_]:
        return np.asarray(self._forms(Z) >= 0)

    def _hyperplane_bits(self, w: Floats32, hyperplane: Hyperplane) -> NDArray[np.bool_]:
        return np.asarray(self._query_forms(w, hyperplane) <= 0)

    def _forms(self, Z: Floats32) -> Floats32:
        """⟨U, zzᵀ⟩ for each row z and each function, of shape (len(Z), n_functions)."""
        if self.entries_ is None:
            return self._products(Z @ self.factors_)
        i, j = self.entries_
        step = max(1, _MONOMIALS_AT_ONCE // len(i))
        parts = [Z[first : first + step] for first in range(0, len(Z), step)]
        return np.concatenate([(part[:, i] * part[:, j]) @ self.dense_ for part in parts])

    def _query_forms(self, w: Floats32, hyperplane: Hyperplane) -> Floats32:
        """⟨U, wwᵀ⟩ for each function, or estimates of them, of shape (n_functions,)."""
        if self.entries_ is None:
            projected = combined(w, self.factors_)
            return np.asarray(self._products(projected[None])[0])
        i, j = self.entries_
        if self.query_samples is None:
            return combined(w[i] * w[j], self.dense_)
        if not w.any():
            return np.zeros(self.n_functions, dtype=np.float32)
        rng = np.random.default_rng([self.random_state, int(hyperplane.digest, 16)])
        entries, values = _sampled(w, self.query_samples, rng)
        return combined(values, self.dense_[entries])

    def _products(self, projected: Floats32) -> Floats32:
        """Σ_j (u_jᵀz)(v_jᵀz) of all functions, from the projections on all u_j and v_j."""
        factors = projected.reshape(len(projected), -1, 2, self.n_functions)
        total = factors[:, 0, 0] * factors[:, 0, 1]
        for term in range(1, factors.shape[1]):
            total += factors[:, term, 0] * factors[:, term, 1]
        return total


def _sampled(w: Floats32, samples: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats32]:
    """An unbiased estimate of vec(wwᵀ) by `samples` entries drawn with replacement: (places, values).

    Entry (i, j) is drawn with the probability p = w_i² w_j² / ‖w‖⁴, that is i and j independently, and counts
    w_i w_j / (samples · p) each time. Places are those of the upper triangle, row by row.
    """
    weights = w.astype(np.float64) ** 2
    i, j = rng.choice(len(w), size=(2, samples), p=weights / weights.sum())
    values = weights.sum() ** 2 / (samples * w[i].astype(np.float64) * w[j])
    low, high = np.minimum(i, j), np.maximum(i, j)
    place, which = np.unique(low * (2 * len(w) - low - 1) // 2 + high, return_inverse=True)
    return place, np.bincount(which, values).astype(np.float32)


class BHHash(EHHash):
    """BH-Hash: sign(uᵀx)·sign(vᵀx) for points, the product turned round for hyperplanes [2]_.

    It is EH-Hash with U = uvᵀ, of rank one.

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
