"""Read the log of answers from a cursor on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from closecall.client.connection import Connection
from closecall.client.records import Answer

PAGE = 1000
"""Maximum number of answers per request."""


class AnswerLog(Iterator[Answer]):
    """An iterator over a question's answers, in the order in which they were stored.

    Store `cursor` together with your result for an answer. After a crash, continue from the stored cursor:
    each answer is then used exactly once. The iterator ends at the end of the log. Iterate again to read the
    answers that have arrived later.

    Parameters
    ----------
    connection : Connection
    path : str
        Path of the log.
    after : int
        Cursor from which to continue; 0 is the beginning.
    """

    def __init__(self, connection: Connection, path: str, after: int = 0) -> None:
        self.cursor = after
        """The place in the log after the answer that was returned last."""
        self._connection = connection
        self._path = path
        self._page: deque[Answer] = deque()
        self._is_last = False
        self._read_to = after

    def __iter__(self) -> AnswerLog:
        self._is_last = False
        return self

    def __next__(self) -> Answer:
        while not self._page:
            self.cursor = self._read_to  # answers to other questions lie before it
            if self._is_last:
                raise StopIteration
            self._read()
        answer = self._page.popleft()
        self.cursor = answer.seq
        return answer

    def _read(self) -> None:
        page = self._connection.get(self._path, after=self._read_to, limit=PAGE)
        self._page.extend(map(Answer.from_json, page["answers"]))
        self._is_last = not page["more"]
        self._read_to = page["cursor"]
