"""Hashing of a whole pool, block by block, with one thread per core.

A hash family is fitted to a sample of at most `FIT_ROWS` rows of a pool. The sample is evenly spaced over the
first 2^j rows of the pool, where 2^j is the largest power of two that does not exceed the number of rows. The
sample therefore covers at least half of the pool. The family stays the same until a growing pool reaches the
next power of two. Until then, the codes of the old rows are kept, and only new rows are hashed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from closecall.core.hashing.base import BLOCK_ROWS, Codes, Hasher, bytes_a_row
from closecall.core.numerics.blas import one_thread
from closecall.core.numerics.blocks import even_blocks
from closecall.core.numerics.rows import Rows

FIT_ROWS = 20_000

_BLOCKS_AT_ONCE = 32


def fit_rows(n_rows: int) -> NDArray[np.int64]:
    """Return the ascending indices of the rows to which a family is fitted, for a pool of `n_rows` rows."""
    spread = 1 << n_rows.bit_length() >> 1
    return np.unique(np.linspace(0, spread - 1, min(FIT_ROWS, spread)).astype(np.int64))


def hash_on(
    hasher: Hasher,
    blocks: Callable[[int], Iterable[tuple[int, Rows]]],
    n_rows: int,
    advanced: Callable[[int], None],
    before: Codes | None = None,
) -> Codes:
    """Return the codes of a pool's rows, reusing known codes of its first rows.

    Parameters
    ----------
    hasher : Hasher
        Fitted hash family.
    blocks : callable
        The method `Pool.blocks`, which yields blocks of rows from a given row on.
    n_rows : int
        Number of rows in the pool.
    advanced : callable
        Called with the number of rows done so far, including reused rows. An exception that it raises stops
        the work.
    before : Codes or None
        Known codes of the first rows, from the same hasher. Only the codes of whole blocks of `BLOCK_ROWS`
        rows are reused.
    """
    kept = len(before) // BLOCK_ROWS * BLOCK_ROWS if before is not None else 0
    later = hash_rows(hasher, blocks(kept), n_rows - kept, lambda done: advanced(kept + done))
    if before is None:
        return later
    return Codes(before.packed[:kept], before.n_functions, before.bits).joined(later)


def hash_rows(
    hasher: Hasher,
    blocks: Iterable[tuple[int, Rows]],
    n_rows: int,
    advanced: Callable[[int], None],
) -> Codes:
    """Return the codes of `n_rows` rows, in order.

    Parameters
    ----------
    hasher : Hasher
        Fitted hash family.
    blocks : iterable of (first row, features of shape (m, n_features))
        Consecutive blocks without gaps, as `Pool.blocks` yields them. They are regrouped into blocks of
        `BLOCK_ROWS` rows, so that the bits of a row do not depend on the sizes of the given blocks.
    n_rows : int
        Number of rows in `blocks`.
    advanced : callable
        Called with the number of rows done so far. An exception that it raises stops the work.
    """
    packed = np.empty((n_rows, bytes_a_row(hasher.n_functions, hasher.bits)), dtype=np.uint8)
    done = 0
    even = even_blocks((X for _, X in blocks), BLOCK_ROWS)
    with one_thread(), ThreadPoolExecutor(os.cpu_count()) as threads:
        while some := list(islice(even, _BLOCKS_AT_ONCE)):
            for codes in threads.map(hasher.hash_points, some):
                packed[done : done + len(codes)] = codes.packed
                done += len(codes)
                advanced(done)
    return Codes(packed, hasher.n_functions, hasher.bits)
