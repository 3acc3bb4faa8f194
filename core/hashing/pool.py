"""Hashing a whole pool, block by block, on as many threads as there are cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np

from core.blas import one_thread
from core.blocks import even_blocks
from core.hashing.base import BLOCK_ROWS, Codes, Hasher, bytes_a_row
from core.rows import Rows

_BLOCKS_AT_ONCE = 32


def hash_rows(
    hasher: Hasher,
    blocks: Iterable[tuple[int, Rows]],
    n_rows: int,
    advanced: Callable[[int], None],
) -> Codes:
    """The codes of `n_rows` rows, in order.

    Parameters
    ----------
    hasher : Hasher
        Fitted.
    blocks : iterable of (first row, features of shape (m, n_features))
        Without gaps, as `Pool.blocks` gives them; cut anew into blocks of `BLOCK_ROWS`, so that a row's
        bits do not depend on how the pool is cut.
    n_rows : int
        How many rows `blocks` has.
    advanced : callable
        Told how many rows are done; what it raises ends the work.
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
