"""Rows in blocks of equal length, independent of the division of the pool into segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from closecall.core.numerics.rows import Rows, cut, joined


def even_blocks(blocks: Iterable[Rows], n_rows: int) -> Iterator[Rows]:
    """Regroup the rows of blocks into blocks of exactly `n_rows`; the last block may be shorter.

    The result of a matrix product for a row may depend, in its last bits, on the row's position in its block.
    With blocks of one size, the result does not depend on how the pool is divided into files.
    """
    rest: list[Rows] = []
    waiting = 0
    for X in blocks:
        n = X.shape[0]
        if waiting + n < n_rows:
            rest.append(X)
            waiting += n
            continue
        start = n_rows - waiting
        yield joined([*rest, cut(X, 0, start)])
        whole = start + (n - start) // n_rows * n_rows
        for first in range(start, whole, n_rows):
            yield cut(X, first, first + n_rows)
        waiting = n - whole
        rest = [cut(X, whole, n)] if waiting else []
    if waiting:
        yield joined(rest)
