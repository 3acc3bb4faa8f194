"""The equal-time random subsample: the baseline that every fast strategy must beat.

This baseline scores as many random rows as possible in the time that a strategy takes, and selects the
nearest of them.

**Time.** The fastest implementation would store the rows in random order and read consecutive rows. The timed
computation therefore reads consecutive rows from a random place. It multiplies them by the normal vector of
the hyperplane (with BLAS, or with SciPy for sparse rows), adds the bias, takes absolute values, and finds the
minimum. This computation is timed for 1, 2, 4, … rows up to the whole pool, between the selections of the
strategies. Each size is timed with one thread and with all allowed threads, because one thread may be faster
for few rows. The shorter time counts.

**Rank.** The rank of a subsample is the rank of its nearest row among all rows of the pool. It is computed by
brute force for random rows.

Between two sizes, logarithms of times and ranks are interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows, is_sparse
from closecall.core.pool.pool import Pool

WINDOWS = 20
"""Number of random subsamples of each size whose rank is computed for each hyperplane."""

COPIED_ROWS = 1 << 17
"""Number of rows to copy to float32 for timing, if the pool is stored in another dtype.

Larger subsamples read the copy repeatedly.
"""

Floats = NDArray[np.float64]


def product_into(X: Rows, w: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the product X w to `out`. BLAS computes it for dense rows, SciPy for sparse rows."""
    if is_sparse(X):
        out[:] = X @ w
    else:
        np.dot(X, w, out=out)


def pool_product(pool: Pool, w: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the product of all rows of a pool with w to `out`, of shape (n_rows,); see `product_into`."""
    for first, X in pool.blocks():
        product_into(X, w, out[first : first + X.shape[0]])


class EqualTimeSubsample:
    """The time of random subsamples and the rank of their nearest row, as functions of their size.

    Call `time` and `rank` once for each hyperplane, and the other methods afterwards.

    Parameters
    ----------
    pool : Pool
    seed : int
        Seed for drawing the subsamples, and the rows that are read to measure times.
    threads : int
        Maximum number of threads that BLAS may use.

    Attributes
    ----------
    sizes : array of shape (n_sizes,)
        Sizes of the subsamples in rows, ascending. The last one is the size of the pool.
    """

    def __init__(self, pool: Pool, seed: int = 0, threads: int = 1) -> None:
        n = len(pool)
        self._blas = ThreadpoolController()
        self._threads = sorted({1, threads})
        self.sizes = np.append(1 << np.arange((n - 1).bit_length()), n)
        self._rng = np.random.default_rng([seed, n])
        self._shuffled = self._rng.permutation(n)
        self._blocks = (
            list(pool.blocks())
            if pool.dtype == np.float32
            else [(0, pool.rows(np.arange(min(n, COPIED_ROWS))))]
        )
        self._out = np.full(n, 0, dtype=np.float32)  # unlike `np.zeros`, this maps the pages of the array
        self._ms: list[list[list[float]]] = []
        self._ranks: list[NDArray[np.int64]] = []

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join measurements of one pool that were made in several parts."""
        whole = copy(parts[0])
        whole._ms = [ms for part in parts for ms in part._ms]
        whole._ranks = [ranks for part in parts for ranks in part._ranks]
        return whole

    def time(self, hyperplane: Hyperplane) -> None:
        """Time a subsample of each size."""
        w, b = hyperplane.normal.astype(np.float32), np.float32(hyperplane.bias)
        ms = []
        for threads in self._threads:
            with self._blas.limit(limits=threads, user_api="blas"):
                ms.append([self._scan_ms(size, w, b) for size in self.sizes.tolist()])
        self._ms.append(ms)

    def rank(self, margins: NDArray[np.float32]) -> None:
        """Compute the rank of the nearest row in random subsamples of each size.

        Parameters
        ----------
        margins : array of shape (n_rows,), float32
            |wᵀx + b| of all rows of the pool; infinite for excluded rows.
        """
        available = margins[self._shuffled]
        available = available[np.isfinite(available)]
        n = len(available)
        twice = np.concatenate([available, available])
        edges = np.minimum(np.append(0, self.sizes[:-1]), n - 1)
        nearest = [
            np.minimum.accumulate(np.minimum.reduceat(twice[start : start + n], edges))
            for start in self._rng.integers(n, size=WINDOWS)
        ]
        self._ranks.append(np.searchsorted(np.sort(available), np.array(nearest)))

    def rows_in(self, ms: float) -> float:
        """Return the number of rows that can be scored in `ms` milliseconds."""
        # If a size took longer than a larger size, other programs disturbed its timing.
        costs = np.minimum.accumulate(np.median(self._ms, axis=0).min(axis=0)[::-1])[::-1]
        return float(np.exp(np.interp(np.log(ms), np.log(costs), np.log(self.sizes))))

    def median_rank(self, rows: float) -> float:
        """Return the median rank of the row that a random subsample of `rows` rows selects.

        The median is over all subsamples and hyperplanes.
        """
        logs = np.log1p(np.median(self._ranks, axis=(0, 1)))
        return float(np.expm1(self._between(logs, rows)))

    def log_ranks(self, rows: float) -> Floats:
        """Return, for each hyperplane, the mean of log(rank + 1) over random subsamples of `rows` rows.

        The rank is that of the subsample's nearest row, and the logarithm is natural. The result has shape
        (n_hyperplanes,).
        """
        logs = np.log1p(np.array(self._ranks)).mean(axis=1)
        return np.asarray(self._between(logs.T, rows))

    def _between(self, values: Floats, rows: float) -> Any:
        """Interpolate `values` at the size `rows`, linearly in the logarithm of the size.

        The shape of `values` is (n_sizes, …).
        """
        place = np.interp(np.log(rows), np.log(self.sizes), np.arange(len(self.sizes)))
        below = int(place)
        above = min(below + 1, len(values) - 1)
        return values[below] + (place - below) * (values[above] - values[below])

    def _scan_ms(self, size: int, w: NDArray[np.float32], b: np.float32) -> float:
        parts = self._parts(size)
        out = self._out[:size]
        start = perf_counter()
        for X, part in parts:
            product_into(X, w, part)
        out += b
        np.abs(out, out=out)
        out.argmin()
        return 1000 * (perf_counter() - start)

    def _parts(self, size: int) -> list[tuple[Rows, NDArray[np.float32]]]:
        """Return `size` consecutive rows from a random place, in parts.

        Each part comes with the output array for its products. After the last row of the pool, the first row
        is next.
        """
        first_rows = [first for first, _ in self._blocks]
        n = first_rows[-1] + self._blocks[-1][1].shape[0]
        row, done = int(self._rng.integers(n)), 0
        parts = []
        while done < size:
            first, X = self._blocks[int(np.searchsorted(first_rows, row, side="right")) - 1]
            found = X[row - first : row - first + size - done]
            n_found = found.shape[0]
            parts.append((found, self._out[done : done + n_found]))
            done += n_found
            row = (row + n_found) % n
        return parts
