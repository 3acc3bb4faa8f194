"""The capture times of photographs, from their EXIF data.

Cameras write the local time, so times are comparable only within one camera and a few hours. They are
returned in seconds since 1970, as if the camera's clock showed UTC.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.sources.base import Items, Source
from closecall.core.sources.heif import can_read_heif
from closecall.core.sources.images import DAMAGED_EXIF

_EXIF, _TIME, _FRACTION = 0x8769, 0x9003, 0x9291
"""EXIF tags: the Exif IFD (data on the exposure), and its tags DateTimeOriginal and SubSecTimeOriginal."""


def taken_at(source: Source, items: Items) -> NDArray[np.float64]:
    """For each item, return when it was taken, in seconds, or NaN if unknown; shape (n_items,).

    The time is unknown if an item is not a photograph in a file, or if the file contains no time or cannot be
    read. Only the beginning of each file is read.
    """
    return np.array([_time_of(source, item) for item in source.check_items(items).tolist()], dtype=np.float64)


def _time_of(source: Source, item: int) -> float:
    try:
        file: Path | io.BytesIO | None = source.original(item)
        if file is None:
            content = source.encoded(item)
            file = None if content is None else io.BytesIO(content)
        if file is None:
            return float("nan")
        can_read_heif()
        with Image.open(file) as image:
            return seconds_of(image.getexif().get_ifd(_EXIF))
    except (InputError, Image.DecompressionBombError, *DAMAGED_EXIF):
        return float("nan")


def seconds_of(exif: Mapping[int, Any]) -> float:
    """Return when a photograph was taken, in seconds since 1970, or NaN if its EXIF data have no time."""
    try:
        time = datetime.strptime(str(exif[_TIME]).strip("\0 "), "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC)
    except (KeyError, ValueError):
        return float("nan")
    fraction = str(exif.get(_FRACTION, "")).strip("\0 ")
    return time.timestamp() + (float(f"0.{fraction}") if fraction.isascii() and fraction.isdigit() else 0.0)
