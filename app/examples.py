"""Example images that a person uploads: read safely, bounded, and turned into features."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

if TYPE_CHECKING:
    from app.project import Project

LARGEST_UPLOAD = 20_000_000
"""Bytes of one uploaded image."""

KEPT_SIZE = 256
"""Longest side in pixels of an example as it is kept and shown."""


def read_example(raw: bytes, project: Project) -> tuple[bytes, NDArray[np.float32]]:
    """An uploaded image as a bounded PNG, and its features of shape (n_features,).

    Raises
    ------
    InputError
        If it is no image that can be read, or if the pool's features are embeddings of the user's own.
    """
    from core.features import of_image
    from core.sources.images import read_image

    pool = project.pool
    if pool is not None and pool.source.n_features is not None:
        raise InputError("Example images can't be used here: this pool has embeddings made elsewhere")
    if len(raw) > LARGEST_UPLOAD:
        raise InputError(f"An example image may have {LARGEST_UPLOAD:,} bytes, this one has {len(raw):,}")
    image = read_image(io.BytesIO(raw), KEPT_SIZE)
    kept = io.BytesIO()
    image.save(kept, "PNG")
    return kept.getvalue(), of_image(image)
