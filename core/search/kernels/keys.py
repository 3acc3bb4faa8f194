"""The keys of buckets, computed from codes; see `core.search.kernels`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import kernel


@kernel
def _key(code: NDArray[np.uint8], functions: NDArray[np.int64], bits: int) -> np.uint64:
    """Return the values of `functions` for a code as one number, the first function in the highest bits."""
    key = np.uint64(0)
    for f in functions:
        for bit in range(f * bits, f * bits + bits):
            key = (key << np.uint64(1)) | np.uint64((code[bit >> 3] >> (bit & 7)) & 1)
    return key


@kernel
def keys_of_rows(packed: NDArray[np.uint8], functions: NDArray[np.int64], bits: int) -> NDArray[np.uint64]:
    """Return the key of each code in `packed`, of shape (len(packed),).

    A key consists of the values of the hash functions listed in `functions`.
    """
    keys = np.empty(packed.shape[0], dtype=np.uint64)
    for row in range(packed.shape[0]):
        keys[row] = _key(packed[row], functions, bits)
    return keys


@kernel
def keys_of_hands(code: NDArray[np.uint8], hands: NDArray[np.int64], bits: int) -> NDArray[np.uint64]:
    """Return one key of a code for each row of `hands`; the row lists the functions that form the key.

    The result has shape (len(hands),).
    """
    keys = np.empty(hands.shape[0], dtype=np.uint64)
    for hand in range(hands.shape[0]):
        keys[hand] = _key(code, hands[hand], bits)
    return keys
