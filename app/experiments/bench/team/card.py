"""The labeling card without its display, with the same rules as ``label/flow.js``.

It keeps each answer until the server acknowledges it, continues at once with the item that the server has
sent ahead, and lets the server replace the item in view only while none of its own answers is pending. The
cases of ``tests/fixtures/card.json`` test both implementations. Undo, corrections and answers of earlier
versions are left out.
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
"""Characters that `encodeURIComponent` keeps and `quote` would encode."""

Store = MutableMapping[str, str]
"""A browser's ``localStorage``: it outlives the page."""


class Queue:
    """Answers that the server has not acknowledged yet, each a separate entry in the store.

    Parameters
    ----------
    store : Store
    project, session : str
        Project and session of new answers. Pending answers of the project's other sessions are sent, too.
    """

    def __init__(self, store: Store, project: str, session: str) -> None:
        self._store = store
        self._project = project
        self._session = session

    @property
    def pending(self) -> list[dict[str, Any]]:
        """Pending answers of all sessions, in the order they were given."""
        return [entry["answer"] for _, entry in self._entries()]

    @property
    def own(self) -> list[dict[str, Any]]:
        """Pending answers of this session."""
        return [answer for answer in self.pending if answer["session"] == self._session]

    def add(self, answer: Mapping[str, Any]) -> None:
        """Add an answer."""
        entries = self._entries()
        entry = {
            "place": entries[-1][1]["place"] + 1 if entries else 0,
            "answer": {**answer, "session": self._session},
        }
        key = "/".join(quote(part, safe=PLAIN) for part in (ROOT, self._project, self._session, answer["id"]))
        self._store[key] = json.dumps(entry)

    def settle(self, ids: Iterable[str]) -> list[dict[str, Any]]:
        """Remove answers that are stored or refused; return those that were in the queue."""
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
    """The item in view, the selection that chose it, and its picture."""

    id: int
    selection: str
    picture: str


@dataclass(frozen=True)
class Given:
    """An answer, and the item that was in view when it was given."""

    id: str
    item: int
    selection: str
    answer: str


class Card:
    """The card of one page; it neither blocks nor has timers.

    Parameters
    ----------
    store : Store
        The browser's store.
    send : callable
        Sends the whole queue; it may get lost.
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
        self._ahead: tuple[str, dict[str, Item]] = ("", {})
        self._data: Mapping[str, Any] = {}

    @property
    def pending(self) -> list[dict[str, Any]]:
        """Answers that are not saved yet, including those of other sessions."""
        return self._queue.pending if self._queue else []

    @property
    def saving(self) -> set[str]:
        """Ids of this session's answers that are not saved yet."""
        return {answer["id"] for answer in self._queue.own} if self._queue else set()

    @property
    def can_answer(self) -> bool:
        """Whether an item without an answer is in view."""
        return self.item is not None and self.item.selection not in self._answered

    @property
    def in_hand(self) -> set[int]:
        """Items leased to this page: the item in view until it is answered, and those that may follow."""
        if self.item is None or not self.can_answer:
            return set()
        return {self.item.id, *(item.id for item in self._after().values())}

    @property
    def poll_seconds(self) -> float | None:
        """Seconds until the page polls again; None if nothing more is expected."""
        waiting = self._data.get("waiting")
        if waiting is not None and (not waiting["exhausted"] or waiting["done"] < waiting["total"]):
            return POLL_SECONDS
        return POLL_AHEAD_SECONDS if self._data.get("next_is_coming") else None

    def update(self, data: Mapping[str, Any]) -> None:
        """Take a new payload from the server."""
        self._data, self.message = data, data["message"]
        if self._queue is None or data["session"] != self.session:
            self._begin(data["project"], data["session"])
        assert self._queue is not None
        self._queue.settle(data["acked"])
        refused = [
            (refusal, answer) for refusal in data["refused"] for answer in self._queue.settle([refusal["id"]])
        ]
        for refusal, answer in refused:
            self._answered.discard(answer["selection"])
            self.refused[refusal["id"]] = refusal["reason"]
        if refused:
            self._send(self.pending)
        if not (self.item and self._queue.own):
            self.item = _item(data["item"], data["item"]["src"]) if data["item"] else None
        if self.item and data["item"] and data["item"]["selection"] == self.item.selection:
            self._look_ahead(data["next"], data["pictures"])

    def answer(self, word: str, *, taken_ms: int) -> tuple[Given, bool]:
        """Answer the item in view; return the answer, and whether the next item was ready at once."""
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
        """Send the pending answers."""
        if self.pending:
            self._send(self.pending)

    def _begin(self, project: str, session: str) -> None:
        self.session, self.item = session, None
        self._queue = Queue(self._store, project, session)
        self._answered = {answer["selection"] for answer in self._queue.own}
        self.send()

    def _look_ahead(self, views: Mapping[str, Any], pictures: Mapping[str, str]) -> None:
        assert self.item is not None
        known = self._after()
        if all(word in known and known[word].selection == views[word]["item"]["selection"] for word in views):
            return  # nothing new, although some may be missing
        found = {
            word: _item(view["item"], pictures[str(view["item"]["id"])])
            for word, view in views.items()
            if pictures.get(str(view["item"]["id"]))
        }
        self._ahead = self.item.selection, found

    def _after(self) -> dict[str, Item]:
        """Return the known items that follow each answer to the item in view."""
        selection, views = self._ahead
        return views if self.item is not None and selection == self.item.selection else {}


POLL_SECONDS = 0.7
"""Seconds between polls while there is nothing to show yet."""

POLL_AHEAD_SECONDS = 0.1
"""Seconds until the first poll while the server computes the next items; `POLL_SECONDS` from then on."""

RETRY_SECONDS: Sequence[float] = (2, 3, 5, 8)
"""Seconds until a retry of answers that were not acknowledged, by the number of failures; then the last."""


def _item(item: Mapping[str, Any], picture: str) -> Item:
    return Item(item["id"], item["selection"], picture)
