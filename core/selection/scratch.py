"""Arrays stored in a temporary file instead of in memory."""

from __future__ import annotations

from math import prod
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def scratch_array(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros, memory-mapped to an unnamed file in the system's temporary folder.

    The system may write the array to disk when memory is short. The file is deleted together with the array.
    """
    if not prod(shape):
        return np.zeros(shape, dtype=dtype)
    with TemporaryFile(prefix="closecall-") as file:
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)
