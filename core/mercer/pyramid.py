"""The pyramid match kernel of sets of points, as the inner product of sparse rows.

Images are often sets of local features: any number of points each, in no order. The pyramid match [1]_ counts
how many points of two sets can be paired, and how closely. Space is cut into bins, at level i of side s·2ⁱ,
and what two sets' counts have in common in all bins of a level, I_i = Σ min(c, c'), is the number of pairs
within bins of it. New at level i are N_i = I_i − I_{i−1} of them, and the coarser the less a pair is worth:

    K = Σ_i w_i N_i,   w_i = 2⁻ⁱ,   K̃(x, y) = K(x, y) / √(K(x, x) K(y, y))

Nothing is paired below level 0, I_{−1} = 0. A set with n points has K(x, x) = n.

**As an inner product** [2]_. The sum by parts is K = Σ_i (w_i − w_{i+1}) I_i, with w = 0 above the last
level, and min(c, c') is the inner product of the counts in unary, c ones and then zeros. So with a feature
for "level i, this bin, at least j points in it" of the value √(w_i − w_{i+1}), rows have the inner product K,
and divided by √n each has K̃. Nearly all features are zero: a point adds just one at each level. What takes
sparse rows takes sets thereby: random hyperplanes collide with 1 − arccos(K̃)/π (`core.hashing.lsh`), a metric
on top is learned implicitly (`core.metric`) and carried by the functions (`core.hashing.metric_lsh`).

**Shifts.** Near points may lie on two sides of a wall at all levels. Several pyramids, each displaced at
random as a whole, take the mean of their kernels, which is a kernel again; bins stay nested in each.

**The vocabulary** are the bins that the fitted sets occupy, as often as one of them does. With a fitted set
any other has exactly K̃, since what it has beyond counts in its norm alone; only of two sets that are both new
what they share outside is lost. Where all points lie in a known box, nothing need be fitted nor is lost:
`core.mercer.box`.

References
----------
.. [1] K. Grauman, T. Darrell, "The pyramid match kernel: discriminative classification with sets of image
   features", ICCV 2005.
.. [2] K. Grauman, T. Darrell, "Pyramid match hashing: sub-linear time indexing over partial correspondences",
   CVPR 2007.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.numerics.rows import as_sparse, joined, no_rows

Floats64 = NDArray[np.float64]
Places = NDArray[np.int64]
Bins = NDArray[np.void]
"""A pyramid, a level and a place in its grid each, as bytes."""

_POINTS_AT_ONCE = 1 << 16
_A_HAIR = 1 + 2.0**-20


class PyramidMatch:
    """Embeds sets of points.

    Parameters
    ----------
    n_levels : int
        From 1 to 31.
    side : float or None
        Of the finest bins, in the points' unit. None: such that a bin of the last level, unless shifted,
        takes in all fitted points.
    n_shifts : int
        Pyramids, each shifted at random; 0 is one that is not shifted.
    normalised : bool
        Whether the inner product is K̃ or K.
    random_state : int
        Draws the shifts.

    Attributes
    ----------
    side_ : float
    origins_ : array of shape (n_pyramids, n_dimensions), float64
        Where each pyramid's bins begin.
    bins_ : array of shape (n_bins,)
        All that the fitted sets occupy, sorted.
    firsts_ : array of shape (n_bins + 1,), int64
        Bin b has the features firsts_[b] to firsts_[b + 1], the last one excluded.
    """

    side_: float
    origins_: Floats64
    bins_: Bins
    firsts_: Places

    def __init__(
        self,
        *,
        n_levels: int = 8,
        side: float | None = None,
        n_shifts: int = 0,
        normalised: bool = True,
        random_state: int = 0,
    ) -> None:
        self.n_levels = n_levels
        self.side = side
        self.n_shifts = n_shifts
        self.normalised = normalised
        self.random_state = random_state

    def fit(self, sets: Sequence[ArrayLike]) -> Self:
        """Take the vocabulary from these sets.

        Parameters
        ----------
        sets : sequence of arrays of shape (n_points, n_dimensions)
            Of any numbers of points, also of none.

        Raises
        ------
        InputError
            If a parameter is out of range, there is no point, points are not finite or of unlike numbers of
            dimensions, or the bins are too many for whole numbers of 32 bits.
        """
        self._check()
        checked = _checked(sets, None)
        points = np.concatenate(checked)
        low, extent = points.min(axis=0), float(np.ptp(points, axis=0).max())
        largest = 2.0 ** (self.n_levels - 1)
        self.side_ = self.side if self.side is not None else (extent or 1.0) * _A_HAIR / largest
        rng = np.random.default_rng(self.random_state)
        shifts = rng.uniform(0, self.side_ * largest, (self.n_shifts, points.shape[1]))
        self.origins_ = low - (shifts if self.n_shifts else np.zeros((1, points.shape[1])))
        bins, most = np.empty(0, self._kind), np.empty(0, np.int64)
        for part in _parts(checked):
            owners, here = self._bins(part)
            bins, most = _merged(bins, most, *_greatest(owners, here))
        self.bins_ = bins
        self.firsts_ = np.concatenate([[0], np.cumsum(most)])
        return self

    @property
    def n_features_(self) -> int:
        """The length of the rows."""
        return int(self.firsts_[-1])

    def transform(self, sets: Sequence[ArrayLike]) -> csr_array:
        """The rows of these sets, of shape (n_sets, n_features_), float32; of an empty set all zeros.

        Raises
        ------
        InputError
            If points are not finite, or not of the dimensions that were fitted.
        """
        checked = _checked(sets, self.origins_.shape[1])
        rows = [self._rows(part) for part in _parts(checked)]
        return joined(rows or [no_rows(self.n_features_, sparse=True)])

    def fit_transform(self, sets: Sequence[ArrayLike]) -> csr_array:
        """Both."""
        return self.fit(sets).transform(sets)

    @property
    def weights(self) -> Floats64:
        """See `weights_of_levels`."""
        return weights_of_levels(self.n_levels)

    @property
    def _kind(self) -> np.dtype[Any]:
        return np.dtype((np.void, 4 * (2 + self.origins_.shape[1])))

    def _rows(self, sets: Sequence[Floats64]) -> csr_array:
        owners, bins = self._bins(sets)
        values = np.tile(np.sqrt(self.weights / len(self.origins_)), len(bins) // self.n_levels)
        sizes = np.array([len(own) for own in sets])
        if self.normalised:
            values /= np.sqrt(sizes[owners])
        places = np.minimum(np.searchsorted(self.bins_, bins), len(self.bins_) - 1)
        known = self.bins_[places] == bins
        owners, places, values = owners[known], places[known], values[known]
        order, turns = _turns(owners, places)
        features = self.firsts_[places[order]] + turns
        there = features < self.firsts_[places[order] + 1]
        entries = values[order][there], (owners[order][there], features[there])
        return as_sparse(csr_array(entries, shape=(len(sets), self.n_features_)))

    def _bins(self, sets: Sequence[Floats64]) -> tuple[Places, Bins]:
        """For each point, pyramid and level: which set it is of, and the bin that it is in."""
        n_pyramids, n_dimensions = self.origins_.shape
        points = np.concatenate([*sets, np.empty((0, n_dimensions))])
        grid = np.floor((points[:, None] - self.origins_) / self.side_)
        if np.abs(grid).max(initial=0) >= 2**31:
            raise InputError(
                f"side must be so large that at most {2**31:,} bins lie side by side, got {self.side_:g}"
            )
        filled = np.empty((len(points), n_pyramids, self.n_levels, 2 + n_dimensions), dtype=np.int32)
        filled[..., 0] = np.arange(n_pyramids)[:, None]
        filled[..., 1] = np.arange(self.n_levels)
        filled[..., 2:] = grid.astype(np.int32)[:, :, None] >> np.arange(self.n_levels)[:, None]
        owners = np.repeat(np.arange(len(sets)), [len(own) for own in sets])
        return np.repeat(owners, n_pyramids * self.n_levels), filled.view(self._kind).ravel()

    def _check(self) -> None:
        if not 1 <= self.n_levels <= 31:
            raise InputError(f"n_levels must be from 1 to 31, got {self.n_levels}")
        if self.side is not None and not 0 < self.side < np.inf:
            raise InputError(f"side must be positive, got {self.side:g}")
        if self.n_shifts < 0:
            raise InputError(f"n_shifts must be at least 0, got {self.n_shifts}")
        if self.random_state < 0:
            raise InputError(f"random_state must be at least 0, got {self.random_state}")


def weights_of_levels(n_levels: int) -> Floats64:
    """The w_i − w_{i+1} of each level, of shape (n_levels,); they add to 1."""
    w = 2.0 ** -np.arange(n_levels)
    return np.asarray(w - np.append(w[1:], 0.0))


def _checked(sets: Sequence[ArrayLike], n_dimensions: int | None) -> list[Floats64]:
    """The sets as float64; those without points may have any shape."""
    arrays = [np.asarray(own, dtype=np.float64) for own in sets]
    filled = [own for own in arrays if own.size]
    if n_dimensions is None:
        if not filled:
            raise InputError(f"a pyramid is fitted to sets with points, got none in {len(arrays)} sets")
        n_dimensions = filled[0].shape[-1]
    for number, own in enumerate(arrays):
        if own.size and own.shape != (len(own), n_dimensions):
            raise InputError(
                f"sets must be of shape (n_points, {n_dimensions}), got {own.shape} of set {number}"
            )
        if not np.isfinite(own).all():
            raise InputError(f"points must be finite numbers, and set {number} has others")
    return [own if own.size else np.empty((0, n_dimensions)) for own in arrays]


def _parts(sets: Sequence[Floats64]) -> Iterator[Sequence[Floats64]]:
    """The sets one after the other, some at once."""
    first, n_points = 0, 0
    for end, own in enumerate(sets, 1):
        n_points += len(own)
        if n_points >= _POINTS_AT_ONCE or end == len(sets):
            yield sets[first:end]
            first, n_points = end, 0


def _turns(owners: Places, places: Places) -> tuple[Places, Places]:
    """An order by set and bin, and along it how many of the same set and bin came before."""
    order = np.lexsort((places, owners))
    ordered = np.stack([owners[order], places[order]])
    begins = np.flatnonzero(np.append(True, (np.diff(ordered) != 0).any(axis=0))[: len(order)])
    lengths = np.diff(np.append(begins, len(order)))
    return order, np.arange(len(order)) - np.repeat(begins, lengths)


def _greatest(owners: Places, bins: Bins) -> tuple[Bins, Places]:
    """All different bins, sorted, and the most points that a set has in each."""
    different, places = np.unique(bins, return_inverse=True)
    order, turns = _turns(owners, places)
    most = np.zeros(len(different), dtype=np.int64)
    np.maximum.at(most, places[order], turns + 1)
    return different, most


def _merged(bins: Bins, most: Places, others: Bins, theirs: Places) -> tuple[Bins, Places]:
    """The same of two such."""
    different, places = np.unique(np.concatenate([bins, others]), return_inverse=True)
    both = np.zeros(len(different), dtype=np.int64)
    np.maximum.at(both, places, np.concatenate([most, theirs]))
    return different, both
