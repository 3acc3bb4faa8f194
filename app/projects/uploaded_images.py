"""Read uploaded images safely, limit their size, and compute their features."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.core.pool.pool import Pool
    from closecall.core.sources.base import Source

LARGEST_UPLOAD = 20_000_000
"""Maximum size of an uploaded image in bytes."""

KEPT_SIZE = 256
"""Maximum length in pixels of the longer side of an uploaded image; larger images are scaled down."""


def uploadable() -> list[str]:
    """Return the types of image files that people can choose for an upload, as extensions without dots."""
    from closecall.core.sources.heif import HEIF_EXTENSIONS, can_read_heif

    heif = sorted(extension[1:] for extension in HEIF_EXTENSIONS) if can_read_heif() else []
    return ["png", "jpg", "jpeg", "gif", "webp", "avif", "bmp", "tif", "tiff", *heif]


def why_none(pool: Pool | None, what: str = "Example images") -> str | None:
    """Return a sentence that says why images can't be compared with the pool's items; None if they can.

    `what` names the images in the sentence.
    """
    if pool is None:
        return f"{what} can't be used yet: the first items are still being prepared"
    if pool.holds_texts:
        return f"{what} can't be used here: this pool contains texts"
    try:
        return why_not_described(pool.source, what)
    except InputError as error:
        return str(error)


def note_on(pool: Pool | None) -> str | None:
    """Return a sentence on how features of uploads differ from those of the pool's items, or None."""
    try:
        return None if pool is None else pool.source.note_on_new_images()
    except InputError:  # the source is gone; `why_none` reports it
        return None


def describing_source(pool: Pool | None, what: str = "Example images") -> Source:
    """Return the pool's source, which can compute the features of further images.

    Raises
    ------
    InputError
        If images can't be compared with the pool's items. The message names the images by the text `what`.
    """
    if problem := why_none(pool, what):
        raise InputError(problem)
    assert pool is not None
    return pool.source


def why_not_described(source: Source, what: str = "Example images") -> str | None:
    """Return a sentence that says why images can't be compared with a source's items; None if they can.

    `what` names the images in the sentence.
    """
    if source.describes_images:
        return None
    return f"{what} can't be used here: this pool's features can't be computed from an image"


def read_upload(raw: bytes, what: str, source: Source) -> tuple[bytes, NDArray[np.float32]]:
    """Return an uploaded image as a PNG of limited size, and its features, of shape (n_features,).

    The PNG has at most `KEPT_SIZE` pixels on its longer side. The features are comparable with those of the
    items of `source`. If an image model computes the features, it gets the image at full size.

    Raises
    ------
    InputError
        If the image is empty, too large or can't be read, or if the source can't compute the features of
        images. `what` names the image in the message.
    """
    from closecall.core.features import of_image
    from closecall.core.sources.base import WHOLE
    from closecall.core.sources.images import read_image

    if problem := why_not_described(source, what):
        raise InputError(problem)
    if not raw:
        raise InputError(f"{what} can't be used: the file is empty")
    if len(raw) > LARGEST_UPLOAD:
        raise InputError(
            f"{what} can't be used: it is too large ({LARGEST_UPLOAD:,} bytes at most, got {len(raw):,})"
        )
    has_model = source.n_features is not None
    try:
        shown = image = read_image(io.BytesIO(raw), KEPT_SIZE)
        if has_model:
            image = read_image(io.BytesIO(raw), WHOLE, stretch=source.stretches_images)
        features = of_image(image, source)
    except InputError as error:
        raise InputError(f"{what} can't be used: {error}") from error
    kept = io.BytesIO()
    shown.save(kept, "PNG")
    return kept.getvalue(), features


def features_of_kept(image: bytes, source: Source) -> NDArray[np.float32] | None:
    """Return the features of a PNG that `read_upload` returned; None if the source finds no features in it.

    Raises
    ------
    InputError
        If the model that computes the features is missing or has changed.
    """
    from closecall.core.features import of_image
    from closecall.core.sources.base import WHOLE, UnreadableImageError
    from closecall.core.sources.images import read_image

    try:
        return of_image(read_image(io.BytesIO(image), WHOLE), source)
    except UnreadableImageError:
        return None
