"""A server that keeps the contract of the HTTP API in memory, on 127.0.0.1, and fails as the tests ask.

Its strategy is simple: it shows the items in their order. The log has gaps, as in a project in which other
questions have answers.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

BASE, TOKEN = "/api/v1", "cc_secret"
ANSWERS = ("yes", "no", "unsure", "skip")
QUESTION = {"id": 1, "name": "seven", "question": "Is it a 7?", "guideline": "", "positive_class": "7"}

FAULTS = ("cut", "lost", "twice", "503", "500", "429", "kept", "half")
"""What may happen to a request.

cut: the connection ends before the request is done. lost: it is done, but the connection ends before the
reply. twice: it is done twice. 503, 500, 429: it is not done, and the reply has this status. kept: answers
are not stored now, as if the database were locked. half: it is done, and half of the reply arrives.
"""


class Problem(Exception):  # noqa: N818
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class FakeServer(ThreadingHTTPServer):
    """The server, with one project named digits.

    Attributes
    ----------
    available, total : int
        Items that the pool has, and will have.
    log : list of dict
        The stored answers.
    faults : deque of str
        What happens to the next requests, one each; "" is nothing. Later requests have no faults.
    asked : list of str
        The method and path of each request.
    looks_ahead : bool
        Whether the items that follow are sent with the item in view.
    coming_later : list of str
        Answers for which they are not ready yet. Each request for `ahead` waits for one more.
    message : str or None
        A problem of the project.
    refused_items : set of int
        Items about which answers are refused.
    """

    daemon_threads = True
    request_queue_size = 50

    def __init__(self, n_items: int = 50) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.available = self.total = n_items
        self.log: list[dict[str, Any]] = []
        self.concepts = [dict(QUESTION)]
        self.sessions: dict[str, dict[str, Any]] = {}
        self.imported: list[dict[str, Any]] = []
        self.stored: dict[str, list[dict[str, Any]]] = {}
        self.faults: deque[str] = deque()
        self.asked: list[str] = []
        self.sent: list[Any] = []
        self.looks_ahead = True
        self.coming_later: list[str] = []
        self.message: str | None = None
        self.refused_items: set[int] = set()
        self.lock = threading.RLock()
        self._foreseen: dict[str, int] = {}
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def count(self, word: str) -> int:
        """How many requests had this word in their method and path."""
        return sum(word in line for line in self.asked)

    def handle_error(self, *_: object) -> None:
        """A client may be gone."""

    def do(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        """Do a request; returns JSON, or bytes."""
        for wanted, pattern, function in ROUTES:
            if wanted == method and (match := re.fullmatch(pattern, path)):
                call = getattr(self, function) if isinstance(function, str) else partial(function, self)
                return call(body if method != "GET" else query, *map(unquote, match.groups()))
        raise Problem(404, "There is no such address")

    # labeling

    def answered(self) -> dict[int, str]:
        undone = {answer["undoes"] for answer in self.log}
        return {a["item"]: a["answer"] for a in self.log if a["answer"] != "undo" and a["id"] not in undone}

    def coming(self, taken: set[int], n: int = 2) -> list[int]:
        done = self.answered().keys() | taken
        return [item for item in range(self.available) if item not in done][:n]

    def item(self, session: str, item: int) -> dict[str, Any]:
        number = sum(answer["item"] == item for answer in self.log)
        selection = f"{session}:{item}:{number}"
        self._foreseen[selection] = item
        return {"id": item, "selection": selection, "name": f"digit {item}", "margin": item / 100}

    def view(self, _query: dict[str, str], _project: str, session: str) -> dict[str, Any]:
        record = self.sessions[session]
        undone = record.get("again")
        coming = self.coming(set())
        shown = undone if undone is not None else (coming[0] if coming else None)
        after = {}
        if shown is not None and self.looks_ahead:
            following = [item for item in coming if item != shown]
            ready = [word for word in ANSWERS if word not in self.coming_later]
            after = {word: self.item(session, following[0]) for word in ready if following}
        waiting = {"done": self.available, "total": self.total, "exhausted": True}
        return {
            "session": session,
            "item": None if shown is None else self.item(session, shown),
            "after": after,
            "is_coming": bool(self.coming_later),
            "waiting": waiting if shown is None else None,
            "message": self.message,
        }

    def ahead(self, query: dict[str, str], _project: str, _session: str) -> dict[str, Any]:
        ready = len(ANSWERS) - len(self.coming_later)
        if ready <= int(query["known"]):
            self.coming_later.pop()
        ready = len(ANSWERS) - len(self.coming_later)
        return {"next": dict.fromkeys(ANSWERS[:ready]), "next_is_coming": bool(self.coming_later)}

    def take(self, body: Any, _project: str) -> dict[str, Any]:
        """Store answers, each once, by its id."""
        acked, refused = [], []
        known = {answer["id"]: answer for answer in self.log}
        assert len(body["answers"]) <= 1000
        for given in body["answers"]:
            before = known.get(given["id"])
            if before is None and (reason := self.reason(given, known)):
                refused.append({"id": given["id"], "reason": reason})
                continue
            if before is None:
                entry = {**given, "seq": 2 * len(self.log) + 2, "concept": 1, "annotator": "ada"}
                known[given["id"]] = entry
                self.log.append(entry)
                again = given["item"] if given["answer"] == "undo" else None
                self.sessions[given["session"]]["again"] = again
            acked.append(given["id"])
        return {"acked": acked, "refused": refused, "message": None}

    def reason(self, given: dict[str, Any], known: dict[str, Any]) -> str | None:
        if given["item"] in self.refused_items:
            return f"item {given['item']} is held out"
        if given["undoes"] or given["corrects"]:
            return None if (given["undoes"] or given["corrects"]) in known else "it is not stored"
        if self._foreseen.get(given["selection"]) != given["item"]:
            return f"there is no selection {given['selection']}"
        return None

    # the rest

    def start(self, body: Any, _project: str) -> dict[str, Any]:
        session = {"id": f"session-{len(self.sessions)}", "concept": body["concept"], "annotator": "ada"}
        self.sessions[session["id"]] = session | {"strategy": body.get("strategy", "margin-index")}
        return self.sessions[session["id"]]

    def change(self, body: Any, _project: str, session: str) -> dict[str, Any]:
        self.sessions[session].update(body)
        return self.sessions[session]

    def add_concept(self, body: Any, _project: str) -> dict[str, Any]:
        for concept in self.concepts:
            if concept["question"] == body["question"]:
                return concept
            if concept["name"] == body.get("name"):
                raise Problem(409, f"The question {concept['name']!r} is another one")
        self.concepts.append({**QUESTION, "id": len(self.concepts) + 1, "name": body["question"], **body})
        return self.concepts[-1]

    def read_log(self, query: dict[str, str], _project: str, _concept: str) -> dict[str, Any]:
        after, limit = int(query["after"]), min(int(query["limit"]), 7)
        found = [answer for answer in self.log if answer["seq"] > after]
        page = found[:limit]
        cursor = page[-1]["seq"] if page else max(after, 2 * len(self.log) + 1)
        return {"answers": page, "cursor": cursor, "more": len(found) > limit}

    def labels(self, query: dict[str, str], *_: str) -> dict[str, Any]:
        rows = [{"item": item, "label": label} for item, label in sorted(self.answered().items())]
        return self.page("labels", rows, query)

    def predictions(self, query: dict[str, str], *_: str) -> dict[str, Any]:
        if query["model"] not in self.stored:
            raise Problem(404, f"There are no predictions of {query['model']}")
        return self.page("predictions", self.stored[query["model"]], query)

    def page(self, name: str, rows: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
        found = [row for row in rows if row["item"] > int(query.get("after", -1))]
        page = found[:7]
        return {name: page, "cursor": page[-1]["item"] if page else -1, "more": len(found) > 7}

    def add_labels(self, body: Any, *_: str) -> dict[str, Any]:
        assert 1 <= len(body["labels"]) <= 10_000
        new = [row for row in body["labels"] if row not in self.imported]
        self.imported += new
        known = len(body["labels"]) - len(new)
        lost = [row["name"] for row in body["labels"] if row.get("name") == "nothing"]
        counts = {"new": len(new), "known": known, "same": 0, "contested": 0}
        return {**counts, "unmatched": len(lost), "examples": lost}

    def add_predictions(self, body: Any, *_: str) -> dict[str, Any]:
        self.stored[body["model"]] = sorted(body["predictions"], key=lambda row: row["item"])
        return {"stored": len(body["predictions"]), "unmatched": 0, "examples": []}

    def model(self, *_: str) -> dict[str, Any]:
        if len(set(self.answered().values())) < 2:
            raise Problem(409, "There is no classifier yet: it needs a yes and a no")
        return {"coef": [1.0, -2.0], "intercept": 0.5, "features": "gist"}


def _about(server: FakeServer, _: Any, project: str) -> dict[str, Any]:
    if project != "digits":
        raise Problem(404, f"There is no project {project}")
    return {"key": project, "items": server.available, "problem": server.message, "concepts": server.concepts}


P = f"{BASE}/projects/([^/]+)"
S, C = f"{P}/sessions/([^/]+)", f"{P}/concepts/([^/]+)"
ROUTES: list[tuple[str, str, Any]] = [
    ("GET", f"{BASE}/projects", lambda *_: {"projects": [{"key": "digits"}]}),
    ("GET", P, _about),
    ("GET", f"{P}/concepts", lambda server, *_: {"concepts": server.concepts}),
    ("POST", f"{P}/concepts", "add_concept"),
    ("GET", f"{P}/sessions", lambda server, *_: {"sessions": list(server.sessions.values())}),
    ("POST", f"{P}/sessions", "start"),
    ("GET", S, lambda server, _, __, session: server.sessions[session]),
    ("PATCH", S, "change"),
    ("GET", f"{S}/next", "view"),
    ("GET", f"{S}/ahead", "ahead"),
    ("POST", f"{P}/answers", "take"),
    ("GET", f"{C}/answers", "read_log"),
    ("GET", f"{C}/labels", "labels"),
    ("POST", f"{C}/labels", "add_labels"),
    ("GET", f"{C}/predictions", "predictions"),
    ("POST", f"{C}/predictions", "add_predictions"),
    ("GET", f"{C}/model", "model"),
    ("GET", f"{C}/progress", lambda *_: {"advice": "Keep going"}),
    ("GET", f"{P}/export", lambda _, query, __: json.dumps(query).encode() * 1000),
    ("GET", f"{P}/items", lambda _, query, __: {"items": [{"id": 7, "name": query["name"]}], "found": 1}),
    ("GET", f"{P}/items/([^/]+)", lambda _, __, ___, item: {"id": int(item), "text": f"text {item}"}),
    ("GET", f"{P}/items/([^/]+)/image", lambda _, query, __, item: f"{item} {query['size']}".encode()),
]


class _Handler(BaseHTTPRequestHandler):
    server: FakeServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    """Headers and body are sent together. Otherwise, the body would wait for an acknowledgment, for 40 ms."""

    def do_GET(self) -> None:
        server, address = self.server, urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body, query = json.loads(raw) if raw else None, dict(parse_qsl(address.query))
        with server.lock:
            server.asked.append(f"{self.command} {address.path}")
            server.sent.append(body)
            fault = server.faults.popleft() if server.faults else ""
            if fault == "cut":
                return self._hang_up()
            if fault in ("503", "500", "429"):
                return self._problem(Problem(int(fault), "The database can't be used now"))
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self._problem(Problem(401, "The token is unknown"))
            if fault == "kept" and address.path.endswith("/answers") and body:
                return self._reply(200, {"acked": [], "refused": [], "message": "The database is locked"})
            try:
                for _ in range(2 if fault == "twice" else 1):
                    outcome = server.do(self.command, address.path, query, body)
            except Problem as problem:
                return self._problem(problem)
        if fault == "lost":
            return self._hang_up()
        return self._reply(200, outcome, half=fault == "half")

    do_POST = do_PATCH = do_GET  # noqa: N815 (the base class names them)

    def _problem(self, problem: Problem) -> None:
        self._reply(problem.status, {"title": "…", "status": problem.status, "detail": problem.detail})

    def _reply(self, status: int, content: Any, *, half: bool = False) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if half else body)
        self.wfile.flush()
        if half:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        """Be silent."""


@contextmanager
def fake_server(n_items: int = 50) -> Iterator[FakeServer]:
    """Run a server within the block."""
    with FakeServer(n_items) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
