"""Images for pages: an item's picture, and tiles of it at full resolution (`app.display.originals`).

A request for an image has a key: a signature of the project and the item, made with a random secret that the
process drew when it started. Only pages that may show the item get the image's address with the key.
After a restart, pages get new addresses with their next payload.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from closecall.app.display.originals import TILE, Originals
from closecall.app.display.thumbnails import LOSSLESS_UP_TO, encode
from closecall.app.sessions.workspace import current
from closecall.core.errors import InputError
from closecall.core.sources.texts import Texts

if TYPE_CHECKING:
    from closecall.app.projects.project import Project

PATH = "image"
"""Path of the route, relative to the pages."""

_secret = secrets.token_bytes(32)
_originals = Originals()


def address(project: str, item: int) -> str:
    """Return the address of an item's picture, relative to the pages.

    Only pages that may show the item should get this address.
    """
    return f"{PATH}?{urlencode({'project': project, 'item': item, 'key': _key(project, item)})}"


def original_of(project: Project, item: int) -> dict[str, Any]:
    """Return the field `original` of an item: the address of its picture, and the image's width and height.

    Width and height are in pixels, of the upright image. They are 0 if the item has no resolution of its own,
    such as a drawing, or is damaged. `tile` is the side of a tile in pixels. The address is "" if the card's
    picture already has all pixels. A text, or an image that can't be reached, has no such field.
    """
    try:
        pictures = project.pictures
        width, height = pictures.resolution(item) or (0, 0)
    except InputError:
        return {}
    if isinstance(pictures.source, Texts):
        return {}
    is_small = 0 < max(width, height) <= LOSSLESS_UP_TO
    src = "" if is_small else address(project.key, item)
    return {"original": {"src": src, "width": width, "height": height, "tile": TILE}}


def image(asked: Mapping[str, str]) -> tuple[bytes, str] | None:
    """Return an image as the bytes of a file and its media type. If the key is not valid, return None.

    Parameters
    ----------
    asked : mapping
        The request's parameters: `project`, `item` and `key` as in `address`. With `level`, `column` and
        `row`, the image is a tile; without these, it is the card's picture.

    Raises
    ------
    InputError
        If a parameter is not a whole number, if there is no such tile, or if the image can't be read.
    StorageError
        If the project's database can't be used.
    """
    project, number = asked.get("project", ""), asked.get("item", "")
    if not (re.fullmatch(r"[0-9]{1,12}", number) and _is_key(asked.get("key", ""), project, int(number))):
        return None
    pictures, item = current().project(project).pictures, int(number)
    if "level" in asked:
        level, column, row = (_whole(asked, name) for name in ("level", "column", "row"))
        return _originals.tile(pictures, item, level, column, row), "image/jpeg"
    return encode(pictures.source.image(item, pictures.card_size(item)))


def _key(project: str, item: int) -> str:
    return hmac.digest(_secret, f"{item} {project}".encode(), "sha256")[:16].hex()


def _is_key(key: str, project: str, item: int) -> bool:
    return key.isascii() and hmac.compare_digest(key, _key(project, item))


def _whole(asked: Mapping[str, str], name: str) -> int:
    text = asked.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InputError(f"{name} must be a whole number, got {text[:40]!r}")
    return int(text)
