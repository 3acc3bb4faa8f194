"""The labels of a concept at earlier positions of its log, as they counted at that time.

An imported label may be about an item that is not in the pool yet. It counts as soon as the pool has the
item's features. Which labels count therefore depends on the number of rows that the pool had.
"""

from __future__ import annotations

from collections.abc import Iterable

from closecall.core.pool.pool import Pool
from closecall.storage import AnswerRecord, LabelState, SelectionRecord


def rows_then(pool: Pool, record: SelectionRecord) -> int:
    """Return the number of rows that the pool had when the selection was made; `pool` is a later snapshot.

    If the pool was built again since, its segments may be others. It had at least `record.items_total` rows.
    """
    return max(pool.n_rows_of(record.pool_version), min(record.items_total, len(pool)))


class LabelsThen:
    """The labels of a concept, read in the order of the log.

    Parameters
    ----------
    concept_id : int
    answers : iterable of AnswerRecord
        The concept's answers, in log order.
    pool : Pool
        A snapshot that is as new as the last answer.
    """

    def __init__(self, concept_id: int, answers: Iterable[AnswerRecord], pool: Pool) -> None:
        self._concept_id = concept_id
        self._answers = tuple(answers)
        self._pool = pool
        self._last = -1
        self._begin()

    def at(self, through: int, n_rows: int) -> LabelState:
        """Return the labels at the log position `through`, when the pool had `n_rows` rows.

        If `through` is less than in the call before, the log is read from its beginning. The next call may
        change the returned object.
        """
        last = int(self._pool.ids[n_rows - 1]) if n_rows else -1
        if last != self._last:
            self._last = last
            if self._newest > last or any(map(self._has_row, self._state.left_out)):
                self._begin()
        if self._state.seq > through:
            self._begin()
        while self._n_read < len(self._answers) and self._answers[self._n_read].seq <= through:
            self._state.apply(self._answers[self._n_read])
            self._n_read += 1
        return self._state

    def _begin(self) -> None:
        self._state = LabelState(self._concept_id, self._counts)
        self._n_read = 0
        self._newest = -1  # the largest id of an item whose answers count

    def _has_row(self, item: int) -> bool:
        return item <= self._last and self._pool.has_row(item)

    def _counts(self, item: int) -> bool:
        counts = self._has_row(item)
        if counts:
            self._newest = max(self._newest, item)
        return counts
