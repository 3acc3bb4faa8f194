"""Keep answers until the server has acknowledged them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from closecall.client.connection import Connection
from closecall.client.errors import ConnectionLost, Refused
from closecall.client.patience import Patience

MOST_AT_ONCE = 1000
"""Maximum number of answers in one request."""


class Outbox:
    """The queue of answers that the server has neither acknowledged nor refused.

    An answer may be sent any number of times: the server stores it once, because its id is the same.

    Parameters
    ----------
    connection : Connection
    path : str
        Where answers are sent.
    """

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._pending: dict[str, dict[str, Any]] = {}
        self._refused: dict[str, str] = {}

    @property
    def pending(self) -> list[dict[str, Any]]:
        """The answers in the queue, oldest first."""
        return list(self._pending.values())

    def add(self, answer: dict[str, Any]) -> None:
        """Add an answer to the end of the queue."""
        self._pending[answer["id"]] = answer

    def flush(self) -> None:
        """Send answers until the queue is empty.

        Raises
        ------
        Refused
            If the server refuses some of the answers. All others are stored.
        ConnectionLost
            If the connection's time limit passes without progress while answers are left.
        """
        patience = Patience(self._connection.timeout)
        while batch := list(islice(self._pending.values(), MOST_AT_ONCE)):
            try:
                outcome = self._connection.send("POST", self._path, {"answers": batch})
            except ConnectionLost as error:
                raise ConnectionLost(str(error), self.pending) from error
            if self._settle(outcome):
                patience.reset()
            is_left = any(answer["id"] in self._pending for answer in batch)
            if is_left and not patience.pause():
                reason = outcome.get("message") or "the server did not acknowledge the answers."
                n_left = len(self._pending)
                answers = "1 answer is" if n_left == 1 else f"{n_left} answers are"
                raise ConnectionLost(f"{answers} not stored: {reason}", self.pending)
        refused, self._refused = self._refused, {}
        if refused:
            raise Refused(refused)

    def _settle(self, outcome: Mapping[str, Any]) -> bool:
        """Remove the answers that the server has stored or refused, and return whether any were removed."""
        before = len(self._pending)
        for answer_id in outcome["acked"]:
            self._pending.pop(answer_id, None)
        for refusal in outcome["refused"]:
            if self._pending.pop(refusal["id"], None) is not None:
                self._refused[refusal["id"]] = refusal["reason"]
        return len(self._pending) < before
