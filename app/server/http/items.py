"""Routes about items: search by name, and images."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from closecall.app.api import items as api
from closecall.app.server.http.bodies import ItemId, Limit
from closecall.app.server.http.credentials import Entry, Reads
from closecall.app.server.http.problems import Problem
from closecall.core.pool.pool import Pool

router = APIRouter(tags=["items"])

FOREVER = "private, max-age=31536000, immutable"
"""An item's image never changes, so browsers and programs may keep it."""


@router.get("/projects/{project}/items")
def find_items(
    entry: Reads,
    name: Annotated[str, Query(min_length=1, max_length=200, description="Words of the item's name.")],
    limit: Limit = 100,
) -> dict[str, Any]:
    """Find items whose names contain all words of `name`."""
    return api.found(entry.project, name, limit)


@router.get("/projects/{project}/items/{item}")
def show_item(entry: Reads, item: ItemId) -> dict[str, Any]:
    """Describe an item."""
    return api.described(entry.project, _pool(entry, item), item)


@router.get(
    "/projects/{project}/items/{item}/image",
    response_class=Response,
    responses={
        200: {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}},
        304: {"description": "Unchanged"},
    },
)
def show_image(
    entry: Reads,
    item: ItemId,
    size: api.Size = "card",
    if_none_match: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """Return an item's image."""
    pool = _pool(entry, item)
    tag = f'"{hashlib.sha256(f"{pool.digest} {item} {size}".encode()).hexdigest()[:24]}"'
    headers = {"ETag": tag, "Cache-Control": FOREVER}
    if if_none_match is not None and tag in if_none_match:
        return Response(status_code=304, headers=headers)
    raw, media_type = api.image(pool, item, size)
    return Response(raw, media_type=media_type, headers=headers)


def _pool(entry: Entry, item: int) -> Pool:
    pool = entry.project.pool
    if pool is None or not pool.has_row(item):
        raise Problem(404, f"There is no item {item} in the pool")
    return pool
