"""Pool in memory, for trying query strategies on arrays without a source or a folder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane, unit_rows
from closecall.core.linear.scoring import score_blocks
from closecall.core.numerics.rows import Rows, cut, is_sparse
from closecall.core.quantization.byte_rows import ByteRows
from closecall.core.selection.reader import Ids

if TYPE_CHECKING:
    from closecall.core.accelerator.kept import KeptRows


class ArrayPool:
    """Pool whose rows are in memory, with the interface that query strategies need (`PoolRows`).

    Parameters
    ----------
    X : array or sparse matrix of shape (N, n_features)
        Rows of the pool. They are scaled to unit norm.
    ids : array of shape (N,), int64, ascending
        Item ids, by default 0 … N − 1.

    Raises
    ------
    InputError
        If X is not two-dimensional, if a row is zero or not finite, or if the ids are not N ascending
        numbers.
    """

    def __init__(self, X: Rows, ids: ArrayLike | None = None) -> None:
        if np.ndim(X) != 2 and not is_sparse(X):
            raise InputError(f"X must have the shape (N, n_features), got {np.shape(X)}")
        self._X = unit_rows(X)
        n_rows = self._X.shape[0]
        self.ids: Ids = np.arange(n_rows) if ids is None else np.asarray(ids, dtype=np.int64)
        if self.ids.shape != (n_rows,) or (np.diff(self.ids) <= 0).any():
            raise InputError(f"ids must be {n_rows} ascending numbers, one for each row")
        self.n_features = self._X.shape[1]
        self.dtype = self._X.dtype
        self.is_sparse = is_sparse(self._X)
        self.byte_segments: tuple[tuple[int, ByteRows], ...] = ()
        self.segment_starts = np.arange(min(1, n_rows))
        self.crew = None
        self.kept: KeptRows | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def kept_on(self, kept: KeptRows) -> ArrayPool:
        """Return the same pool, scanned by a device; a sparse pool is returned as it is."""
        if self.is_sparse:
            return self
        own = copy(self)
        own.kept = kept
        kept.keep_up([(0, self._X)])
        return own

    def alone(self) -> ArrayPool:
        """Return the same pool without a device; itself if it has none."""
        if self.kept is None:
            return self
        own = copy(self)
        own.kept = None
        return own

    def scores(self, hyperplane: Hyperplane) -> NDArray[np.float32]:
        """Return wᵀx + b of every row, of shape (N,), in float32."""
        return np.concatenate([scores[0] for _, scores in self.score_blocks([hyperplane])])

    def score_blocks(
        self, hyperplanes: Sequence[Hyperplane], segments: Collection[int] | None = None
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield wᵀx + b of every row under each hyperplane, block by block; see `core.linear.scoring`.

        All rows are in segment 0.
        """
        wanted = [0] if segments is None else segments
        return score_blocks(((0, self._X) for _ in wanted), hyperplanes)

    def rows(self, rows: NDArray[np.int64]) -> Rows:
        """Return the features of these rows, of shape (len(rows), n_features)."""
        return self._X[rows]

    def blocks(self, start_row: int = 0) -> Iterator[tuple[int, Rows]]:
        """Yield all rows from `start_row` on, as one block."""
        if start_row < len(self):
            yield start_row, cut(self._X, start_row, len(self))

    def prefix(self, n_rows: int) -> ArrayPool:
        """Return the pool of the first `n_rows` rows."""
        shorter = copy(self)
        shorter._X = cut(self._X, 0, n_rows)
        shorter.ids = self.ids[:n_rows]
        return shorter
