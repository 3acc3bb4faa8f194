"""Search for the nearest rows of a byte pool, segment by segment: the pool's own bytes are the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.quantization.byte_rows import ByteRows
from closecall.core.quantization.codebook import Codebook
from closecall.core.quantization.moments import scales
from closecall.core.selection.margin.kernels import plan, read
from closecall.core.selection.margin.layout import read_only
from closecall.core.selection.margin.tables import Found, Plan, Statistics, Tables
from closecall.core.selection.reader import Ids, PoolRows, RowReader, ids_within, searched

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

    @classmethod
    def of(cls, pool: PoolRows) -> ByteSearch:
        """Return the search in this pool; always the same object for a pool."""
        search = _searches.get(pool)
        if search is None:
            search = _searches[pool] = cls(pool)
        return search

    @property
    def n_blocks(self) -> int:
        """Number of blocks of bytes per row."""
        return len(self.statistics.second_moments)

    def planned(self, hyperplane: Hyperplane, limit: int, z: float, *, largest: bool = False) -> Plan:
        """Return the plan of a query.

        `limit` is the number of rows to read. Clusters are read whole, so it may be exceeded. For `z` and
        `largest`, see `core.selection.margin.kernels.search`.
        """
        stored = int(self.statistics.starts[-1])
        limit = stored if limit >= self._n_rows else limit  # a segment may have rows that the pool lacks
        return plan(self.statistics, hyperplane.normal, hyperplane.bias, limit, z, largest)

    def n_planned(self, planned: Plan, segments: Sequence[int]) -> int:
        """Return the number of rows of these segments that are in the planned clusters."""
        return sum(self._segments[number].n_planned(planned) for number in segments)

    def read(self, planned: Plan, excluded: Ids, n: int, segments: Sequence[int] | None) -> list[InSegment]:
        """Return what may be among the n nearest rows in each of these segments, or in each if None."""
        numbers = range(len(self._segments)) if segments is None else segments
        return [(number, self._segments[number].read(planned, excluded, n)) for number in numbers]


InSegment = tuple[int, Found]
"""The number of a segment, and what was found in it. Rows are numbered as in the pool."""

_searches: WeakKeyDictionary[PoolRows, ByteSearch] = WeakKeyDictionary()


def found_in(
    pool: PoolRows,
    reader: RowReader,
    hyperplane: Hyperplane,
    excluded: Ids,
    n: int,
    limit: int,
    z: float,
    *,
    largest: bool = False,
) -> tuple[Found, int]:
    """Return the rows of a byte pool that may be among the n nearest of those read.

    The second result is the number of rows that were planned, but could not be read in time. For the
    parameters, see `ByteSearch.planned` and `core.selection.margin.kernels.search`.
    """
    search = ByteSearch.of(pool)
    planned = search.planned(hyperplane, limit, z, largest=largest)
    parts = searched(pool, reader, Reading(planned, excluded, n))
    of_segments = [found for _, found in sorted((pair for part in parts.found for pair in part), key=_number)]
    found = Found(
        np.concatenate([np.empty(0, np.int64), *(found.rows for found in of_segments)]),
        np.concatenate([np.empty(0, np.float32), *(found.distances for found in of_segments)]),
        max((found.error for found in of_segments), default=0.0),
        sum(found.looked for found in of_segments),
    )
    return found, search.n_planned(planned, parts.missing)


def _number(of_segment: InSegment) -> int:
    return of_segment[0]


@dataclass(frozen=True, eq=False)
class Reading:
    """Reading of the planned clusters in segments, a `core.selection.reader.Search`."""

    planned: Plan
    excluded: Ids
    n: int

    def within(self, pool: PoolRows, segments: Sequence[int]) -> Reading:
        """See `core.selection.reader.Search`."""
        return replace(self, excluded=ids_within(pool, self.excluded, segments))

    def run(self, pool: PoolRows, reader: RowReader, segments: Sequence[int] | None) -> list[InSegment]:  # noqa: ARG002
        """Return what was found in each segment."""
        return ByteSearch.of(pool).read(self.planned, self.excluded, self.n, segments)


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

    def n_planned(self, planned: Plan) -> int:
        """Return the number of rows in the planned clusters."""
        starts = self.tables.starts
        return int((starts[planned.clusters + 1] - starts[planned.clusters]).sum())

    def read(self, planned: Plan, excluded: Ids, n: int) -> Found:
        """Read the planned clusters."""
        if not self.is_whole:
            excluded = np.concatenate([[_HIDDEN], excluded[excluded >= 0]])
        limit = self.n_planned(planned)
        found = read(self.tables, planned, read_only(excluded), n, limit, _NO_SCORES)
        return found._replace(rows=found.rows + self.first_row)


def statistics_of(codebook: Codebook, starts: NDArray[np.int64]) -> Statistics:
    """Return the statistics of a byte pool, whose clusters start at `starts` if all segments are joined."""
    quantizer = codebook.quantizer
    parts = (
        quantizer.centre, quantizer.directions, quantizer.steps, quantizer.centroids,
        codebook.second_moments, codebook.means, codebook.variances, scales(), starts,
    )  # fmt: skip
    return Statistics(*(read_only(array) for array in parts))
