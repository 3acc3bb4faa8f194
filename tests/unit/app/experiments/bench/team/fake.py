"""A server of labeling cards, reached without HTTP. Items are numbered, and each is given only once."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from closecall.client.errors import ApiError, ConnectionLost

WORDS = ("yes", "no")


@dataclass
class Sitting:
    """A session: the item in view, and those that may follow."""

    shown: int
    after: dict[str, int]
    is_ahead: bool = False


@dataclass
class FakeServer:
    """The server; it is a `Request`.

    Parameters
    ----------
    seconds : float
        Time that a request takes.
    ahead_seconds : float
        Time until the items that may follow are ready; 0 for at once.
    """

    seconds: float = 0.01
    ahead_seconds: float = 0.0
    sessions: dict[str, Sitting] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)
    refused_items: set[int] = field(default_factory=set)
    faults: deque[Exception | None] = field(default_factory=deque)
    asked: list[tuple[float, str, Any]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    process: str = "one"

    def __post_init__(self) -> None:
        self._items = itertools.count()
        self._numbers = itertools.count()
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(
        self,
        method: str,
        path: str,
        *,
        seconds: float,  # noqa: ARG002 (as a `Request` has it)
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Do a request, unless the next fault prevents it."""
        given = query if body is None else body
        self.asked.append((asyncio.get_running_loop().time(), f"{method} {path}", given))
        if self.faults and (fault := self.faults.popleft()) is not None:
            raise fault
        is_post = path.endswith("/card")
        self.at_once += is_post
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            reply = self._do(path, json.loads(json.dumps(given)))
            await asyncio.sleep(self.seconds)
            await self.open.wait()
            if path.endswith("/ahead"):
                await asyncio.sleep(self.ahead_seconds)
                session = self._session(path)
                session.is_ahead = True
                reply = self._ahead(session, query["selection"])
        finally:
            self.at_once -= is_post
        return reply

    def paths(self) -> list[str]:
        """Method and last part of the path of each request."""
        return [f"{line.split()[0]} {line.rpartition('/')[2]}" for _, line, _ in self.asked]

    def _session(self, path: str) -> Sitting:
        return self.sessions[path.split("/")[4]]

    def _do(self, path: str, given: Any) -> Any:
        if path.endswith("/sessions"):
            name = f"session-{len(self.sessions)}"
            self.sessions[name] = self._seated(next(self._items))
            return {"id": name}
        return None if path.endswith("/ahead") else self._card(path, given["answers"])

    def _seated(self, item: int) -> Sitting:
        return Sitting(item, {word: next(self._items) for word in WORDS}, is_ahead=not self.ahead_seconds)

    def _card(self, path: str, answers: list[dict[str, Any]]) -> dict[str, Any]:
        acked, refused = [], []
        for answer in answers:
            known = [one for one in self.log if one["selection"] == answer["selection"]]
            if answer["item"] in self.refused_items or any(one["id"] != answer["id"] for one in known):
                refused.append({"id": answer["id"], "reason": "No."})
                continue
            acked.append(answer["id"])
            if not known:
                self._store(answer)
        session = self._session(path)
        name = path.split("/")[4]
        return {
            "project": unquote(path.split("/")[2]),
            "session": name,
            "stamp": {"process": self.process, "number": next(self._numbers)},
            "item": {**_item(session.shown), "src": f"picture {session.shown}"},
            **self._ahead(session, f"s{session.shown}"),
            "acked": acked,
            "refused": refused,
            "message": None,
            "waiting": None,
        }

    def _store(self, answer: dict[str, Any]) -> None:
        self.log.append(answer)
        session = self.sessions[answer["session"]]
        if answer["next"]:
            assert answer["next"] == f"s{session.after[answer['answer']]}"
            session = self._seated(session.after[answer["answer"]])
        elif answer["selection"] == f"s{session.shown}":
            session = self._seated(next(self._items))
        self.sessions[answer["session"]] = session

    def _ahead(self, session: Sitting, selection: object) -> dict[str, Any]:
        is_known = session.is_ahead and selection == f"s{session.shown}"
        after = session.after if is_known else {}
        return {
            "selection": selection,
            "next": {word: {"item": _item(item)} for word, item in after.items()},
            "pictures": {str(item): f"picture {item}" for item in after.values()},
            "next_is_coming": not session.is_ahead,
        }


def _item(number: int) -> dict[str, Any]:
    return {"id": number, "selection": f"s{number}"}


CUT = ConnectionLost("cut")
BUSY = ApiError(503, "The database is busy")
