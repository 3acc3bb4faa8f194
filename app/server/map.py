"""Routes of the map page: the state of a map, its tiles, the item near a point, the items in a lasso.

A request names the map by its key. Only people who may enter the project get the key, from the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from closecall.app.api.map import LiveMap, find_map
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

Asked = Mapping[str, str]
"""The parameters of a request."""


def routes() -> list[Route]:
    """Return the routes under ``/map/``."""
    from starlette.routing import Route

    return [Route(f"/map/{name}", _endpoint(answer)) for name, answer in _ANSWERS.items()]


def _state(live: LiveMap, _: Asked) -> dict[str, Any]:
    return live.state()


def _tile(live: LiveMap, asked: Asked) -> bytes | None:
    zoom, column, row = (_whole(asked, name) for name in ("zoom", "column", "row"))
    return live.tile(zoom, column, row, theme=asked.get("theme", ""))


def _near(live: LiveMap, asked: Asked) -> dict[str, Any]:
    return {"item": live.near(*(_number(name, asked.get(name, "")) for name in ("x", "y", "radius")))}


def _lasso(live: LiveMap, asked: Asked) -> dict[str, Any]:
    """Respond to a lasso request. ``corners`` lists x and y of the first corner, of the second, and so on."""
    flat = [_number("corners", text) for text in asked.get("corners", "").split(",")]
    if len(flat) % 2:
        raise InputError(f"corners must be pairs of numbers, got {len(flat)} numbers")
    return live.lasso(list(zip(flat[::2], flat[1::2], strict=True)))


Answer = Callable[[LiveMap, Asked], dict[str, Any] | bytes | None]

_ANSWERS: Mapping[str, Answer] = {"state": _state, "tile": _tile, "near": _near, "lasso": _lasso}


def _endpoint(answer: Answer) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        return await run_in_threadpool(_respond, answer, request.query_params)

    return endpoint


def _respond(answer: Answer, asked: Asked) -> Response:
    from starlette.responses import JSONResponse, Response

    live, fresh = find_map(asked.get("map", "")), {"Cache-Control": "no-store"}
    if live is None:
        return JSONResponse({"problem": "There is no such map"}, 404)
    try:
        found = answer(live, asked)
    except (InputError, StorageError) as error:
        problem = str(error)
        return JSONResponse({"problem": problem}, 400 if isinstance(error, InputError) else 503)
    if isinstance(found, dict):
        return JSONResponse(found, headers=fresh)
    if found is None:
        return Response(status_code=204, headers=fresh)
    return Response(found, media_type="image/png", headers=fresh)


def _whole(asked: Asked, name: str) -> int:
    text = asked.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InputError(f"{name} must be a whole number, got {text[:40]!r}")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} must be a number, got {text[:40]!r}") from None
