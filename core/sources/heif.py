"""HEIC and HEIF files, as telephones write them, which are read with the optional package pillow-heif."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import BinaryIO

HEIF_EXTENSIONS = frozenset((".heic", ".heif", ".hif"))
CURE = 'pip install "closecall[heic]"'
NEEDS_EXTRA = f"it is a HEIC image, which needs pillow-heif: {CURE}"

_BRANDS = frozenset((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"))
"""Types of HEIF files, in bytes 8 to 11 of a file."""


@cache
def can_read_heif() -> bool:
    """Return whether this process can read HEIC files. The first call registers their reader with Pillow."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener(thumbnails=False)
    return True


def is_heif(file: Path | BinaryIO) -> bool:
    """Return whether a file begins like a HEIC or HEIF file, whatever its name is."""
    try:
        if isinstance(file, Path):
            with file.open("rb") as opened:
                start = opened.read(12)
        else:
            file.seek(0)
            start = file.read(12)
    except (OSError, ValueError):
        return False
    return start[4:8] == b"ftyp" and start[8:] in _BRANDS


def note_on_left_out(n: int) -> str | None:
    """Return a sentence on `n` HEIC images that are left out, or None if `n` is 0."""
    if not n:
        return None
    images, they = ("HEIC image is", "it needs") if n == 1 else ("HEIC images are", "they need")
    return f"{n:,} {images} left out: {they} {CURE}"
