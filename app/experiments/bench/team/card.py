"""The rules by which the labeling card shows items and sends answers, as in ``label/flow.js``.

The rules are:

- The card keeps each answer until the server acknowledges it. Until then, the answer is pending.
- After an answer, the card shows the next item at once if the server has sent this item in advance.
- The server can replace the item in view only while no answer of the card's session is pending.

A payload is a message from the server. It has the item in view and the items that may follow: one for each
possible answer. If the items that may follow are not computed yet, the server sends them later, in a part of
a payload.

The cases in ``tests/fixtures/card.json`` test this module and ``label/flow.js``. This module leaves out undo,
corrections, near-duplicates, full scans for comparison, and answers stored by earlier versions of the
program.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

ROOT = "closecall"

PLAIN = "!'()*"
"""Characters that JavaScript's `encodeURIComponent` keeps, although Python's `quote` would encode them."""

Store = MutableMapping[str, str]
"""The ``localStorage`` of a browser. It remains when a page is closed."""


class Queue:
    """The queue of answers that the server has not acknowledged yet. Each answer is an entry in the store.

    Parameters
    ----------
    store : Store
    project, session : str
        Project and session of new answers. The queue also contains pending answers of other sessions in the
        project.
    """

    def __init__(self, store: Store, project: str, session: str) -> None:
        self._store = store
        self._project = project
        self._session = session

    @property
    def pending(self) -> list[dict[str, Any]]:
        """Pending answers of all sessions, in the order in which they were given."""
        return [entry["answer"] for _, entry in self._entries()]

    @property
    def own(self) -> list[dict[str, Any]]:
        """Pending answers of this session."""
        return [answer for answer in self.pending if answer["session"] == self._session]

    def add(self, answer: Mapping[str, Any]) -> None:
        """Add an answer to the end of the queue."""
        entries = self._entries()
        entry = {
            "place": entries[-1][1]["place"] + 1 if entries else 0,
            "answer": {**answer, "session": self._session},
        }
        key = "/".join(quote(part, safe=PLAIN) for part in (ROOT, self._project, self._session, answer["id"]))
        self._store[key] = json.dumps(entry)

    def settle(self, ids: Iterable[str]) -> list[dict[str, Any]]:
        """Remove the answers with these ids, which the server has stored or refused, and return them."""
        settled = set(ids)
        found = [(key, entry["answer"]) for key, entry in self._entries() if entry["answer"]["id"] in settled]
        for key, _ in found:
            del self._store[key]
        return [answer for _, answer in found]

    def _entries(self) -> list[tuple[str, dict[str, Any]]]:
        mine = f"{ROOT}/{quote(self._project, safe=PLAIN)}/"
        read = [(key, json.loads(text)) for key, text in self._store.items() if key.startswith(mine)]
        return sorted(read, key=lambda entry: entry[1]["place"])


@dataclass(frozen=True)
class Item:
    """An item that a card shows or may show next, with the id of its selection, and its picture."""

    id: int
    selection: str
    picture: str


@dataclass(frozen=True)
class Given:
    """An answer given on a card: its id, the item, the id of the item's selection, and "yes" or "no"."""

    id: str
    item: int
    selection: str
    answer: str


class Card:
    """The labeling card of one page. The page does the polling and the retries, so no method blocks.

    Parameters
    ----------
    store : Store
        The browser's ``localStorage``.
    send : callable
        Sends a list of answers to the server. The message may get lost.
    """

    def __init__(self, store: Store, send: Callable[[list[dict[str, Any]]], None]) -> None:
        self.item: Item | None = None
        self.session: str | None = None
        self.message: str | None = None
        self.refused: dict[str, str] = {}
        self._store = store
        self._send = send
        self._queue: Queue | None = None
        self._answered: set[str] = set()
        self._former: set[str] = set()  # ids of answers that an earlier load of the page left unsent
        self._stored: set[int] = set()  # items of such answers that are stored, until all answers are
        self._ahead: tuple[str, dict[str, Item]] = ("", {})
        self._data: Mapping[str, Any] = {}

    @property
    def pending(self) -> list[dict[str, Any]]:
        """Answers that the server has not acknowledged yet, including those of other sessions."""
        return self._queue.pending if self._queue else []

    @property
    def saving(self) -> set[str]:
        """Ids of the answers of this session that the server has not acknowledged yet."""
        return {answer["id"] for answer in self._queue.own} if self._queue else set()

    @property
    def can_answer(self) -> bool:
        """Whether there is an item in view that has no answer yet.

        A server that was restarted doesn't know unsent answers, and may select their items again.
        """
        if self.item is None or self._queue is None or self.item.selection in self._answered:
            return False
        waiting = {answer["item"] for answer in self._queue.own if answer["id"] in self._former}
        return self.item.id not in waiting | self._stored

    @property
    def in_hand(self) -> set[int]:
        """Items leased to this page: the item in view and the items that may follow it.

        If the item in view is answered and no next item has arrived, the set is empty.
        """
        if self.item is None or not self.can_answer:
            return set()
        return {self.item.id, *(item.id for item in self._after().values())}

    @property
    def awaits_ahead(self) -> bool:
        """Whether the last payload lacks nothing except items that may follow."""
        return bool(self._data.get("next_is_coming")) and not self._may_still_come

    @property
    def poll_seconds(self) -> float | None:
        """Seconds until the page polls the server; None if the server has nothing more to send."""
        if self._may_still_come:
            return POLL_SECONDS
        return POLL_AHEAD_SECONDS if self._data.get("next_is_coming") else None

    def update(self, data: Mapping[str, Any]) -> None:
        """Process a new payload from the server."""
        self._data, self.message = data, data["message"]
        if self._queue is None or data["session"] != self.session:
            self._begin(data["project"], data["session"])
        assert self._queue is not None
        stored = self._queue.settle(data["acked"])
        self._stored |= {answer["item"] for answer in stored if answer["id"] in self._former}
        refused = [
            (refusal, answer) for refusal in data["refused"] for answer in self._queue.settle([refusal["id"]])
        ]
        for refusal, answer in refused:
            self._answered.discard(answer["selection"])
            self.refused[refusal["id"]] = refusal["reason"]
        if refused:
            self._send(self.pending)
        if not self._queue.own:
            self._stored.clear()
        if not (self.item and self._queue.own):
            self.item = _item(data["item"], data["item"]["src"]) if data["item"] else None
        if self.item and data["item"] and data["item"]["selection"] == self.item.selection:
            self._look_ahead(data["next"], data["pictures"])

    def answer(self, word: str, *, taken_ms: int) -> tuple[Given, bool]:
        """Answer the item in view; return the answer, and whether the next item was ready at once.

        Parameters
        ----------
        word : str
            "yes" or "no".
        taken_ms : int
            Milliseconds that the annotator looked at the item.
        """
        assert self.item is not None
        assert self._queue is not None
        shown, following = self.item, self._after().get(word)
        self._answered.add(shown.selection)
        if following is not None:
            self.item = following
        given = Given(str(uuid.uuid4()), shown.id, shown.selection, word)
        self._queue.add(
            {
                "id": given.id,
                "undoes": None,
                "corrects": None,
                "next": following.selection if following else None,
                "time_taken_ms": taken_ms,
                "browser_time": int(time.time() * 1000),
                "item": shown.id,
                "selection": shown.selection,
                "answer": word,
            }
        )
        self.send()
        return given, following is not None

    def send(self) -> None:
        """Send all pending answers to the server, if there are any."""
        if self.pending:
            self._send(self.pending)

    @property
    def _may_still_come(self) -> bool:
        """Whether an item will arrive without anyone's action."""
        waiting = self._data.get("waiting")
        return waiting is not None and (not waiting["exhausted"] or waiting["done"] < waiting["total"])

    def _begin(self, project: str, session: str) -> None:
        self.session, self.item = session, None
        self._queue = Queue(self._store, project, session)
        self._answered = {answer["selection"] for answer in self._queue.own}
        self._former = {answer["id"] for answer in self._queue.own}
        self._stored.clear()
        self.send()

    def _look_ahead(self, views: Mapping[str, Any], pictures: Mapping[str, str]) -> None:
        """Add items that may follow. If the server replaced a known item, first drop all known items."""
        assert self.item is not None
        known = self._after()
        if any(word in known and known[word].selection != views[word]["item"]["selection"] for word in views):
            known = {}
        found = {
            word: _item(view["item"], pictures[str(view["item"]["id"])])
            for word, view in views.items()
            if word not in known and pictures.get(str(view["item"]["id"]))
        }
        self._ahead = self.item.selection, {**known, **found}

    def _after(self) -> dict[str, Item]:
        """Return the items that may follow the item in view and have arrived, by answer ("yes" or "no")."""
        selection, views = self._ahead
        return views if self.item is not None and selection == self.item.selection else {}


POLL_SECONDS = 0.7
"""Seconds between polls while there is no item to show yet."""

POLL_AHEAD_SECONDS = 0.1
"""Seconds from a payload to the next poll, if the next items are still to come and can't be awaited.

Until a payload answers the poll, further polls follow every `POLL_SECONDS`.
"""

RETRY_SECONDS: Sequence[float] = (2, 3, 5, 8)
"""Seconds until unacknowledged answers are sent again, by the number of failed attempts so far.

After more failures, the last pause is used.
"""


def _item(item: Mapping[str, Any], picture: str) -> Item:
    return Item(item["id"], item["selection"], picture)
