"""The nearest of given rows, such as random rows or the candidates of a hash table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection.nearest import balanced, float32_error, nearest_first, within_reach
from closecall.core.selection.reader import PoolRows, RowReader, Rows, rows_within, searched
from closecall.core.selection.requests import Choice, Query
from closecall.core.selection.scan import Ranked, joined


def nearest_among(pool: PoolRows, reader: RowReader, rows: Rows, query: Query) -> Choice:
    """Choose the n items nearest to the hyperplane among these `rows`; ties go to the lower id.

    No excluded row may be among the rows.
    """
    hyperplane, unit = balanced(query.plane())
    parts = searched(pool, reader, NearestAmong(rows, hyperplane, query.n))
    near, margins = joined(parts.found)
    if not parts.is_ours:
        margins = reader.margins(near, hyperplane)
    near, margins = nearest_first(near, margins, query.n)
    missing = len(rows_within(pool, rows, parts.missing))
    return Choice(pool.ids[near], margins * unit, scored=len(rows) - missing, missing=missing)


@dataclass(frozen=True, eq=False)
class NearestAmong:
    """Search for the nearest of given rows, a `core.selection.reader.Search`.

    Parameters
    ----------
    rows : array of shape (n_rows,), int64
        Rows to score.
    hyperplane : Hyperplane
        A balanced hyperplane.
    n : int
        Number of rows to find.
    """

    rows: Rows
    hyperplane: Hyperplane
    n: int

    def within(self, pool: PoolRows, segments: Sequence[int]) -> NearestAmong:
        """See `core.selection.reader.Search`."""
        return replace(self, rows=rows_within(pool, self.rows, segments))

    def run(self, pool: PoolRows, reader: RowReader, segments: Sequence[int] | None) -> Ranked:  # noqa: ARG002
        """Return the n nearest rows, and their margins."""
        if not len(self.rows):
            return self.rows, reader.margins(self.rows, self.hyperplane)
        rough = reader.rough_margins(self.rows, self.hyperplane)
        near = self.rows[within_reach(rough, self.n, float32_error(self.hyperplane))]
        return nearest_first(near, reader.margins(near, self.hyperplane), self.n)
