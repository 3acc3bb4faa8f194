"""The pyramid match of sets of points in a known box.

Each set is represented by a sparse row. In general, the features of these rows depend on the sets to which
`core.mercer.pyramid` is fitted. If all points lie in a known box, and the maximum number of points of one set
in a bin is known, the features are known in advance. There is one feature for each level, bin and number j.
The feature is nonzero if at least j points lie in the bin. No fitting is needed, and the inner product of the
rows of any two sets is exactly the kernel's value.

The number of bins may differ between directions. A bin of level i is 2ⁱ finest bins wide in every direction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.mercer.pyramid import weights_of_levels
from closecall.core.numerics.rows import sparse_rows


class PyramidBox:
    """Embedding of sets of points in a box as sparse rows. The finest bins of the box are cubes of side 1.

    Parameters
    ----------
    n_bins : sequence of int
        Number n of finest bins in each direction. In this direction, the box is [0, n). The number must be a
        multiple of 2 ** (n_levels − 1).
    most : sequence of int
        For each level from the finest on, the maximum number of points of a set in one bin.

    Attributes
    ----------
    n_features : int
        Length of the rows. Features are ordered by level, then by bin in C order, then by number of points.

    Raises
    ------
    InputError
        If `n_bins` or `most` is out of range, or there are too many features for 32-bit integers.
    """

    def __init__(self, *, n_bins: Sequence[int], most: Sequence[int]) -> None:
        self.n_bins = tuple(n_bins)
        self.most = tuple(most)
        coarsest = 2 ** (len(self.most) - 1)
        if not self.most or min(self.most) < 1:
            raise InputError(f"most must be at least 1 for each of one or more levels, got {self.most}")
        if not self.n_bins or min(self.n_bins) < 1 or any(n % coarsest for n in self.n_bins):
            raise InputError(
                f"n_bins must be positive multiples of {coarsest} for {len(self.most)} levels, "
                f"got {self.n_bins}"
            )
        sizes = [
            most * np.prod(shape, dtype=np.int64) for shape, most in zip(self._shapes, most, strict=True)
        ]
        self._firsts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_features = int(self._firsts[-1])
        if self.n_features > np.iinfo(np.int32).max:
            raise InputError(f"n_bins and most must give at most 2³¹ features, got {self.n_features:,}")

    def transform(self, sets: ArrayLike) -> csr_array:
        """Embed sets as rows of shape (n_sets, n_features), float32 and of unit norm.

        The inner product of two rows is the normalised kernel K̃ of the two sets; see `core.mercer.pyramid`.
        Each row depends only on its own set.

        Parameters
        ----------
        sets : array of shape (n_sets, n_points, n_dimensions)
            Sets with the same number of points, at least one each.

        Raises
        ------
        InputError
            If the shape does not fit, if points lie outside the box or are not finite, or if a bin has too
            many points.
        """
        sets = np.asarray(sets)
        if sets.ndim != 3 or sets.shape[1] < 1 or sets.shape[2] != len(self.n_bins):
            raise InputError(
                f"sets must be of shape (n_sets, n_points, {len(self.n_bins)}), got {sets.shape}"
            )
        if not ((sets >= 0) & (sets < np.array(self.n_bins))).all():
            raise InputError(f"points must lie in the box from 0 to {self.n_bins}, got some outside")
        n_sets, n_points, _ = sets.shape
        places = np.moveaxis(sets.astype(np.int32), 2, 0)
        columns = np.empty((n_sets, len(self.most), n_points), dtype=np.int32)
        for level, (shape, most) in enumerate(zip(self._shapes, self.most, strict=True)):
            bins = np.zeros((n_sets, n_points), dtype=np.int32)
            for n, place in zip(shape, places, strict=True):
                bins *= np.int32(n)
                bins += place >> level
            bins.sort(axis=1)
            turns = _turns(bins)
            if turns.max(initial=0) >= most:
                raise InputError(
                    f"most must be at least {turns.max() + 1} for level {level}, because a bin has that many "
                    f"points, got {most}"
                )
            columns[:, level] = self._firsts[level] + bins * np.int64(most) + turns
        values = np.sqrt(weights_of_levels(len(self.most)) / n_points).astype(np.float32)
        starts = np.arange(n_sets + 1) * (len(self.most) * n_points)
        return sparse_rows(
            np.tile(np.repeat(values, n_points), n_sets), columns.ravel(), starts, self.n_features
        )

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        """Number of bins in each direction, for each level."""
        return [tuple(n >> level for n in self.n_bins) for level in range(len(self.most))]


def _turns(bins: NDArray[np.int32]) -> NDArray[np.int32]:
    """For each entry of the sorted rows, return the number of equal entries before it in the row."""
    along = np.arange(bins.shape[1], dtype=np.int32)
    begins = np.where(np.diff(bins, axis=1, prepend=-1) != 0, along, 0)
    return along - np.maximum.accumulate(begins, axis=1)
