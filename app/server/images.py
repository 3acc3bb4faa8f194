"""The route of the images that pages request separately; see `app.api.images`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from closecall.app.api.images import PATH, image
from closecall.app.display.thumbnails import absence
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

FOR_GOOD = "private, max-age=31536000, immutable"
"""Browsers may keep an item's image, which never changes. Proxies may not: some people must not see it."""


def routes() -> list[Route]:
    """Return the route ``/image``."""
    from starlette.routing import Route

    return [Route(f"/{PATH}", _endpoint)]


async def _endpoint(request: Request) -> Response:
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(_respond, request.query_params)


def _respond(asked: Mapping[str, str]) -> Response:
    from starlette.responses import JSONResponse, Response

    fresh = {"Cache-Control": "no-store"}
    try:
        found = image(asked)
    except InputError as error:
        said = absence(error).get("problem") or str(error)  # only owners may see where the images are
        return JSONResponse({"problem": said}, 400, headers=fresh)
    except StorageError as error:
        return JSONResponse({"problem": str(error)}, 503, headers=fresh)
    if found is None:
        return JSONResponse({"problem": "There is no such image"}, 404, headers=fresh)
    content, media_type = found
    return Response(content, media_type=media_type, headers={"Cache-Control": FOR_GOOD})
