"""Input of the feature extractors: small grayscale images."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.sources.base import GREY_SIZE


def checked_grey(grey: ArrayLike) -> NDArray[np.float32]:
    """Check grayscale images of shape (n_images, 32, 32); return them as float32.

    Raises
    ------
    InputError
        If the shape is different, or an intensity is not between 0 and 1.
    """
    grey = np.asarray(grey, dtype=np.float32)
    if grey.ndim != 3 or grey.shape[1:] != (GREY_SIZE, GREY_SIZE):
        raise InputError(f"grey must have shape (n_images, {GREY_SIZE}, {GREY_SIZE}), got {grey.shape}")
    if grey.size and not (grey.min() >= 0 and grey.max() <= 1):
        raise InputError(f"grey must lie between 0 and 1, got {grey.min():g} … {grey.max():g}")
    return grey
