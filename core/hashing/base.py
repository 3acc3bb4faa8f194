"""Types shared by all hash families: codes of points and codes of queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows, cut

Arrays = dict[str, NDArray[Any]]

BLOCK_ROWS = 2048
"""Number of rows that are hashed together. A shorter block of dense rows is padded with zeros.

A bit is the sign of a value, so rounding can change the bit of a value close to zero. In a matrix product,
rounding may depend on the number of rows and, on some processors, on the position of a row in its block.
Therefore all dense blocks have this size, and a row of a pool always has the same position in its block
(`core.hashing.pool`).
"""


@dataclass(frozen=True, eq=False)
class Codes:
    """The hash values of n items under the same functions, packed into bits.

    Parameters
    ----------
    packed : array of shape (n, n_bytes), uint8, C-contiguous
        Bits `f * bits` to `(f + 1) * bits - 1` of each row belong to function f. Bit i of a row is bit
        `i % 8` (least significant first) of byte `i // 8`. Unused bits are zero. A row is padded to whole
        64-bit words, so that codes can be compared one word at a time.
    n_functions : int
        Number of hash functions.
    bits : 1, 2, 4, 8 or 16
        Bits per function, which together form one hash value. H-Hash has 2 bits per function, and Min-Hash up
        to 16.

    Raises
    ------
    InputError
        If the dtype, shape or memory order of `packed` is wrong.
    """

    packed: NDArray[np.uint8]
    n_functions: int
    bits: int = 1

    def __post_init__(self) -> None:
        n_bytes = bytes_a_row(self.n_functions, self.bits)
        good = self.packed.dtype == np.uint8 and self.packed.shape == (len(self.packed), n_bytes)
        if not good or not self.packed.flags.c_contiguous:
            raise InputError(
                f"codes of {self.n_functions} functions of {self.bits} bits need contiguous uint8 of shape "
                f"(n, {n_bytes}), got {self.packed.dtype} of shape {self.packed.shape}"
            )

    @classmethod
    def from_bits(cls, bits: NDArray[np.bool_], per_function: int = 1) -> Codes:
        """Pack an array with one row of bits per item, in which each function has `per_function` bits."""
        n_functions = bits.shape[1] // per_function
        packed = np.zeros((len(bits), bytes_a_row(n_functions, per_function)), dtype=np.uint8)
        filled = np.packbits(bits, axis=1, bitorder="little")
        packed[:, : filled.shape[1]] = filled
        return cls(packed, n_functions, per_function)

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def words(self) -> NDArray[np.uint64]:
        """The codes as 64-bit words, of shape (n, n_bytes / 8)."""
        return self.packed.view("<u8")

    def unpacked(self) -> NDArray[np.uint8]:
        """Return the bits as zeros and ones, of shape (n, n_functions * bits)."""
        return np.unpackbits(self.packed, axis=1, count=self.n_functions * self.bits, bitorder="little")

    def joined(self, later: Codes) -> Codes:
        """Return these codes followed by the codes in `later`.

        Raises
        ------
        InputError
            If the codes differ in their number of functions or bits.
        """
        if (self.n_functions, self.bits) != (later.n_functions, later.bits):
            raise InputError(
                f"codes of {self.n_functions} functions of {self.bits} bits cannot be joined with "
                f"{later.n_functions} functions of {later.bits} bits"
            )
        return Codes(np.concatenate([self.packed, later.packed]), self.n_functions, self.bits)


@dataclass(frozen=True, eq=False)
class QueryCode:
    """A query, either a hyperplane or a point, in the form that is compared with the codes of points.

    Parameters
    ----------
    n_functions, bits : int
        As in `Codes`.
    weights : array of shape (n_functions * bits,), float32
        Weight of each bit of a pool item's code. The estimate for a pool item is
        offset + Σ weights · (2 bit − 1), a sum over the bits. If the query is a hyperplane, this estimates
        the score wᵀx + b of the item x, or the square of the score, up to a positive factor. If the query
        is a point, it estimates the dissimilarity of this point and the item.
    offset : float
        Constant of the estimate.
    signed : bool
        Whether the score itself is estimated. If it is, the best codes have the estimates closest to zero.
        Otherwise the best codes have the smallest estimates.
    hashed : callable
        Function that returns the query's code. It is called only when the code is needed.
    embedded : array of shape (n_embedded,), float32, or None
        Embedding e of a hyperplane (`core.hashing.reconstruction`). A search that uses only some of the bits
        computes the weights of these bits from e.
    """

    n_functions: int
    bits: int
    weights: NDArray[np.float32]
    offset: float
    signed: bool
    hashed: Callable[[], Codes]
    embedded: NDArray[np.float32] | None = None

    @cached_property
    def code(self) -> Codes:
        """Code of the query: for each function, the value that rows near the query have most often."""
        return self.hashed()


class Hasher(Protocol):
    """Interface of a fitted hash family, with the methods that are needed to hash a pool."""

    @property
    def n_functions(self) -> int:
        """Number of functions in a code."""

    @property
    def bits(self) -> int:
        """Bits per function."""

    def hash_points(self, X: Rows) -> Codes:
        """Return the codes of the rows of X."""


def named(part: str, arrays: Arrays) -> Arrays:
    """Add the prefix `part` and a hyphen to the names of the arrays; return the renamed arrays."""
    return {f"{part}-{name}": array for name, array in arrays.items()}


def part_of(arrays: Arrays, part: str) -> Arrays:
    """Undo `named`: select the arrays whose names begin with `part` and a hyphen, and remove this prefix."""
    return {name.removeprefix(f"{part}-"): a for name, a in arrays.items() if name.startswith(f"{part}-")}


def row_blocks(X: Rows) -> Iterator[Rows]:
    """Yield X in blocks of `BLOCK_ROWS` rows; the last block may be shorter."""
    for start in range(0, X.shape[0], BLOCK_ROWS):
        yield cut(X, start, start + BLOCK_ROWS)


def padded(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a dense block padded with rows of zeros to `BLOCK_ROWS` rows."""
    if len(X) == BLOCK_ROWS:
        return X
    return np.concatenate([X, np.zeros((BLOCK_ROWS - len(X), X.shape[1]), dtype=np.float32)])


def bytes_a_row(n_functions: int, bits: int) -> int:
    """Return the length of a packed code in bytes, a multiple of 8."""
    return -(-n_functions * bits // 64) * 8
