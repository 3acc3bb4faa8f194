"""The pyramid match kernel of sets of points, as the inner product of sparse rows.

Images are often described by sets of local features: any number of points, in no order. The pyramid match
[1]_ counts how many points of two sets can be paired, and how closely. Space is divided into bins. Their side
is s·2ⁱ at level i, where s is the side of the finest bins. Let c and c' be the numbers of points of the two
sets in a bin. Then I_i = Σ min(c, c'), summed over all bins of level i, is the number of pairs within bins.
N_i = I_i − I_{i−1} of these pairs are new at level i. A pair counts less at coarser levels:

    K = Σ_i w_i N_i,   w_i = 2⁻ⁱ,   K̃(x, y) = K(x, y) / √(K(x, x) K(y, y))

Nothing is paired below level 0, so I_{−1} = 0. A set of n points has K(x, x) = n.

**As an inner product** [2]_. Summation by parts gives K = Σ_i (w_i − w_{i+1}) I_i, with w_i = 0 above the
last level. Moreover, min(c, c') is the inner product of c and c' written in unary: c ones followed by zeros,
and c' ones followed by zeros. A set is therefore represented by a row with one feature for each level i, bin
and number j. The feature is √(w_i − w_{i+1}) if at least j points of the set lie in the bin, and 0 otherwise.
The inner product of two rows is K. If each row is divided by √n, where n is the number of points of its set,
the inner product is K̃. Rows are sparse: each point contributes one nonzero feature per level. Methods for
sparse rows therefore apply to sets. Hash functions by random hyperplanes agree with probability
1 − arccos(K̃)/π (`core.hashing.lsh`). A metric can be learned implicitly (`core.metric`) and built into the
hash functions (`core.hashing.metric_lsh`).

**Shifts.** Near points may be separated by a bin boundary at all levels. Several pyramids, each shifted by
its own random vector, make this less likely. Their kernel is the mean of the pyramids' kernels.

**The vocabulary** lists the features of the rows. Each bin that the fitted sets occupy has a feature for each
j from 1 to the largest number of points of one fitted set in this bin. The inner product of a fitted set and
any other set is exactly K̃, because features outside the vocabulary only affect the norm of the other set.
Between two new sets, pairs in bins outside the vocabulary are not counted. If all points lie in a known box,
nothing needs to be fitted and all pairs are counted: see `core.mercer.box`.

References
----------
.. [1] K. Grauman, T. Darrell, "The pyramid match kernel: discriminative classification with sets of image
   features", ICCV 2005.
.. [2] K. Grauman, T. Darrell, "Pyramid match hashing: sub-linear time indexing over partial correspondences",
   CVPR 2007.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.mercer.unary import Bins, Floats64, Places, Vocabulary, batches
from closecall.core.numerics.rows import joined, no_rows

_POINTS_AT_ONCE = 1 << 16
_A_HAIR = 1 + 2.0**-20


class PyramidMatch:
    """Embedding of sets of points as sparse rows.

    Parameters
    ----------
    n_levels : int
        Number of levels, from 1 to 31.
    side : float or None
        Side of the finest bins, in the unit of the points. None chooses the side such that one unshifted bin
        of the last level contains all fitted points.
    n_shifts : int
        Number of randomly shifted pyramids; 0 for a single pyramid without a shift.
    normalised : bool
        Whether the inner product of rows is the normalised kernel K̃ of this module's docstring; otherwise it
        is K.
    random_state : int
        Seed of the shifts.

    Attributes
    ----------
    side_ : float
        Side of the finest bins.
    origins_ : array of shape (n_pyramids, n_dimensions), float64
        Origin of the bins of each pyramid.
    vocabulary_ : Vocabulary
        All bins that the fitted sets occupy.
    """

    side_: float
    origins_: Floats64
    vocabulary_: Vocabulary

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
        """Build the vocabulary from these sets.

        Parameters
        ----------
        sets : sequence of arrays of shape (n_points, n_dimensions)
            Sets may have any number of points, including none.

        Raises
        ------
        InputError
            If a parameter is out of range, if all sets are empty, if points are not finite or differ in their
            number of dimensions, or if there are too many bins for 32-bit integers.
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
        self.vocabulary_ = Vocabulary.of(map(self._bins, _parts(checked)))
        return self

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `restored` makes an equal fitted pyramid."""
        parameters = (self.n_levels, self.n_shifts, int(self.normalised), self.random_state)
        bins, firsts = self.vocabulary_
        return {
            "parameters": np.array(parameters, dtype=np.int64),
            "side": np.array(self.side_),
            "origins": self.origins_,
            "bins": bins.view(np.int32).reshape(len(bins), -1),
            "firsts": firsts,
        }

    @classmethod
    def restored(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return a fitted pyramid, given the result of its method `state`."""
        n_levels, n_shifts, normalised, random_state = state["parameters"].tolist()
        side = float(state["side"])
        pyramid = cls(
            n_levels=n_levels,
            side=side,
            n_shifts=n_shifts,
            normalised=bool(normalised),
            random_state=random_state,
        )
        pyramid.side_, pyramid.origins_ = side, state["origins"]
        bins = np.ascontiguousarray(state["bins"]).view(pyramid._kind).ravel()
        pyramid.vocabulary_ = Vocabulary(bins, state["firsts"])
        return pyramid

    @property
    def n_features_(self) -> int:
        """Length of the rows."""
        return self.vocabulary_.n_features

    def transform(self, sets: Sequence[ArrayLike]) -> csr_array:
        """Embed sets as rows of shape (n_sets, n_features_), float32; empty sets give zeros.

        Raises
        ------
        InputError
            If points are not finite, differ from the fitted points in their number of dimensions, or lie in a
            bin whose number does not fit into 32 bits.
        """
        checked = _checked(sets, self.origins_.shape[1])
        rows = [self._rows(part) for part in _parts(checked)]
        return joined(rows or [no_rows(self.n_features_, sparse=True)])

    def fit_transform(self, sets: Sequence[ArrayLike]) -> csr_array:
        """Fit to the sets and return their rows."""
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
        return self.vocabulary_.rows(owners, bins, values, len(sets))

    def _bins(self, sets: Sequence[Floats64]) -> tuple[Places, Bins]:
        """Return two arrays with an entry for each combination of a point, a pyramid and a level.

        The first array has the index of the set that the point belongs to, the second the bin that the point
        lies in. A bin is encoded as bytes: the index of the pyramid, the level, and the position in the grid.
        """
        n_pyramids, n_dimensions = self.origins_.shape
        points = np.concatenate([*sets, np.empty((0, n_dimensions))])
        grid = np.floor((points[:, None] - self.origins_) / self.side_)
        if np.abs(grid).max(initial=0) >= 2**31:
            raise InputError(
                f"side must be large enough for at most {2**31:,} bins per direction, got {self.side_:g}"
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
            raise InputError(f"side must be positive and finite, got {self.side:g}")
        if self.n_shifts < 0:
            raise InputError(f"n_shifts must be at least 0, got {self.n_shifts}")
        if self.random_state < 0:
            raise InputError(f"random_state must be at least 0, got {self.random_state}")


def weights_of_levels(n_levels: int) -> Floats64:
    """Return w_i − w_{i+1} for each level i, of shape (n_levels,), where w_i = 2⁻ⁱ.

    Above the last level, w_i = 0. The differences therefore add to 1.
    """
    w = 2.0 ** -np.arange(n_levels)
    return np.asarray(w - np.append(w[1:], 0.0))


def _checked(sets: Sequence[ArrayLike], n_dimensions: int | None) -> list[Floats64]:
    """Return the sets as float64; sets without points may have any shape."""
    arrays = [np.asarray(own, dtype=np.float64) for own in sets]
    filled = [own for own in arrays if own.size]
    if n_dimensions is None:
        if not filled:
            raise InputError(f"a pyramid needs at least one point to fit, got none in {len(arrays)} sets")
        n_dimensions = filled[0].shape[-1]
    for number, own in enumerate(arrays):
        if own.size and own.shape != (len(own), n_dimensions):
            raise InputError(
                f"sets must be of shape (n_points, {n_dimensions}), got {own.shape} for set {number}"
            )
        if not np.isfinite(own).all():
            raise InputError(f"points must be finite, but set {number} has NaN or infinity")
    return [own if own.size else np.empty((0, n_dimensions)) for own in arrays]


def _parts(sets: Sequence[Floats64]) -> Iterator[Sequence[Floats64]]:
    return batches(sets, map(len, sets), _POINTS_AT_ONCE)
