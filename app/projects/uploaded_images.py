"""Read uploaded images safely, limit their size, and compute their features."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.core.pool.pool import Pool

LARGEST_UPLOAD = 20_000_000
"""Maximum size of an uploaded image in bytes."""

KEPT_SIZE = 256
"""Maximum length in pixels of the longer side of an uploaded image; larger images are scaled down."""


def why_none(pool: Pool | None, what: str = "Example images") -> str | None:
    """Return a sentence that says why images can't be compared with the pool's items; None if they can.

    The sentence calls the images `what`.
    """
    if pool is None:
        return None
    if pool.holds_texts:
        return f"{what} can't be used here: this pool contains texts"
    try:
        is_computed_here = pool.source.n_features is None
    except InputError as error:
        return str(error)
    if is_computed_here:
        return None
    return f"{what} can't be used here: this pool's features can't be computed from an image"


def read_example(raw: bytes, pool: Pool | None) -> tuple[bytes, NDArray[np.float32]]:
    """Return an uploaded example as a PNG of limited size, and its features, of shape (n_features,).

    Raises
    ------
    InputError
        If the file is empty, too large or not a readable image, or if the pool's features can't be computed
        from images.
    """
    if problem := why_none(pool):
        raise InputError(problem)
    return read_upload(raw, "An example image", pool)


def read_upload(raw: bytes, what: str, pool: Pool | None) -> tuple[bytes, NDArray[np.float32]]:
    """Return an uploaded image as a PNG of limited size, and its features, of shape (n_features,).

    The PNG has at most `KEPT_SIZE` pixels on its longer side. The features are comparable with the pool's
    only if `why_none` returns None. If there is no pool yet, GIST features are computed.

    Raises
    ------
    InputError
        If the file is empty, too large or not a readable image. The message calls the image `what`.
    """
    from closecall.core.features import of_image
    from closecall.core.sources.images import read_image

    if not raw:
        raise InputError(f"{what} can't be used: the file is empty")
    if len(raw) > LARGEST_UPLOAD:
        raise InputError(
            f"{what} can't be used: it is too large ({LARGEST_UPLOAD:,} bytes at most, got {len(raw):,})"
        )
    try:
        image = read_image(io.BytesIO(raw), KEPT_SIZE)
    except InputError as error:
        raise InputError(f"{what} can't be used: {error}") from error
    kept = io.BytesIO()
    image.save(kept, "PNG")
    extractor = "gist" if pool is None else pool.source.extractor
    return kept.getvalue(), of_image(image, extractor)
