"""Square tiles of images at full resolution and at repeatedly halved resolutions, for zooming in.

Level 0 is the image at full resolution. Each further level has half the width and height, rounded up. A level
is cut into tiles of `TILE` × `TILE` pixels; tiles at the right and lower edges may be smaller. A page loads
only the tiles in view, from the coarsest level that has at least as many pixels as the screen shows.

An image is decoded whole, once for all its tiles, because most formats can't be decoded in parts. JPEG files
can be decoded at a smaller size: they are decoded once for each level that is asked for before level 0.
Decoded images are kept for a few seconds only, because they are large.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from closecall.app.display.thumbnails import jpeg
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

    from closecall.app.display.thumbnails import Pictures
    from closecall.core.sources.base import Source

TILE = 512
"""Side of a tile in pixels."""

QUALITY = 92
"""Quality of tiles, which are JPEG files."""

LEAST_SIDE = 64
"""Minimum number of pixels on the longer side of a level; level 0 may be smaller."""

KEPT_PIXELS = 1 << 26
"""Maximum number of decoded pixels that are kept: 270 MB. The image used last is kept whatever its size."""

KEPT_SECONDS = 20.0
"""Decoded images are kept for this many seconds after their last use."""


def size_at(resolution: tuple[int, int], level: int) -> tuple[int, int]:
    """Return the width and height in pixels of an image at a level."""
    width, height = resolution
    return -(-width >> level), -(-height >> level)


class Originals:
    """A cache of decoded images, from which tiles are cut. Several threads may use it at once."""

    def __init__(self) -> None:
        self._decoded: OrderedDict[tuple[Source, int, int], Image.Image] = OrderedDict()
        self._lock = threading.Lock()
        self._decoding = threading.RLock()  # decode one at a time: an image may take 400 MB
        self._used = 0.0
        self._timer: threading.Timer | None = None

    def tile(self, pictures: Pictures, item: int, level: int, column: int, row: int) -> bytes:
        """Return a tile of an image as a JPEG file. Columns and rows are counted from 0 at the upper left.

        Raises
        ------
        InputError
            If the image can't be read, has no resolution of its own, or has no such tile.
        """
        resolution = pictures.resolution(item)
        if resolution is None:
            raise InputError(f"{pictures.source.name(item)} has no resolution of its own")
        most = max(0, (max(resolution) // LEAST_SIDE).bit_length() - 1)
        if not 0 <= level <= most:
            raise InputError(f"level must be from 0 to {most}, got {level}")
        width, height = size_at(resolution, level)
        left, top = column * TILE, row * TILE
        if not (0 <= left < width and 0 <= top < height):
            raise InputError(
                f"level {level} has {-(-width // TILE)} × {-(-height // TILE)} tiles, "
                f"got column {column} and row {row}"
            )
        image = self._at(pictures.source, item, level)
        box = left, top, min(left + TILE, width), min(top + TILE, height)
        return jpeg(image.crop(box), quality=QUALITY)

    def __len__(self) -> int:
        """Return the number of decoded images in memory."""
        return len(self._decoded)

    def _at(self, source: Source, item: int, level: int) -> Image.Image:
        """Return the image at a level. Decode it only if it is not in the cache."""
        key = source, item, level
        if (known := self._known(key)) is not None:
            return known
        with self._decoding:
            if (known := self._known(key)) is not None:
                return known
            image = self._shrunk(source, item, level) if level else source.whole_image(item)
            self._keep(key, image)
            return image

    def _shrunk(self, source: Source, item: int, level: int) -> Image.Image:
        """Return the image at a level above 0, in the fastest way."""
        if self._known((source, item, 0)) is None:
            halved = source.halved_image(item, level)
            if halved is not None:
                return halved
        return self._at(source, item, 0).reduce(1 << level)

    def _known(self, key: tuple[Source, int, int]) -> Image.Image | None:
        with self._lock:
            if (image := self._decoded.get(key)) is not None:
                self._decoded.move_to_end(key)
                self._used = time.monotonic()
            return image

    def _keep(self, key: tuple[Source, int, int], image: Image.Image) -> None:
        with self._lock:
            self._decoded[key] = image
            while len(self._decoded) > 1 and sum(map(_pixels, self._decoded.values())) > KEPT_PIXELS:
                self._decoded.popitem(last=False)
            self._used = time.monotonic()
            if self._timer is None:
                self._forget_after(KEPT_SECONDS)

    def _forget_after(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._forget)
        self._timer.daemon = True
        self._timer.start()

    def _forget(self) -> None:
        with self._lock:
            left = self._used + KEPT_SECONDS - time.monotonic()
            if left > 0:
                self._forget_after(left)
            else:
                self._decoded.clear()
                self._timer = None


def _pixels(image: Image.Image) -> int:
    return image.width * image.height
