"""The proximity distribution kernel, which compares how near visual words are to each other in two images.

For words i and j and a rank r, let H(i, j, r) be the number of ordered pairs of features of an image that
satisfy three conditions: the first feature has word i, the second feature has word j, and the second feature
is among the r nearest neighbours of the first. As r grows from 1 to R, H(i, j, r) is the cumulative
distribution of how near word j is to word i. The kernel [1]_ measures the overlap of these distributions in
two images A and B:

    K(A, B) = Σ_{i,j} Σ_{r=1}^{R} min(H_A(i, j, r), H_B(i, j, r)),   K̃ = K / √(K(A, A) K(B, B))

Only ranks matter, so K does not change if an image is moved, rotated or scaled.

**As an inner product** [2]_. If the counts are written in unary, K is the inner product of sparse rows, as
for the pyramid match (`core.mercer.pyramid`). K is therefore positive semidefinite, and methods for sparse
rows apply, such as random hyperplanes and learned metrics. The row of an image with n > R features has about
n R (R + 1)/2 nonzero entries. The features of the rows form the vocabulary. They are the combinations of a
rank and two words that occur in the fitted images. The inner product of a fitted image and any other image is
exactly K̃.

This module interprets [1]_ as follows; the survey [3]_ only mentions the kernel. A feature is not its own
neighbour. Features at the same distance as the r-th neighbour count as among the r nearest. In an image of
n ≤ R features, all n − 1 other features are neighbours if r ≥ n − 1. K is normalised like the pyramid match.

References
----------
.. [1] H. Ling, S. Soatto, "Proximity distribution kernels for geometric context in category recognition",
   ICCV 2007.
.. [2] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009.
.. [3] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 4.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.mercer.local import LocalFeatures
from closecall.core.mercer.unary import Bins, Places, Vocabulary, batches
from closecall.core.numerics.rows import joined, no_rows

_ENTRIES_AT_ONCE = 1 << 20
_BIN = np.dtype((np.void, 12))
"""Data type of a bin: the bytes of a rank and two words."""


class ProximityDistribution:
    """Embedding of sets of local features as sparse rows.

    Parameters
    ----------
    n_neighbours : int
        R, the number of nearest neighbours of each feature.
    normalised : bool
        Whether the inner product of rows is the normalised kernel K̃ of this module's docstring; otherwise it
        is K.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        All combinations of a rank and two words that occur in the fitted sets.
    """

    vocabulary_: Vocabulary

    def __init__(self, *, n_neighbours: int = 10, normalised: bool = True) -> None:
        self.n_neighbours = n_neighbours
        self.normalised = normalised

    def fit(self, sets: Sequence[LocalFeatures]) -> Self:
        """Build the vocabulary from these sets.

        Raises
        ------
        InputError
            If `n_neighbours` is less than 1, or no set has two features.
        """
        if self.n_neighbours < 1:
            raise InputError(f"n_neighbours must be at least 1, got {self.n_neighbours}")
        if all(len(own.words) < 2 for own in sets):
            raise InputError(
                f"proximity needs at least one set of two features to fit, got none in {len(sets)} sets"
            )
        self.vocabulary_ = Vocabulary.of(map(self._bins, self._parts(sets)))
        return self

    @property
    def n_features_(self) -> int:
        """Length of the rows."""
        return self.vocabulary_.n_features

    def transform(self, sets: Sequence[LocalFeatures]) -> csr_array:
        """Embed sets as rows of shape (n_sets, n_features_), float32.

        Sets of fewer than two features give zeros. Each row depends only on its own set.
        """
        rows = [self._rows(part) for part in self._parts(sets)]
        return joined(rows or [no_rows(self.n_features_, sparse=True)])

    def fit_transform(self, sets: Sequence[LocalFeatures]) -> csr_array:
        """Fit to the sets and return their rows."""
        return self.fit(sets).transform(sets)

    def _parts(self, sets: Sequence[LocalFeatures]) -> Iterator[Sequence[LocalFeatures]]:
        R = self.n_neighbours
        return batches(sets, (len(own.words) * R * (R + 1) // 2 for own in sets), _ENTRIES_AT_ONCE)

    def _rows(self, sets: Sequence[LocalFeatures]) -> csr_array:
        owners, bins = self._bins(sets)
        squares = np.bincount(owners, minlength=len(sets)) if self.normalised else np.ones(len(sets))
        return self.vocabulary_.rows(owners, bins, 1 / np.sqrt(squares[owners]), len(sets))

    def _bins(self, sets: Sequence[LocalFeatures]) -> tuple[Places, Bins]:
        """Return the set and the bin of each entry of the sparse rows, as two arrays.

        There is an entry for each rank r, each feature, and each of the r nearest neighbours of the feature.
        Its bin consists of the rank, the word of the feature and the word of the neighbour.
        """
        pairs = [self._pairs(own) for own in sets]
        owners = np.repeat(np.arange(len(sets)), [len(own) for own in pairs])
        return owners, np.concatenate(pairs).view(_BIN).ravel()

    def _pairs(self, own: LocalFeatures) -> NDArray[np.int32]:
        """Return (r, word, neighbour's word) for each r, each feature and its r nearest neighbours."""
        apart = own.distances()
        nearest = np.sort(apart, axis=1)[:, : len(apart) - 1]
        pairs = [np.empty((0, 3), dtype=np.int32)]
        for r in range(1, self.n_neighbours + 1) if nearest.size else ():
            first, second = np.nonzero(apart <= nearest[:, [min(r, nearest.shape[1]) - 1]])
            ranks = np.full(len(first), r)
            pairs.append(np.column_stack([ranks, own.words[first], own.words[second]]).astype(np.int32))
        return np.concatenate(pairs)
