"""A labeling session: items one after the other, and the answers about them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from closecall.client.connection import Connection, path_of
from closecall.client.errors import ConnectionLost, Refused
from closecall.client.outbox import Outbox
from closecall.client.patience import Patience
from closecall.client.records import Answer

POLL_SECONDS = 0.7
"""Pause between requests while the pool has no item to label yet."""


@dataclass(frozen=True)
class Item:
    """An item to label.

    Parameters
    ----------
    id : int
    selection : str
        Id of the selection that chose the item.
    name : str
        Name of the item in its source, such as the path of a file.
    margin : float or None
        |wᵀx + b| of the item: its score without the sign. None before there is a classifier.
    """

    id: int
    selection: str
    name: str
    margin: float | None = None
    _connection: Connection | None = field(default=None, repr=False, compare=False)
    _path: str = field(default="", repr=False, compare=False)

    def image(self, size: str = "card") -> bytes:
        """Return the encoded image in one of the sizes "thumbnail", "tile", "card" or "original"."""
        assert self._connection is not None
        return self._connection.read(f"{self._path}/image", size=size)

    def text(self) -> str | None:
        """Return the text, or None if the item is an image."""
        assert self._connection is not None
        text: str | None = self._connection.get(self._path)["text"]
        return text


class Session(Iterator[Item]):
    """A session of one person with one question. `Project.session` returns it.

    Iterate over a session to get the items to label. The iterator waits while the pool grows, and ends when
    no item is left. Use a session in one thread only.

    Each answer is kept in a queue until the server has acknowledged it. The server stores an answer once even
    if it is sent several times, because each answer has an id. In a ``with`` block, the queue is emptied at
    the end.

    Parameters
    ----------
    connection : Connection
    project : str
        Key of the project.
    about : mapping
        The session as the server describes it.
    """

    def __init__(self, connection: Connection, project: str, about: Mapping[str, Any]) -> None:
        self.id: str = about["id"]
        self.concept: int = about["concept"]
        self.annotator: str = about["annotator"]
        self.strategy: str = about["strategy"]
        self._connection = connection
        self._project = path_of("projects", project)
        self._path = f"{self._project}{path_of('sessions', self.id)}"
        self._outbox = Outbox(connection, f"{self._project}/answers")
        self._item: Item | None = None
        self._after: dict[str, Item] = {}
        self._is_coming = False
        self._returned: str | None = None
        self._seen_at: float | None = None
        self._items: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self.annotator} with {self.strategy}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.flush()

    def __iter__(self) -> Self:
        self._returned = None
        return self

    def __next__(self) -> Item:
        item = self.next()
        if item is None:
            raise StopIteration
        if item.selection == self._returned:
            raise ValueError(f'Answer item {item.id} before you ask for the next one; "skip" leaves it out')
        self._returned = item.selection
        return item

    @property
    def pending(self) -> list[dict[str, Any]]:
        """The answers that the server has not acknowledged, oldest first."""
        return self._outbox.pending

    def next(self) -> Item | None:
        """Return the item in view, or None if no item is left.

        The item in view stays the same until it is answered. If there is no item yet because the pool grows,
        wait for an item.

        Raises
        ------
        ConnectionLost
            As `flush`. Also if, because of a problem of the project, there is no item within the client's
            time limit.
        Refused
            As `flush`.
        """
        if self._item is None:
            self.flush()
            patience = Patience(self._connection.timeout)
            while (view := self._view())["item"] is None:
                if not _may_still_come(view["waiting"]):
                    return None
                if problem := view["message"]:
                    if not patience.pause(POLL_SECONDS):
                        raise ConnectionLost(f"There is no item to label: {problem}")
                else:
                    patience.reset()
                    time.sleep(POLL_SECONDS)
            self._show(self._item_of(view["item"]))
            self._look_at(view)
        if self._seen_at is None:
            self._seen_at = time.monotonic()
        return self._item

    def answer(
        self, answer: str, item: Item | None = None, *, wait: bool = True, time_taken_ms: int | None = None
    ) -> str:
        """Answer an item, and return the id of the answer.

        Parameters
        ----------
        answer : str
            "yes", "no", "unsure" or "skip".
        item : Item, optional
            An item of this session; by default, the item in view.
        wait : bool
            Whether to wait until the answer is stored. Otherwise, it is sent with the next request.
        time_taken_ms : int, optional
            Milliseconds that the annotator took; by default, the time since `next` returned the item.

        Raises
        ------
        ValueError
            If there is no item in view.
        Refused, ConnectionLost
            As `flush`.
        """
        about = item or self._item
        if about is None:
            raise ValueError("There is no item in view: get one from the session, or give an item")
        is_in_view = self._item is not None and about.selection == self._item.selection
        following = self._after.get(answer) if is_in_view else None
        if time_taken_ms is None and is_in_view and self._seen_at is not None:
            time_taken_ms = int(1000 * (time.monotonic() - self._seen_at))
        answer_id = self._add(
            about.id,
            answer,
            selection=about.selection,
            next=following.selection if following else None,
            time_taken_ms=time_taken_ms,
        )
        if is_in_view:
            self._show(following)
        if wait:
            self.flush()
        return answer_id

    def undo(self, answer: str | Answer, *, wait: bool = True) -> str:
        """Take an answer of this session back, and return the id of the undo. The item comes again.

        Parameters
        ----------
        answer : str or Answer
            The id of an answer that was given with this object, or an answer from the log.
        wait : bool
            As in `answer`.
        """
        answer_id, item = self._known(answer)
        undo_id = self._add(item, "undo", undoes=answer_id)
        self._show(None)
        if wait:
            self.flush()
        return undo_id

    def correct(self, answer: str | Answer, word: str, *, wait: bool = True) -> str:
        """Replace an answer by another, and return the id of the correction.

        Parameters
        ----------
        answer : str or Answer
            As in `undo`.
        word : str
            The right answer.
        wait : bool
            As in `answer`.
        """
        answer_id, item = self._known(answer)
        correction_id = self._add(item, word, corrects=answer_id)
        self._after = {}  # the classifier changes
        if wait:
            self.flush()
        return correction_id

    def flush(self) -> None:
        """Send answers until all of them are stored.

        Raises
        ------
        Refused
            If the server refuses some of the answers. All others are stored.
        ConnectionLost
            If the client's time limit has passed without progress. The answers that are left stay in the
            queue.
        """
        try:
            self._outbox.flush()
        except Refused:
            self._show(None)  # the server may show something else
            self._returned = None
            raise

    def restore(self, answers: Iterable[dict[str, Any]]) -> None:
        """Put the answers of a `ConnectionLost` into the queue, and send them."""
        for answer in answers:
            self._outbox.add(answer)
        self._show(None)
        self.flush()

    def look_ahead(self) -> None:
        """Send the answers, and fetch the items that may follow the item in view.

        The session then has the next item as soon as the item in view is answered. This is useful while a
        person looks at the item in view. A program that answers at once does not need it.
        """
        self.flush()
        if self._item is None or (self._after and not self._is_coming):
            return
        view = self._view()
        is_coming, known = view["is_coming"], len(view["after"])
        while is_coming:
            path = f"{self._path}/ahead"
            ahead = self._connection.get(path, selection=self._item.selection, known=known)
            n_new, known = len(ahead["next"]) - known, len(ahead["next"])
            is_coming = ahead["next_is_coming"] and n_new > 0
            view = view if is_coming else self._view()
        if view["item"] and view["item"]["selection"] == self._item.selection:
            self._look_at(view)

    def use(self, *, strategy: str | None = None, include_skipped: bool | None = None) -> None:
        """Change the settings, from the next item on.

        Parameters
        ----------
        strategy : str, optional
            The query strategy.
        include_skipped : bool, optional
            Whether skipped items may come again.
        """
        given = {"strategy": strategy, "include_skipped": include_skipped}
        body = {name: value for name, value in given.items() if value is not None}
        self.strategy = self._connection.send("PATCH", self._path, body)["strategy"]
        self._after = {}

    def _view(self) -> dict[str, Any]:
        return dict(self._connection.get(f"{self._path}/next"))

    def _show(self, item: Item | None) -> None:
        self._item, self._after, self._seen_at = item, {}, None

    def _look_at(self, view: Mapping[str, Any]) -> None:
        """Keep the item that follows each answer, if the server has selected it already."""
        self._after = {answer: self._item_of(item) for answer, item in view["after"].items()}
        self._is_coming = bool(view["is_coming"])

    def _item_of(self, item: Mapping[str, Any]) -> Item:
        path = f"{self._project}{path_of('items', item['id'])}"
        return Item(item["id"], item["selection"], item["name"], item["margin"], self._connection, path)

    def _add(self, item: int, word: str, **more: Any) -> str:
        answer_id = str(uuid.uuid4())
        blank = {"selection": None, "undoes": None, "corrects": None, "next": None, "time_taken_ms": None}
        self._outbox.add(
            {
                "id": answer_id,
                "session": self.id,
                "item": item,
                "answer": word,
                "browser_time": int(1000 * time.time()),
                **blank,
                **more,
            }
        )
        self._items[answer_id] = item
        return answer_id

    def _known(self, answer: str | Answer) -> tuple[str, int]:
        if isinstance(answer, Answer):
            return answer.id, answer.item
        if answer not in self._items:
            raise ValueError(f"Answer {answer} was not given here: give its entry from Project.answers")
        return answer, self._items[answer]


def _may_still_come(waiting: Mapping[str, Any] | None) -> bool:
    """Return whether an item will come without anybody's action."""
    return waiting is not None and (not waiting["exhausted"] or waiting["done"] < waiting["total"])
