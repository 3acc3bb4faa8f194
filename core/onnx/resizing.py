"""Resizing of large images a few rows at a time, without a copy of the whole image.

Pillow resizes an image in two passes, one along its rows and one along its columns, and rounds in between.
This module processes a few rows of a large image at a time. It copies, converts and rotates these rows,
applies the first pass, and keeps only the result, which is small. The second pass follows when all rows have
been processed. The final result equals Pillow's bit for bit, except if Pillow begins with the columns. Then
the results differ by rounding. Pillow 13 begins with the columns if the height shrinks much more than the
width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from PIL import Image

MOST_COPIED = 1 << 21
"""Maximum number of pixels copied at once, unless one row has more. Smaller images are copied as a whole."""

MOST_BETWEEN = 1 << 25
"""Maximum number of pixels of the image between the two passes. If an image that is widened would have more,
its columns are resized before its rows.
"""

_REACH = 3
"""Radius in pixels of the widest interpolation, Lanczos."""


class Croppable(Protocol):
    """Image that can be cropped: an `Image.Image`, or an object that creates parts of an image on demand."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""

    def crop(self, box: tuple[int, int, int, int]) -> Image.Image:
        """Return a copy of a part of the image, as an image of mode RGB or L.

        `box` has the edges of the part, in pixels: left, top, right, bottom.
        """


@dataclass(frozen=True)
class Resizing:
    """Parameters of resizing an image. `size`, `box` and `resample` are arguments of `Image.resize`.

    Parameters
    ----------
    size : (int, int)
        Width and height of the result.
    box : (float, float, float, float)
        Left, top, right and bottom of the part that is resized, in pixels of the image.
    resample : int
        Pillow's number of the interpolation.
    mode : {"RGB", "L"}
        Mode to which the image is converted before it is resized.
    stretch : bool
        Whether pixel values are stretched; see `Preprocessing`. The `Croppable` does this before resizing.
    """

    size: tuple[int, int]
    box: tuple[float, float, float, float]
    resample: int
    mode: str = "RGB"
    stretch: bool = False

    def of(self, image: Croppable) -> Image.Image:
        """Return the resized image."""
        x, across = self._needed(0, image.size[0])
        y, down = self._needed(1, image.size[1])
        rows = max(1, MOST_COPIED // (across - x))
        left, top, right, bottom = self.box[0] - x, self.box[1] - y, self.box[2] - x, self.box[3] - y
        width, height = self.size

        def part(first: int, last: int) -> Image.Image:
            cropped = image.crop((x, first, across, last))
            return cropped if cropped.mode == self.mode else cropped.convert(self.mode)

        if width > across - x and width * (down - y) > MOST_BETWEEN:
            columns = part(y, down).resize((across - x, height), self.resample, (0, top, across - x, bottom))
            return columns.resize(self.size, self.resample, (left, 0, right, height))
        if rows >= down - y:
            return part(y, down).resize(self.size, self.resample, (left, top, right, bottom))
        between = Image.new(self.mode, (width, down - y))
        for first in range(y, down, rows):
            strip = part(first, min(first + rows, down))
            strip = strip.resize((width, strip.height), self.resample, (left, 0, right, strip.height))
            between.paste(strip, (0, first - y))
        return between.resize(self.size, self.resample, (0, top, width, bottom))

    def _needed(self, axis: int, length: int) -> tuple[int, int]:
        """Return the range of pixels needed along an axis: the first one, and the one after the last."""
        first, last = self.box[axis], self.box[axis + 2]
        reach = _REACH * max(1.0, (last - first) / self.size[axis]) + 1
        return max(0, math.floor(first - reach)), min(length, math.ceil(last + reach))
