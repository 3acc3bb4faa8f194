"""Choice of the positive items that serve as queries, and the number of results shown at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PAGE = 24
"""Number of search results that are shown at once to be answered."""

MOST_QUERIES = 100
"""Maximum number of queries at once. If there are more positive items, the queries are spread evenly over
these items.
"""


def looked_for(items: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the items to use as queries: all, or `MOST_QUERIES` of them, spread evenly over the array."""
    return items[np.linspace(0, len(items) - 1, min(len(items), MOST_QUERIES)).astype(np.int64)]
