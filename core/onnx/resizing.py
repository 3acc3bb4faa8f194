"""Resizing of large images a few rows at a time, without a copy of the whole image.

Pillow resizes an image in two passes, one along its rows and one along its columns, and rounds in between.
Here the rows of a large image come first. Each row is then resized by itself. So the first pass is given a
few rows at a time, which are copied, converted and rotated for it, and only its result, which is small, is
kept for the second pass. The result is Pillow's, bit for bit, except where Pillow begins with the columns, as
version 13 does if the height shrinks much more than the width: there it differs by rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from PIL import Image

MOST_COPIED = 1 << 21
"""Maximum number of pixels copied at once, if a row has not more. Pillow alone resizes smaller images."""

MOST_BETWEEN = 1 << 25
"""Maximum number of pixels between the passes: columns come first in a narrow image that is too high."""

_REACH = 3
"""Pixels around a place that the widest interpolation takes into account, Lanczos."""


class Croppable(Protocol):
    """What is needed of an image: an `Image.Image`, or something that makes its parts when asked."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""

    def crop(self, box: tuple[int, int, int, int]) -> Image.Image:
        """Return a copy of the part between left, top, right and bottom, in mode RGB or L."""


@dataclass(frozen=True)
class Resizing:
    """How an image is resized; except for `mode`, these are arguments of `Image.resize`.

    Parameters
    ----------
    size : (int, int)
        Width and height of the result.
    box : (float, float, float, float)
        Left, top, right and bottom of the part that is resized, in pixels of the image.
    resample : int
        Interpolation, as Pillow numbers it.
    mode : {"RGB", "L"}
        Mode to which the image is converted before.
    """

    size: tuple[int, int]
    box: tuple[float, float, float, float]
    resample: int
    mode: str = "RGB"

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
        """Return the first of an axis's pixels that are needed, and the first after them."""
        first, last = self.box[axis], self.box[axis + 2]
        reach = _REACH * max(1.0, (last - first) / self.size[axis]) + 1
        return max(0, math.floor(first - reach)), min(length, math.ceil(last + reach))
