"""Arrays that live in a temporary file instead of in memory."""

from __future__ import annotations

from math import prod
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def scratch_array(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of zeros, mapped to a nameless file in the system's folder for temporary files.

    The system may write it out when memory is short, and frees it when the array is gone.
    """
    if not prod(shape):
        return np.zeros(shape, dtype=dtype)
    with TemporaryFile(prefix="closecall-") as file:
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)
