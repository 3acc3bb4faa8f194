"""The items that a pool holds out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.rows import Rows
from closecall.core.pool.item_ids import Ids


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Items kept for measuring accuracy. They are never selected and are not rows of the pool.

    Parameters
    ----------
    ids : array of shape (n,), int64, ascending
    X : array or csr_array of shape (n, n_features), float32
    truth : array of shape (n,), int16
        Index into the pool's classes, −1 where unknown.
    """

    ids: Ids
    X: Rows
    truth: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, places: NDArray[np.int64]) -> HeldOut:
        """Return the items at these positions."""
        return HeldOut(self.ids[places], self.X[places], self.truth[places])
