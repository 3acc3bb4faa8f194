"""Items as the browser receives them.

Images are sent as data URLs: small images without loss, large ones as JPEG of limited size. Texts are sent as
typeset parts, with pictures of their first lines.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from PIL import Image

from closecall.app.display.text_layout import Opening, Part, opening, typeset
from closecall.core.errors import InputError
from closecall.core.sources.base import UnreadableImageError, UnshownItemError
from closecall.core.sources.texts import Texts

if TYPE_CHECKING:
    from closecall.core.sources.base import Source

CARD_SIZE = 800
"""Longest side in pixels of the image to label, as it is sent with the card.

On a large screen, the card enlarges it. Zooming in loads the original's pixels; see `app.display.originals`.
"""

DRAWING_SIZE = 560
"""Side in pixels of an item to label that is drawn and has no resolution of its own, such as a heat map."""

TILE_SIZE = 264
"""Longest side in pixels of an image in the grid: twice its size on the page, for high-density screens."""

THUMBNAIL_SIZE = 88
"""Longest side in pixels of an image among the last answers: twice its size, for high-density screens."""

LOSSLESS_UP_TO = 128
"""Images whose longest side has at most this many pixels are sent as PNG; larger ones as JPEG.

Thumbnails of the full `THUMBNAIL_SIZE` are JPEG, because a card has up to twelve of them.
"""


RESOLUTIONS = 1 << 14
"""Number of items whose resolutions are cached."""

CARDS = 256
"""Number of cached pictures, and of cached texts. Twenty annotators and their next items need about 100."""

THUMBNAILS = 4096
"""Number of cached thumbnails, of about 4 kB each. The last answers of 100 annotators need 1,200."""


def encode(image: Image.Image) -> tuple[bytes, str]:
    """Return the image's bytes and media type."""
    if max(image.size) <= LOSSLESS_UP_TO:
        buffer = io.BytesIO()
        image.save(buffer, "PNG", compress_level=1)
        return buffer.getvalue(), "image/png"
    return jpeg(image, quality=92 if max(image.size) <= DRAWING_SIZE else 88), "image/jpeg"


def jpeg(image: Image.Image, *, quality: int) -> bytes:
    """Return the image, of mode RGB or L, as a JPEG file without chroma subsampling."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, subsampling=0)
    return buffer.getvalue()


def data_url(image: Image.Image) -> str:
    """Return the image as a ``data:`` URL."""
    return _url_of(*encode(image))


def _url_of(raw: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(raw).decode('ascii')}"


def data_url_of(raw: bytes) -> str:
    """Return an image, given as the bytes of an image file, as a ``data:`` URL."""
    return data_url(Image.open(io.BytesIO(raw)))


class Pictures:
    """A renderer of the items of a source, with caches of the last results.

    Parameters
    ----------
    source : Source
        The source of the items.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.card = lru_cache(maxsize=CARDS)(self._card)
        self.resolution = lru_cache(maxsize=RESOLUTIONS)(self._resolution)
        self.text = lru_cache(maxsize=CARDS)(self._text)
        self.opening = lru_cache(maxsize=CARDS)(self._opening)
        self.tile = lru_cache(maxsize=512)(self._tile)
        self.thumbnail = lru_cache(maxsize=THUMBNAILS)(self._thumbnail)

    def _card(self, item: int) -> str:
        return data_url(self.source.image(item, self.card_size(item)))

    def card_size(self, item: int) -> int:
        """Return the longest side in pixels of the item's picture on a card."""
        if isinstance(self.source, Texts):
            return THUMBNAIL_SIZE  # a text's picture is shown only among the last answers
        try:
            is_drawing = self.resolution(item) is None
        except InputError:
            is_drawing = False  # reading the image will say why it can't be shown
        return DRAWING_SIZE if is_drawing else CARD_SIZE

    def _resolution(self, item: int) -> tuple[int, int] | None:
        try:
            return self.source.resolution(item)
        except UnreadableImageError:
            return None

    def _text(self, item: int) -> list[Part] | None:
        return typeset(self.source.text(item)) if isinstance(self.source, Texts) else None

    def _opening(self, item: int) -> Opening | None:
        text = self.text(item)
        return opening(text) if text is not None else None

    def _tile(self, item: int) -> str:
        return data_url(self.source.image(item, TILE_SIZE))

    def _thumbnail(self, item: int) -> str:
        image = self.source.image(item, THUMBNAIL_SIZE)
        if max(image.size) < THUMBNAIL_SIZE:
            return data_url(image)
        return _url_of(jpeg(image, quality=88), "image/jpeg")


def look_of(item: int, draw: Callable[[int], str]) -> dict[str, str]:
    """Return the fields with which a page shows an item's picture: `src`, or the fields of `absence`.

    `draw` returns an item's picture, as `Pictures.card` does.
    """
    try:
        return {"src": draw(item)}
    except InputError as error:
        return absence(error)


def absence(error: InputError) -> dict[str, str]:
    """Return the fields with which a page shows that an item can't be shown.

    The field `src` is empty. If the reason is known, the field `problem` says it in a sentence that does not
    tell where the images are.
    """
    if not isinstance(error, UnshownItemError):
        return {"src": ""}
    return {"src": "", "problem": f"{error.reason[:1].upper()}{error.reason[1:]}."}
