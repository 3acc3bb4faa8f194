"""Search for the nearest rows of a byte pool, segment by segment: the pool's own bytes are the index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.quantization.byte_rows import ByteRows
from closecall.core.quantization.codebook import Codebook
from closecall.core.quantization.moments import scales
from closecall.core.selection.margin.kernels import plan, read
from closecall.core.selection.margin.layout import read_only
from closecall.core.selection.margin.tables import Found, Plan, Statistics, Tables
from closecall.core.selection.reader import Ids, PoolRows

_NO_SCORES = read_only(np.empty(0, dtype=np.float32))
_HIDDEN = -1


class ByteSearch:
    """Search in the segments of a byte pool.

    A query is planned once, from the statistics of the codebook: which clusters to read, and which rows may
    be the nearest. The rows of these clusters are then read in each segment, with a reach of its own. What is
    found in a segment therefore depends only on the plan and on the segment.

    Parameters
    ----------
    pool : PoolRows
        A byte pool with at least one row.
    """

    def __init__(self, pool: PoolRows) -> None:
        self._n_rows = len(pool)
        self._segments = [
            _Segment.of(first, X, pool.ids[first : first + len(X)]) for first, X in pool.byte_segments
        ]
        starts: NDArray[np.int64] = np.sum([one.tables.starts for one in self._segments], axis=0)
        self.statistics = statistics_of(pool.byte_segments[0][1].codebook, starts)

    @property
    def n_blocks(self) -> int:
        """Number of blocks of bytes per row."""
        return len(self.statistics.second_moments)

    def found(self, hyperplane: Hyperplane, excluded: Ids, n: int, limit: int, z: float) -> Found:
        """Return the rows of the pool that may be among the n nearest of those read.

        `limit` is the number of rows to read. Clusters are read whole, so it may be exceeded. For the other
        parameters, see `core.selection.margin.kernels.search`.
        """
        stored = int(self.statistics.starts[-1])
        limit = stored if limit >= self._n_rows else limit  # a segment may have rows that the pool lacks
        planned = plan(self.statistics, hyperplane.normal, hyperplane.bias, limit, z)
        parts = list(self._read(planned, excluded, n))
        return Found(
            np.concatenate([found.rows + first for first, found in parts]),
            np.concatenate([found.distances for _, found in parts]),
            parts[0][1].error,
            sum(found.looked for _, found in parts),
        )

    def _read(self, planned: Plan, excluded: Ids, n: int) -> Iterator[tuple[int, Found]]:
        clusters = planned.clusters
        for first, tables, is_whole in self._segments:
            limit = int((tables.starts[clusters + 1] - tables.starts[clusters]).sum())
            barred = excluded if is_whole else np.concatenate([[_HIDDEN], excluded[excluded >= 0]])
            yield first, read(tables, planned, read_only(barred), n, limit, _NO_SCORES)


class _Segment(NamedTuple):
    """The tables of a segment. If not all of its rows are in the pool, the others have the id `_HIDDEN`."""

    first_row: int
    tables: Tables
    is_whole: bool

    @classmethod
    def of(cls, first_row: int, X: ByteRows, ids: Ids) -> _Segment:
        if not X.is_whole:
            ids = np.concatenate([ids, np.full(len(X.order) - len(ids), _HIDDEN)])
        parts = (X.starts, X.codes, X.tails, X.order, ids)
        return cls(first_row, Tables(*(read_only(array) for array in parts)), X.is_whole)


def statistics_of(codebook: Codebook, starts: NDArray[np.int64]) -> Statistics:
    """Return the statistics of a byte pool, whose clusters start at `starts` if all segments are joined."""
    quantizer = codebook.quantizer
    parts = (
        quantizer.centre, quantizer.directions, quantizer.steps, quantizer.centroids,
        codebook.second_moments, codebook.means, codebook.variances, scales(), starts,
    )  # fmt: skip
    return Statistics(*(read_only(array) for array in parts))
