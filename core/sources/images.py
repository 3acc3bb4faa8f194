"""Reading of image files of any mode, with up to 100 million pixels. Damaged files raise an error.

The formats are those that this build of Pillow decodes without calling another program, and HEIC
(`core.sources.heif`). Color and grayscale images keep their mode. Transparent images are placed on white. The
first frame of an animation is used, and the camera's orientation is applied.

For display, the values of a grayscale image with more than 8 bits are *stretched*, so that the darkest is
black and the brightest is white. For models, 16-bit values are divided by 257 instead, so that an image has
the same features as its copy in 8 bits. Other values, such as floating-point numbers, have no range by which
they could be divided, and are always stretched.
"""

from __future__ import annotations

import io
import logging
import math
import os
import struct
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from closecall.core.errors import InputError
from closecall.core.onnx.resizing import Resizing
from closecall.core.sources.base import GREY_SIZE, Items, Source, UnreadableImageError
from closecall.core.sources.heif import HEIF_EXTENSIONS, NEEDS_EXTRA, can_read_heif, is_heif
from closecall.core.sources.passing import require_lasting

_PHOTOS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".jp2", ".avif")
_PLAIN = (".bmp", ".dib", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm")
EXTENSIONS = frozenset((*_PHOTOS, *_PLAIN, *HEIF_EXTENSIONS))
"""Extensions of images. Those in `HEIF_EXTENSIONS` can be read only if `can_read_heif()` is true."""

MAX_PIXELS = 100_000_000
"""Maximum number of pixels of an image: 10,000 × 10,000, which takes up to 400 MB while it is decoded."""

PIXELS_A_CORE = 12_500_000
"""Pixels per core that may be decoded at once for models. For all cores, the limit is at least `MAX_PIXELS`.
"""

_COPIES = {"WEBP": 4, "JPEG2000": 4, "AVIF": 4, "HEIF": 4}
"""Maximum memory of decoders in units of 4 bytes per pixel, by format. All other formats take 1 unit, except
progressive JPEGs, which take 2.5.
"""

WHITE_16_BIT = 65_535.0
"""Value of white in 16-bit images."""

MOST_CONVERTED = 1 << 20
"""Maximum number of pixels that are converted to float64 at once."""

RENDITION = 4 * GREY_SIZE
"""Longest side, in pixels, to which an image is scaled before it becomes a grayscale square for features."""

DAMAGED_EXIF = (OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, struct.error)
"""Exceptions of Pillow for damaged EXIF data."""

# Pillow would print its warnings while a pool is built. `_reason` reports the relevant ones.
warnings.filterwarnings("ignore", module=r"PIL\.")
logging.getLogger("PIL").setLevel(logging.CRITICAL)

# Exceptions of decoders for damaged files.
_BROKEN = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RuntimeError,
    EOFError,
    MemoryError,  # see `require_lasting`
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)


@cache
def _formats() -> tuple[str, ...]:
    """Return the formats that Pillow decodes by itself, common formats first, and HEIF if it can be read."""
    Image.init()
    wanted = ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "MPO", "PPM", "DIB", "JPEG2000", "AVIF"]
    if can_read_heif():
        wanted.append("HEIF")
    return tuple(name for name in wanted if name in Image.OPEN)


def read_image(file: Path | BinaryIO, size: int, *, stretch: bool = True) -> Image.Image:
    """Read the image in `file`, in mode RGB or L, scaled down if its longest side exceeds `size` pixels.

    `stretch` says whether the values of 16-bit grayscale images are stretched.

    Raises
    ------
    UnreadableImageError
        If the file does not exist, is not an image, has too many pixels, or is damaged.
    PassingError
        If the file can't be read now, for example because memory is short.
    InputError
        If `size` is less than 1.
    """
    if size < 1:
        raise InputError(f"size must be at least 1 pixel, got {size}")
    with _opened(file) as image:
        ends = None if stretch else _ends_of_type(image)
        shown = _plain(_reduced(image, size), ends)
        return _upright(shown, _orientation(image))


def read_halved(file: Path | BinaryIO, times: int) -> Image.Image | None:
    """Read the image in `file` with its width and height halved `times` times, rounded up, in mode RGB or L.

    Return None if the format is not JPEG. JPEG files are decoded at a half, a quarter or an eighth of their
    size, which takes less time than to decode and then shrink them.

    Raises
    ------
    UnreadableImageError
        See `read_image`.
    """
    with _opened(file) as image:
        width, height = image.size
        if image.format not in ("JPEG", "MPO"):
            return None
        drafted = image.draft(image.mode, (max(1, width >> times), max(1, height >> times)))
        if drafted is None:
            return None
        left = 2**times // round(width / drafted[1][2])
        shown = _plain(image)
        return _upright(shown.reduce(left) if left > 1 else shown, _orientation(image))


def resolution_of(file: Path | BinaryIO) -> tuple[int, int]:
    """Return the width and height, in pixels, of the upright image in `file`. Only the header is read.

    Raises
    ------
    UnreadableImageError
        See `read_image`. Damage after the header raises no error.
    """
    with _opened(file) as image:
        width, height = image.size
        is_turned = _orientation(image) >= 5 and image.format != "TIFF"  # Pillow turns TIFF files by itself
        return (height, width) if is_turned else (width, height)


def read_resized(file: Path | BinaryIO, resizing: Callable[[int, int], Resizing]) -> Image.Image:
    """Read the image in `file` and resize it.

    `resizing` takes the image's width and height, and returns how to resize it, and whether values are
    stretched. Resizing the full-size image from `read_image` would give the same bits, but would take more
    memory. Here, a large image is decoded
    without a second copy, and threads wait until there is enough memory for their images (`_room`).

    Raises
    ------
    UnreadableImageError
        See `read_image`.
    """
    with _opened(file) as image, _room.reserved(_decoded_pixels(image)):
        parts = _Parts(image)
        how = resizing(*parts.size)
        parts.stretch = how.stretch
        return how.of(parts)


def fitted(image: Image.Image, size: int) -> Image.Image:
    """Return `image` in mode RGB or L, scaled down if its longest side exceeds `size` pixels.

    Raises
    ------
    InputError
        If `size` is less than 1.
    """
    if size < 1:
        raise InputError(f"size must be at least 1 pixel, got {size}")
    return _plain(_reduced(image, size))


def format_of(data: bytes) -> str:
    """Return the format of an image file with this content, in lower case, such as "jpeg".

    Raises
    ------
    UnreadableImageError
        If the content is not an image of a supported format.
    """
    try:
        with Image.open(io.BytesIO(data), formats=_formats()) as image:
            return str(image.format).lower()
    except _BROKEN as error:
        raise UnreadableImageError("it is not an image of a supported format") from error


def grey_of(image: Image.Image) -> NDArray[np.float32]:
    """Return the image in grayscale, of shape (32, 32), in [0, 1], squeezed if it is not square."""
    grey = image.convert("L")
    if grey.size != (GREY_SIZE, GREY_SIZE):
        grey = grey.resize((GREY_SIZE, GREY_SIZE), Image.Resampling.BILINEAR)
    return np.asarray(grey, dtype=np.float32) / np.float32(255)


def grey_drawings(source: Source, items: Items) -> NDArray[np.float32]:
    """Draw the items with `Source.image`. Return grayscale images of shape (n, 32, 32), in [0, 1]."""
    drawn = [grey_of(source.image(item, GREY_SIZE)) for item in source.check_items(items).tolist()]
    return np.array(drawn, dtype=np.float32).reshape(len(drawn), GREY_SIZE, GREY_SIZE)


def luminance(planes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Convert color images of shape (n, 3, height, width) to gray values in [0, 1], exactly like Pillow."""
    red, green, blue = planes.astype(np.uint32).swapaxes(0, 1)
    grey: NDArray[np.float32] = ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16).astype(
        np.float32
    )
    return grey / np.float32(255)


@contextmanager
def _opened(file: Path | BinaryIO) -> Iterator[Image.Image]:
    """Open an image file. Errors here and in the `with` block are raised as `UnreadableImageError`.

    Failures that may pass are raised as `PassingError`.
    """
    try:
        with Image.open(file, formats=_formats()) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise UnreadableImageError(
                    f"it has {width:,} × {height:,} pixels, but at most {MAX_PIXELS:,} are decoded"
                )
            yield image
    except InputError:
        raise
    except _BROKEN as error:
        require_lasting(error, str(file) if isinstance(file, os.PathLike) else "an image")
        raise UnreadableImageError(_reason(error, file)) from error


class _Room:
    """A limit on the number of pixels that all threads together hold in memory."""

    def __init__(self, pixels: int) -> None:
        self._free = self._all = pixels
        self._changed = threading.Condition()

    @contextmanager
    def reserved(self, pixels: int) -> Iterator[None]:
        """Wait until this many pixels are free, and reserve them during the `with` block.

        If the limit is less than `pixels`, reserve all pixels.
        """
        pixels = min(pixels, self._all)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= pixels)
            self._free -= pixels
        try:
            yield
        finally:
            with self._changed:
                self._free += pixels
                self._changed.notify_all()


_room = _Room(max(MAX_PIXELS, PIXELS_A_CORE * (os.cpu_count() or 1)))


def _decoded_pixels(image: Image.Image) -> int:
    """Return the memory that is needed to decode the image, in units of 4 bytes."""
    copies = _COPIES.get(image.format or "", 2.5 if image.info.get("progressive") else 1)
    return int(image.width * image.height * copies)


class _Parts:
    """An image of any mode and orientation. Its parts are returned upright, in mode RGB or L.

    Attributes
    ----------
    size : (int, int)
        Width and height of the upright image.
    stretch : bool
        Whether the values of a 16-bit grayscale image are stretched.
    """

    stretch: bool = True

    def __init__(self, image: Image.Image) -> None:
        image.load()
        self._image = image
        self._orientation = _orientation(image)
        self.size = image.size if self._orientation < 5 else (image.height, image.width)

    def crop(self, box: tuple[int, int, int, int]) -> Image.Image:
        """Return a part of the upright image.

        `box` has the edges of the part, in pixels: left, top, right, bottom.
        """
        left, top, right, bottom = box if self._orientation < 5 else (box[1], box[0], box[3], box[2])
        width, height = self._image.size
        if self._orientation in (2, 3, 7, 8):
            left, right = width - right, width - left
        if self._orientation in (3, 4, 6, 7):
            top, bottom = height - bottom, height - top
        part = _convertible(self._image.crop((left, top, right, bottom)))
        shown = _plain(part, self._ends if part.mode in ("I", "F") else None)
        return _upright(shown, self._orientation)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The values of black and white."""
        ends = None if self.stretch else _ends_of_type(self._image)
        return ends or _range(self._image)


def _reduced(image: Image.Image, size: int) -> Image.Image:
    """Return `image` in a mode that can be resized, with its longest side at most `size`.

    Large JPEGs are decoded at an eighth, a quarter or half of their size, which takes less memory.
    """
    image = _convertible(image)
    numbers = image.mode in ("I", "F")
    image.thumbnail(
        (size, size), Image.Resampling.BOX if numbers else Image.Resampling.LANCZOS, reducing_gap=2.0
    )
    return image


def _convertible(image: Image.Image) -> Image.Image:
    """Return `image` in a mode that can be resized. Palettes and single bits are converted."""
    if image.mode == "1":
        image = image.convert("L")
    elif image.mode in ("P", "PA"):
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    elif image.mode.startswith("I"):
        image = image.convert("I")
    return image


def _plain(image: Image.Image, ends: tuple[float, float] | None = None) -> Image.Image:
    """Return `image` in mode RGB or L, loaded into memory.

    `ends` has the values of black and white, for images with more than 8 bits. By default, these are the
    darkest and the brightest value.
    """
    if image.mode in ("I", "F"):
        return _stretched(image, *(ends or _range(image)))
    if image.has_transparency_data:
        colours = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours).convert("RGB")
    if image.mode not in ("RGB", "L"):
        return image.convert("RGB")
    if image.format != "JPEG":
        return image.copy()  # pixels that are not compressed may lie in the file, which is closed
    image.load()
    return image


def _ends_of_type(image: Image.Image) -> tuple[float, float] | None:
    """Return the values of black and white of a 16-bit grayscale image as it was opened, otherwise None."""
    is_16_bit = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")
    return (0.0, WHITE_16_BIT) if is_16_bit else None


def _range(image: Image.Image) -> tuple[float, float]:
    """Return the smallest and the largest finite value of the pixels.

    If both values equal v, return 0 and max(v, 1). If no value is finite, return 0 and 1.
    """
    low, high = math.inf, -math.inf
    step = max(1, MOST_CONVERTED // max(1, image.width))
    for first in range(0, image.height, step):
        strip = image.crop((0, first, image.width, min(first + step, image.height)))
        values = np.asarray(_convertible(strip))
        finite = values[np.isfinite(values)]
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    if high == -math.inf:
        low, high = 0.0, 0.0
    return (low, high) if high > low else (0.0, max(high, 1.0))


def _stretched(image: Image.Image, low: float, high: float) -> Image.Image:
    """Map values from `low` … `high` to 0 … 255. Values that are not finite become black."""
    values = np.asarray(image)
    stretched = np.empty(values.shape, np.uint8)
    for rows, shown in zip(_some_rows(values), _some_rows(stretched), strict=True):
        relative = np.zeros(rows.shape)
        finite = np.isfinite(rows)
        relative[finite] = (rows[finite].astype(np.float64) - low) / (high - low)
        shown[:] = np.rint(255 * np.clip(relative, 0, 1))
    return Image.fromarray(stretched)


def _some_rows(pixels: NDArray[Any]) -> list[NDArray[Any]]:
    """Return views of a few rows each, so that not all rows are converted at once."""
    step = max(1, MOST_CONVERTED // max(1, pixels.shape[1]))
    return [pixels[first : first + step] for first in range(0, len(pixels), step)]


_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Transposition that makes an image upright, by EXIF orientation."""


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation of an image: 1 if upright; from 5 to 8 if width and height are swapped.

    If its EXIF data are damaged, the image counts as upright, as in web browsers.
    """
    try:
        orientation = image.getexif().get(0x0112, 1)
    except DAMAGED_EXIF:
        return 1
    return orientation if orientation in _TURNS else 1


def _upright(shown: Image.Image, orientation: int) -> Image.Image:
    return shown if orientation == 1 else shown.transpose(_TURNS[orientation])


def _reason(error: Exception, file: Path | BinaryIO) -> str:
    """Return why a file cannot be shown, in words for its owner."""
    if isinstance(error, FileNotFoundError):
        return "the file no longer exists"
    if isinstance(error, PermissionError):
        return "its permissions forbid reading it"
    if isinstance(error, IsADirectoryError):
        return "it is a folder"
    if isinstance(error, Image.DecompressionBombError):
        return f"it has more than {MAX_PIXELS:,} pixels"
    if isinstance(error, UnidentifiedImageError):
        empty = isinstance(file, os.PathLike) and Path(file).stat().st_size == 0
        if not can_read_heif() and is_heif(Path(file) if isinstance(file, os.PathLike) else file):
            return NEEDS_EXTRA
        return "the file is empty" if empty else "it is not an image of a supported format"
    if "truncated" in str(error):
        return "the image is damaged or incomplete: its file ends too early"
    return f"the image is damaged or incomplete ({str(error).strip() or type(error).__name__})"
