"""Groups of near-duplicates, each with a leader."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

RowNumbers = NDArray[np.int64]
Angles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of N rows into groups, each with a leader.

    Parameters
    ----------
    leaders : array of shape (N,), int64
        For each row, the row number of its leader. Leaders, and rows without near-duplicates, are their own
        leaders.
    angles : array of shape (N,), float32
        Angle between each row and its leader, in radians; 0 for leaders.
    """

    leaders: RowNumbers
    angles: Angles

    def __len__(self) -> int:
        return len(self.leaders)

    @cached_property
    def sizes(self) -> RowNumbers:
        """For each row, the size of the group that it leads, or 0 if it leads no group; shape (N,)."""
        return np.bincount(self.leaders, minlength=len(self)).astype(np.int64)

    @property
    def n_groups(self) -> int:
        """Number of groups of at least two rows."""
        return int((self.sizes > 1).sum())

    @property
    def n_repeated(self) -> int:
        """Number of rows whose leader is another row."""
        return len(self) - int((self.sizes > 0).sum())

    def members(self, row: int) -> RowNumbers:
        """Return all rows of the group that contains `row`, in ascending order."""
        leader = int(self.leaders[row])
        found = self._by_leader[self._starts[leader] : self._starts[leader] + self.sizes[leader]]
        return np.sort(found)

    def listed(self) -> list[RowNumbers]:
        """For each group of at least two rows, return its leader, then its other rows, nearest first.

        Groups are ordered by leader.
        """
        return [
            self._by_leader[self._starts[leader] : self._starts[leader] + self.sizes[leader]]
            for leader in np.flatnonzero(self.sizes > 1).tolist()
        ]

    @cached_property
    def _by_leader(self) -> RowNumbers:
        own = self.leaders != np.arange(len(self))
        return np.lexsort((np.arange(len(self)), self.angles, own, self.leaders))

    @cached_property
    def _starts(self) -> RowNumbers:
        return np.cumsum(self.sizes) - self.sizes
