"""Routes for labeling: sessions, the item in view, and answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, status
from pydantic import Field, WithJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from closecall.app.api import sessions as api
from closecall.app.api.cards import View
from closecall.app.api.submit import named, settle
from closecall.app.api.views import ViewName, answered, coming, is_foreseen, view_of
from closecall.app.server.http.bodies import LARGEST, Body
from closecall.app.server.http.credentials import Entry, Labels, Reads, Shown
from closecall.app.server.http.problems import Problem
from closecall.app.server.leaving import is_leaving
from closecall.app.sessions.answers import MOST_AT_ONCE
from closecall.app.sessions.grid import LEAST, MOST, USUAL
from closecall.app.sessions.item_view import AHEAD_SECONDS
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.registry import OpenProject
from closecall.core.selection import make_strategy

router = APIRouter(tags=["labeling"])

FORESEEN_SECONDS = 15.0
"""Maximum seconds for which a request waits for the items that may follow."""

LOOK_SECONDS = 0.25
"""Interval, in seconds, at which a waiting request checks whether to end.

It ends if no more items will come or the server is to stop.
"""

_JSON: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}}
}
"""The responses of routes that make JSON themselves, for the OpenAPI document."""

SessionId = Annotated[str, Path(min_length=1, max_length=64, description="The session's id.")]

_ANSWER = {
    "type": "object",
    "required": ["id", "session", "item", "answer", "browser_time"],
    "properties": {
        "id": {"type": "string", "format": "uuid", "description": "A new UUID, in lower case."},
        "session": {"type": "string", "maxLength": 64},
        "item": {"type": "integer", "minimum": 0, "maximum": LARGEST},
        "selection": {
            "type": ["string", "null"],
            "maxLength": 64,
            "description": "Id of the selection that showed the item.",
        },
        "answer": {"type": "string", "enum": ["yes", "no", "unsure", "skip", "undo"]},
        "undoes": {"type": ["string", "null"], "description": "Of an undo: id of the answer that it undoes."},
        "corrects": {"type": ["string", "null"], "description": "Id of the answer that this one replaces."},
        "next": {
            "type": ["string", "null"],
            "description": "Id of the foreseen selection that was shown next.",
        },
        "time_taken_ms": {"type": ["integer", "null"], "minimum": 0, "maximum": LARGEST},
        "browser_time": {
            "type": "integer",
            "minimum": 0,
            "maximum": LARGEST,
            "description": "When it was given, in ms since 1970 UTC.",
        },
        "group": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "Near-duplicates with the same answer.",
        },
        "classes": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "With several classes: the concepts offered.",
        },
        "concept": {"type": ["integer", "null"], "description": "With several classes: the chosen concept."},
    },
}

Answer = Annotated[dict[str, Any], WithJsonSchema(_ANSWER)]
"""An answer as it is sent. It is not validated here: if it is malformed, only this answer is refused."""

Answers = Annotated[list[Answer], Field(max_length=MOST_AT_ONCE)]


class NewSession(Body):
    """A session to start."""

    concept: Annotated[int | None, Field(ge=1, le=LARGEST, description="By default the first concept.")] = (
        None
    )
    strategy: Annotated[str | None, Field(max_length=200, description="By default auto.")] = None


class SessionChange(Body):
    """Changed settings of a session."""

    strategy: Annotated[str | None, Field(max_length=200)] = None
    include_skipped: bool | None = None


class Given(Body):
    """Answers to store."""

    answers: Answers


class CardRequest(Body):
    """Answers to store, and the card to return."""

    view: ViewName = "one"
    size: Annotated[int, Field(ge=LEAST, le=MOST, description="Items of a grid.")] = USUAL
    answers: Answers = Field(default_factory=list)
    wait: Annotated[float, Field(ge=0, le=AHEAD_SECONDS, description="Seconds to wait for what follows.")] = (
        AHEAD_SECONDS
    )
    check: Annotated[
        str | None, Field(max_length=64, description="Selection to compare with a full scan.")
    ] = None


Size = Annotated[int, Query(ge=LEAST, le=MOST, description="Items of a grid.")]


@router.get("/projects/{project}/sessions")
def list_sessions(entry: Reads) -> dict[str, Any]:
    """List the sessions of the person who asks."""
    return {"sessions": api.sessions_of(entry.project, entry.person)}


@router.post("/projects/{project}/sessions", status_code=status.HTTP_201_CREATED)
def start_session(entry: Labels, body: NewSession) -> dict[str, Any]:
    """Start a session."""
    if body.strategy is not None:
        _check_strategy(body.strategy)
    made = api.started(
        entry.project, entry.person, concept_id=body.concept, strategy=body.strategy, by=entry.name
    )
    return api.described(made)


@router.get("/projects/{project}/sessions/{session}")
def show_session(entry: Reads, session: SessionId) -> dict[str, Any]:
    """Describe a session."""
    return api.described(_session(entry, session))


@router.patch("/projects/{project}/sessions/{session}")
def change_session(entry: Labels, session: SessionId, body: SessionChange) -> dict[str, Any]:
    """Change a session's strategy, or whether skipped items may come again."""
    opened = _session(entry, session)
    if body.strategy is not None:
        _check_strategy(body.strategy)
        opened.set_strategy(body.strategy)
    if body.include_skipped is not None:
        opened.revisit_skipped(body.include_skipped)
    return api.described(opened)


@router.get("/projects/{project}/sessions/{session}/next")
def show_next(
    entry: Labels,
    session: SessionId,
    wait: Annotated[float, Query(ge=0, le=AHEAD_SECONDS, description="Seconds to wait for what follows.")] = (
        AHEAD_SECONDS
    ),
) -> dict[str, Any]:
    """Return the item in view, and the next item for each possible answer."""
    return api.in_view(_session(entry, session), wait=wait)


@router.get("/projects/{project}/sessions/{session}/card", responses=_JSON)
def show_card(credential: Shown, session: SessionId, view: ViewName = "one", size: Size = USUAL) -> Response:
    """Return the card that a labeling page shows."""
    return _card(credential.enter("label"), session, CardRequest(view=view, size=size))


@router.post("/projects/{project}/sessions/{session}/card", responses=_JSON)
def answer_card(credential: Shown, session: SessionId, body: CardRequest) -> Response:
    """Store answers, and return the card that a labeling page shows next."""
    return _card(credential.enter("label"), session, body)


@router.post("/projects/{project}/sessions/{session}/leave", status_code=status.HTTP_204_NO_CONTENT)
def leave_session(entry: Labels, session: SessionId) -> None:
    """Note that the session's page is closed, so that other sessions may show its items."""
    entry.project.close_page(_session(entry, session))


@router.get("/projects/{project}/sessions/{session}/ahead", responses=_JSON)
async def show_ahead(
    credential: Shown,
    session: SessionId,
    selection: Annotated[str, Query(max_length=64, description="Id of the selection in view.")],
    known: Annotated[int, Query(ge=0, le=4, description="Number of answers whose next items are known.")] = 0,
    view: ViewName = "one",
    size: Size = USUAL,
) -> Response:
    """Wait at most 15 seconds for more of the next items, one per possible answer; return all known ones."""

    def look() -> tuple[OpenProject, View, Response | None]:
        entry = credential.enter("label")
        found = _view(entry, session, view, size)
        is_ready = is_foreseen(found, selection, known)
        return entry.project, found, _json(coming(found, selection)) if is_ready else None

    project, found, response = await run_in_threadpool(look)
    if response is not None:
        return response
    with _told(project, session) as is_told:
        until = time.monotonic() + FORESEEN_SECONDS
        while True:
            is_told.clear()
            if is_foreseen(found, selection, known) or is_leaving() or time.monotonic() >= until:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(is_told.wait(), LOOK_SECONDS)
    return await run_in_threadpool(lambda: _json(coming(found, selection)))


@contextmanager
def _told(project: OpenProject, session: str) -> Iterator[asyncio.Event]:
    """Yield an event that is set whenever the session has found another item that may follow."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def note(kind: str, data: Mapping[str, Any]) -> None:
        if kind == "ahead" and data["session"] == session:
            loop.call_soon_threadsafe(event.set)

    unsubscribe = project.news.subscribe(note)
    try:
        yield event
    finally:
        unsubscribe()


@router.post("/projects/{project}/answers")
def store_answers(entry: Labels, body: Given) -> dict[str, Any]:
    """Store answers. Answers that are neither acknowledged nor refused must be sent again."""
    project, person = entry.project, entry.person
    own: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    opened: LabelingSession | None = None
    for answer in named(body.answers):
        known = project.known_session(answer["session"], person)
        if known is None:
            refused.append({"id": answer["id"], "reason": f"You have no session {answer['session']}"})
        else:
            own.append(answer)
            opened = known
    settled = (
        settle(project, opened, own, person) if opened else {"acked": [], "refused": [], "message": None}
    )
    return settled | {"refused": [*refused, *settled["refused"]]}


def _session(entry: Entry, session_id: str) -> LabelingSession:
    found = entry.project.known_session(session_id, entry.person)
    if found is None:
        raise Problem(404, f"{entry.person.name} has no session {session_id!r:.80} here")
    return found


def _view(entry: Entry, session_id: str, name: ViewName, size: int) -> View:
    return view_of(entry.project, _session(entry, session_id), name, entry.person, size=size)


def _card(entry: Entry, session_id: str, asked: CardRequest) -> Response:
    view = _view(entry, session_id, asked.view, asked.size)
    answers = named(asked.answers)
    card = answered(entry.project, view, answers, entry.person, wait=asked.wait, check=asked.check)
    return _json(card)


def _json(content: Mapping[str, Any]) -> Response:
    """Return a response that FastAPI passes on as it is. FastAPI's own conversion of a card takes 2 ms."""
    return JSONResponse(content)


def _check_strategy(word: str) -> None:
    make_strategy(word)  # raises an InputError for an unknown strategy
