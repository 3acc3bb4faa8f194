"""Rows in blocks of one length, however the pool is cut into segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

Block = np.ndarray[tuple[int, int], np.dtype[np.float32]]


def even_blocks(blocks: Iterable[Block], n_rows: int) -> Iterator[Block]:
    """The same rows in blocks of exactly `n_rows`, the last one of what is left.

    What a matrix product gives for a row may depend, in its last bits, on where in its block it stands. This
    way it doesn't depend on how the pool is cut.
    """
    rest: list[Block] = []
    for X in blocks:
        rest.append(X)
        if sum(map(len, rest)) < n_rows:
            continue
        start = n_rows - sum(map(len, rest[:-1]))
        yield X[:start] if len(rest) == 1 else np.concatenate([*rest[:-1], X[:start]])
        whole = start + (len(X) - start) // n_rows * n_rows
        for first in range(start, whole, n_rows):
            yield X[first : first + n_rows]
        rest = [X[whole:]]
    left = np.concatenate(rest) if rest else None
    if left is not None and len(left):
        yield left
