"""The route of server-sent events, which tell pages and programs what has changed elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from closecall.app.server.http.bodies import LARGEST
from closecall.app.server.http.credentials import Reads
from closecall.app.server.leaving import is_leaving

router = APIRouter(tags=["events"])

KINDS = ("answers", "concept", "pool", "index", "ahead", "missed", "closed")
"""Kinds of news that are sent; see `app.runtime.news`."""

ALIVE_SECONDS = 15.0
"""Seconds after which a comment is sent, so that proxies keep a quiet stream open."""

LOOK_SECONDS = 0.5
"""Seconds between checks whether the server is to stop."""

MOST_WAITING = 1_000
"""Maximum number of events that wait for a slow client. If there are more, the client's stream ends."""


@router.get(
    "/projects/{project}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream_events(
    entry: Reads,
    concept: Annotated[
        int | None, Query(ge=1, le=LARGEST, description="Only answers and changes of this concept.")
    ] = None,
    session: Annotated[
        str | None, Query(max_length=64, description="Send the event ahead for this session.")
    ] = None,
    changes: Annotated[
        int | None,
        Query(ge=0, le=LARGEST, description="Begin with the event missed if the project has another number."),
    ] = None,
) -> StreamingResponse:
    """Stream the project's events.

    The events report stored answers, changed concepts, new items in the pool, an index that is ready, the
    items that may follow the item in view, and that earlier events may have been missed.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(MOST_WAITING)
    is_full = False

    def put(kind: str, data: dict[str, Any]) -> None:
        nonlocal is_full
        try:
            waiting.put_nowait((kind, data))
        except asyncio.QueueFull:
            is_full = True

    def note(kind: str, data: Mapping[str, Any]) -> None:
        if _is_wanted(kind, data, concept, session):
            told = {name: value for name, value in data.items() if name != "elsewhere"}
            loop.call_soon_threadsafe(put, kind, told)

    async def events() -> AsyncIterator[str]:
        unsubscribe, quiet = entry.project.news.subscribe(note), 0.0
        try:
            yield ": connected\n\n"
            if changes not in (None, entry.project.news.changes):
                yield _written("missed", {"changes": entry.project.news.changes})
            while not (is_full or is_leaving()):
                try:
                    kind, data = await asyncio.wait_for(waiting.get(), LOOK_SECONDS)
                except TimeoutError:
                    quiet += LOOK_SECONDS
                    if quiet >= ALIVE_SECONDS:
                        quiet = 0.0
                        yield ": still here\n\n"
                    continue
                quiet = 0.0
                yield _written(kind, data)
                if kind == "closed":
                    return
        finally:
            unsubscribe()

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events(), media_type="text/event-stream", headers=headers)


def _written(kind: str, data: Mapping[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def _is_wanted(kind: str, data: Mapping[str, Any], concept: int | None, session: str | None) -> bool:
    if kind in ("answers", "concept"):
        return concept is None or data.get("concept") == concept
    if kind == "ahead":
        return session is not None and data.get("session") == session
    return kind in KINDS
