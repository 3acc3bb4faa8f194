"""One vector times a matrix, for queries: BLAS would wake all of its threads for so little work."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from core.kernels import kernel

Floats32 = NDArray[np.float32]
F = TypeVar("F", np.float32, np.float64)


@kernel
def combined(weights: NDArray[F], rows: Floats32) -> NDArray[F]:
    """Σ_i weights[i] · rows[i], of shape (rows.shape[1],), summed in the number format of `weights`."""
    total = np.zeros(rows.shape[1], dtype=weights.dtype)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            total[j] += weights[i] * rows[i, j]
    return total
