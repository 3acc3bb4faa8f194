"""The features of a pool's segments as one matrix, whose rows stay in the mapped files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.scoring import score_blocks
from closecall.core.numerics.rows import PlacedRows, Rows, cut, gathered, no_rows
from closecall.core.pool.item_ids import Ids
from closecall.core.pool.segments import Segment
from closecall.core.quantization.byte_rows import ByteRows

COPIED_ROWS = 8192
"""Maximum number of rows per block in `SegmentRows.blocks` if rows must be copied."""


class SegmentRows:
    """The rows of consecutive segments. Its methods do not check that row numbers exist.

    Parameters
    ----------
    segments : sequence of Segment
        In the order of their rows.
    n_features : int
    dtype : numpy dtype
        Type of the features on disk: float32, float16, or int8 for a byte pool. Features are returned as
        float32.
    is_sparse : bool

    Attributes
    ----------
    segments : tuple of Segment
        The segments that have rows.
    starts : array of shape (n_segments,), int64
        First row of each of these.
    """

    def __init__(
        self, segments: Sequence[Segment], n_features: int, dtype: np.dtype[Any], *, is_sparse: bool
    ) -> None:
        self.n_features = n_features
        self.dtype = dtype
        self.is_sparse = is_sparse
        self.segments = tuple(segment for segment in segments if len(segment))
        self.starts = np.array([segment.first_row for segment in self.segments], dtype=np.int64)

    def gathered(self, rows: Ids) -> Rows:
        """Return the features of these rows, of shape (n, n_features), in the given order."""
        order = np.argsort(rows, kind="stable")
        ends = [*np.searchsorted(rows[order], self.starts).tolist(), len(rows)]
        found = [(order[:0], no_rows(self.n_features, sparse=self.is_sparse))]
        for segment, start, end in zip(self.segments, ends[:-1], ends[1:], strict=True):
            if start < end:
                there = order[start:end]
                found.append((there, segment.X[rows[there] - segment.first_row]))
        return gathered(found)

    def placed(self, rows: Ids) -> PlacedRows:
        """Return the memory addresses of dense rows. Rows that are not float32 are copied."""
        if self.dtype != np.float32:
            return PlacedRows.of(self.gathered(rows))
        owners = tuple(cast(NDArray[np.float32], segment.X) for segment in self.segments)
        segment = np.searchsorted(self.starts, rows, side="right") - 1
        first = np.array([X.ctypes.data for X in owners], dtype=np.uintp)
        width = np.uintp(self.n_features * self.dtype.itemsize)
        places = first[segment] + (rows - self.starts[segment]).astype(np.uintp) * width
        return PlacedRows(places, self.n_features, owners)

    def blocks(self, start_row: int) -> Iterator[tuple[int, Rows]]:
        """Yield blocks of rows from `start_row` on; see `Pool.blocks`."""
        for segment in self.segments:
            skip = max(0, start_row - segment.first_row)
            step = COPIED_ROWS if self.dtype != np.float32 else max(1, len(segment))
            for first in range(skip, len(segment), step):
                X = cut(segment.X, first, first + step)
                yield segment.first_row + first, decoded(X)

    def score_blocks(
        self,
        hyperplanes: Sequence[Hyperplane],
        segments: Collection[int] | None = None,
        *,
        start_row: int = 0,
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield the signed margins of the rows from `start_row` on; see `Pool.score_blocks`."""
        wanted = self.segments if segments is None else [self.segments[number] for number in segments]
        parts = [part for part in wanted if part.first_row + len(part) > start_row]
        skips = [max(0, start_row - part.first_row) for part in parts]
        rows = [
            (part.first_row + skip, cut(part.X, skip, len(part)))
            for part, skip in zip(parts, skips, strict=True)
        ]
        if self.byte_segments:
            return ((first, X.scores(hyperplanes)) for first, X in rows if hyperplanes)
        return score_blocks(rows, hyperplanes)

    @property
    def byte_segments(self) -> tuple[tuple[int, ByteRows], ...]:
        """The segments of a byte pool, as (first row, rows) in order. Other pools have none."""
        pairs = ((segment.first_row, segment.X) for segment in self.segments)
        return tuple((first, X) for first, X in pairs if isinstance(X, ByteRows))


def decoded(X: Any) -> Rows:
    """Return the rows of a segment, or of a part of it, as float32."""
    return X.decoded() if isinstance(X, ByteRows) else X.astype(np.float32, copy=False)
