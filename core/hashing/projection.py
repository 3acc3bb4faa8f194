"""One vector times a matrix, for queries: BLAS would wake all of its threads for so little work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.kernels import kernel

Floats32 = NDArray[np.float32]


@kernel
def combined(weights: Floats32, rows: Floats32) -> Floats32:
    """Σ_i weights[i] · rows[i], of shape (rows.shape[1],)."""
    total = np.zeros(rows.shape[1], dtype=np.float32)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            total[j] += weights[i] * rows[i, j]
    return total
