"""Problems as HTTP responses: a status and one sentence, in the form of RFC 9457."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from closecall.app.display.phrases import as_sentence
from closecall.app.projects.roles import NoAccessError
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, in one sentence."},
    },
}

RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": _SCHEMA}},
    }
    for status in (400, 401, 403, 404, 405, 409, 413, 422, 429, 503)
}
"""The problems that each route may respond with, for the OpenAPI document."""

_STATUS_OF_KIND = {"missing": 404, "exists": 409, "invalid": 422}
"""Statuses of database errors that the request caused. Otherwise the database can't be used now (503)."""


class Problem(Exception):  # noqa: N818 (the name in RFC 9457)
    """A problem that ends a request.

    Parameters
    ----------
    status : int
        Status of the HTTP response.
    detail : str
        One sentence.
    headers : mapping
        Further headers of the response.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


def respond(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response of a problem."""
    from starlette.responses import JSONResponse

    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    fresh = {"Cache-Control": "no-store", **(headers or {})}
    return JSONResponse(content, status, headers=fresh, media_type=MEDIA_TYPE)


def handle(api: FastAPI) -> None:
    """Make the application respond with problems to all errors."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    api.add_exception_handler(Problem, _problem)
    api.add_exception_handler(InputError, _input)
    api.add_exception_handler(StorageError, _storage)
    api.add_exception_handler(RequestValidationError, _malformed)
    api.add_exception_handler(HTTPException, _http)
    api.add_exception_handler(Exception, _unforeseen)


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return respond(error.status, error.detail, error.headers)


async def _input(_: Request, error: Exception) -> Response:
    return respond(403 if isinstance(error, NoAccessError) else 422, str(error))


async def _storage(_: Request, error: Exception) -> Response:
    assert isinstance(error, StorageError)
    return respond(_STATUS_OF_KIND.get(error.kind, 503), as_sentence(str(error)))


async def _malformed(_: Request, error: Exception) -> Response:
    """Respond with a problem that names the first malformed part of the request."""
    first = error.errors()[0]  # type: ignore[attr-defined]
    place = " ".join(str(part) for part in first["loc"])
    return respond(422, f"The {place} is malformed: {first['msg']}"[:500])


async def _http(request: Request, error: Exception) -> Response:
    status = error.status_code  # type: ignore[attr-defined]
    if status == 405:
        allowed = {"Allow": ", ".join(sorted(_methods(request)))}
        return respond(status, f"This address does not take {request.method}", allowed)
    sentence = "There is no such address" if status == 404 else str(error.detail)  # type: ignore[attr-defined]
    return respond(status, sentence)


def _methods(request: Request) -> set[str]:
    """Return the methods of all routes with the request's path."""
    from starlette.routing import Match

    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] != Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return found


async def _unforeseen(_: Request, error: Exception) -> Response:
    log.error("A request failed", exc_info=error)
    return respond(500, "The server failed; its log says why")
