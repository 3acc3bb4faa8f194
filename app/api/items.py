"""Items of a pool, as JSON and images for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from closecall.app.api.sessions import image_address
from closecall.app.display.thumbnails import CARD_SIZE, THUMBNAIL_SIZE, TILE_SIZE, encode
from closecall.core.sources.texts import Texts

if TYPE_CHECKING:
    from closecall.app.projects.project import Project
    from closecall.core.pool.pool import Pool

Size = Literal["thumbnail", "tile", "card", "original"]

_SIDES = {"thumbnail": THUMBNAIL_SIZE, "tile": TILE_SIZE, "card": CARD_SIZE}
"""Longest sides of images, in pixels."""


def found(project: Project, name: str, limit: int) -> dict[str, Any]:
    """Return the number of items whose names contain all words of `name`, and the first `limit` items.

    Raises
    ------
    InputError
        If the pool's source no longer exists.
    """
    pool = project.pool
    if pool is None:
        return {"items": [], "found": 0}
    ids = project.search(name, pool)
    first = ids[:limit]
    named = zip(first.tolist(), pool.source.names(first), strict=True)
    return {"items": [{"id": item, "name": its} for item, its in named], "found": len(ids)}


def described(project: Project, pool: Pool, item: int) -> dict[str, Any]:
    """Return an item's name, the address of its image and, for a text, the text."""
    text = pool.source.text(item) if isinstance(pool.source, Texts) else None
    return {
        "id": item,
        "name": pool.source.name(item),
        "image": image_address(project.key, item),
        "text": text,
    }


def image(pool: Pool, item: int, size: Size) -> tuple[bytes, str]:
    """Return an item's image as bytes, and its media type.

    With the size "original", the image is as annotators see it: turned upright by its Exif data, and without
    transparency.

    Raises
    ------
    InputError
        If the image can't be shown.
    """
    side = _SIDES.get(size)
    drawn = pool.source.whole_image(item) if side is None else pool.source.image(item, side)
    return encode(drawn)
