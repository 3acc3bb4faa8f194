"""Sets of local features: the visual words of an image, and where in the image they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from closecall.core.errors import InputError

Floats64 = NDArray[np.float64]
Words = NDArray[np.int64]

MOST_WORDS = 2**31 - 1
"""Maximum size of the vocabulary, so that 32-bit integers can index its words as columns of sparse rows."""


@dataclass(frozen=True, eq=False)
class LocalFeatures:
    """The local features of one image, in any order. Create it with `of`, which checks the arrays.

    Parameters
    ----------
    words : array of shape (n_features,), int64
        Index of the visual word of each feature, from 0 on.
    positions : array of shape (n_features, n_dimensions), float64
        Position of each feature; usually in two dimensions and in pixels.
    scales : array of shape (n_features,), float64
        Size of each feature, in the unit of the positions.
    """

    words: Words
    positions: Floats64
    scales: Floats64

    @classmethod
    def of(cls, words: ArrayLike, positions: ArrayLike, scales: ArrayLike | None = None) -> Self:
        """Return the features with these words, positions and scales; all scales are 1 if `scales` is None.

        Raises
        ------
        InputError
            If shapes do not fit together, if words are not integers from 0 to 2³¹ − 2, if positions are not
            finite, or if scales are not positive and finite.
        """
        own = np.asarray(words)
        if own.ndim != 1 or (own.size and not np.issubdtype(own.dtype, np.integer)):
            raise InputError(
                f"words must be integers of shape (n_features,), got {own.dtype} of shape {own.shape}"
            )
        if own.size and not 0 <= own.min() <= own.max() < MOST_WORDS:
            raise InputError(
                f"words must be from 0 to {MOST_WORDS - 1:,}, got some from {own.min()} to {own.max()}"
            )
        at = np.asarray(positions, dtype=np.float64)
        at = at if at.size else at.reshape(0, 2)
        if at.ndim != 2 or len(at) != len(own):
            raise InputError(
                f"positions must be of shape (n_features, n_dimensions) for {len(own)} words, got {at.shape}"
            )
        size = np.ones(len(own)) if scales is None else np.asarray(scales, dtype=np.float64)
        if size.shape != own.shape:
            raise InputError(f"scales must be of shape ({len(own)},), as the words, got {size.shape}")
        if not np.isfinite(at).all() or not ((size > 0) & (size < np.inf)).all():
            raise InputError("positions must be finite, and scales positive and finite")
        return cls(own.astype(np.int64), at, size)

    def distances(self) -> Floats64:
        """Return the distances between all pairs of features, in the unit of the positions.

        The array has shape (n_features, n_features), and is infinite on the diagonal.
        """
        apart = np.asarray(cdist(self.positions, self.positions))
        np.fill_diagonal(apart, np.inf)
        return apart
