"""Hash families whose values tend to agree for a hyperplane and the points near it.

A function hashes a point x and the normal w of a hyperplane in the same way, apart from a flipped sign for w.
The values agree most often if x is orthogonal to w, that is, if x lies on the hyperplane. H-Hash
(`core.hashing.h_hash`) has two bits per function, and both bits must agree. EH-Hash (`core.hashing.eh_hash`)
and BH-Hash (`core.hashing.bh_hash`) have one bit per function. Both x and w are augmented first (see
`core.hashing.augment`), and `collision_probability` takes the angle between the augmented vectors.

Counting the bits that agree with a hyperplane loses information. A weighted sum of a point's bits estimates
its score with H-Hash, and its squared score with the other families (see `core.hashing.reconstruction`). The
method `query` returns both a code to compare and the weights for this estimate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.augment import Augmentation, Floats32, SparsePoints
from closecall.core.hashing.base import Arrays, Codes, QueryCode, padded, row_blocks
from closecall.core.hashing.collision import Probabilities
from closecall.core.hashing.reconstruction import Moments, Reconstruction
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows

MOST_EMBEDDED = 1_000
"""Maximum dimension of embedded points (`core.hashing.reconstruction`) with which moments are learned."""

_MOST_BITS = 4_000

Points = Floats32 | SparsePoints


class HyperplaneHasher(ABC):
    """Base class of hyperplane families, whose functions are drawn in `fit` and never change afterwards.

    Parameters
    ----------
    n_functions : int
        Number of functions in a code. The default of 300 is that of Jain et al. (2010).
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

    def check(self) -> None:
        """Raise an InputError if a parameter is out of range, whatever the rows are."""
        if self.n_functions < 1:
            raise InputError(f"n_functions must be at least 1, got {self.n_functions}")
        if not 0 < self.scale < np.inf:
            raise InputError(f"scale must be positive and finite, got {self.scale}")
        if self.n_directions is not None and self.n_directions < 1:
            raise InputError(f"n_directions must be at least 1 or None, got {self.n_directions}")

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
        self.check()
        self.augmentation_ = Augmentation.fitted(
            X, centred=self.centred, scale=self.scale, n_directions=self.n_directions
        )
        self._settle(self.augmentation_.n_dimensions)
        self._draw(self.augmentation_.points(X), np.random.default_rng(self.random_state))
        n_bits = self.n_functions * self.bits
        few = weighted and n_bits <= _MOST_BITS and self._n_embedded() <= MOST_EMBEDDED
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
        """Set the fitted attributes from `arrays`, the result of the method `arrays`, in place of `fit`."""
        self.check()
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

        `theta` is the angle in radians between the augmented vectors of the point and the hyperplane.
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

    def _hash_block(self, X: Rows) -> NDArray[np.bool_]:
        Z = self.augmentation_.points(X)
        n = len(Z)
        return self._point_bits(Z if isinstance(Z, SparsePoints) else padded(Z))[:n]
