"""Which of the items answered yes are looked for, and how many of the found are shown at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PAGE = 24
"""Items that are shown at once, to be answered."""

MOST_QUERIES = 100
"""Queries that are looked for at once; of more, these are spread evenly over their order."""


def looked_for(items: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of some items that are looked for: all, or `MOST_QUERIES` spread evenly over their order."""
    return items[np.linspace(0, len(items) - 1, min(len(items), MOST_QUERIES)).astype(np.int64)]
