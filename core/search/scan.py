"""Hamming scan, which compares the whole code of every row with the query.

The speed is limited by reading memory. With 300 functions, a scan reads 80 bytes per row for H-Hash and 40
bytes for other families, whereas 384 features in float32 have 1,536 bytes. No row is missed, so the result
only depends on the quality of the codes.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from closecall.core.hashing.base import Arrays, Codes, QueryCode
from closecall.core.hashing.reconstruction import Moments
from closecall.core.search.base import Found, SearchStructure, packed_arrays, packed_codes
from closecall.core.search.ranking import Measure, closest, comparison


class HammingScan(SearchStructure):
    """Search structure that keeps the codes in the order of the rows and compares all of them."""

    name = "scan"

    def __init__(self, codes: Codes) -> None:
        self.codes_ = codes

    @classmethod
    def build(
        cls,
        codes: Codes,
        moments: Moments | None,  # noqa: ARG003
        *,
        n_compared: int,  # noqa: ARG003
        n_bytes: int,  # noqa: ARG003
        seed: int,  # noqa: ARG003
    ) -> Self:
        """See `SearchStructure.build`."""
        return cls(codes)

    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:  # noqa: ARG002
        """See `SearchStructure.found`; compares all rows."""
        self._check(query)
        start, stop = np.zeros(1, dtype=np.int64), np.array([len(self.codes_)])
        return Found(closest(self.codes_, start, stop, comparison(query, measure), n), len(self.codes_))

    def arrays(self) -> Arrays:
        """See `SearchStructure.arrays`."""
        return packed_arrays(self.codes_)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See `SearchStructure.from_arrays`."""
        return cls(packed_codes(arrays))
