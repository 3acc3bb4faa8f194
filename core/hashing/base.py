"""What every hash family gives: codes for points, and a code for what is looked for."""

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
"""Points are hashed in blocks of exactly this many rows, the last filled up with zeros, so that a row's bits
do not depend on how many rows follow it: a matrix product's last digits may depend on its shape. With some
processors they depend on a row's place in its block, too, and then a bit whose value is zero but for rounding
may: a pool's rows keep their places (`core.hashing.pool`)."""


@dataclass(frozen=True, eq=False)
class Codes:
    """The hash values of n things under the same functions, packed into bits.

    Parameters
    ----------
    packed : array of shape (n, n_bytes), uint8, C-contiguous
        Function f's bits are number `f * bits` and up of a row; bit i of a row is bit `i % 8` (the least
        significant first) of byte `i // 8`. Unused bits are zero. Rows are whole 64-bit words, so that
        codes can be compared a word at a time.
    n_functions : int
    bits : 1, 2, 4, 8 or 16
        Bits a function; of several, as H-Hash and Min-Hash have, they only count as a whole.
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
        """Pack an array of bits of shape (n, n_functions * per_function)."""
        n_functions = bits.shape[1] // per_function
        packed = np.zeros((len(bits), bytes_a_row(n_functions, per_function)), dtype=np.uint8)
        filled = np.packbits(bits, axis=1, bitorder="little")
        packed[:, : filled.shape[1]] = filled
        return cls(packed, n_functions, per_function)

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def words(self) -> NDArray[np.uint64]:
        """The same bits, 64 at a time, of shape (n, n_bytes / 8)."""
        return self.packed.view("<u8")

    def unpacked(self) -> NDArray[np.uint8]:
        """The bits as zeros and ones, of shape (n, n_functions * bits)."""
        return np.unpackbits(self.packed, axis=1, count=self.n_functions * self.bits, bitorder="little")

    def joined(self, later: Codes) -> Codes:
        """These codes followed by `later`'s."""
        if (self.n_functions, self.bits) != (later.n_functions, later.bits):
            raise InputError(
                f"codes of {self.n_functions} functions of {self.bits} bits cannot be joined with "
                f"{later.n_functions} functions of {later.bits} bits"
            )
        return Codes(np.concatenate([self.packed, later.packed]), self.n_functions, self.bits)


@dataclass(frozen=True, eq=False)
class QueryCode:
    """A hyperplane, or a point, as codes of points are compared with it.

    Parameters
    ----------
    n_functions : int
    bits : int
        As of `Codes`.
    weights : array of shape (n_functions * bits,), float32
        What each bit of a point weighs: offset + Σ weights · (2 bit − 1) estimates the score of the point,
        in units of its own, or the square of the score; for similarity, how unlike the point is.
    offset : float
    signed : bool
        Whether it is the score that is estimated, and the likest codes are those whose estimate is nearest to
        zero; if not, the likest are those with the least.
    hashed : callable
        Gives the code; not every query needs it.
    embedded : array of shape (n_embedded,), float32, or None
        What a `Reconstruction` from fewer bits is asked with; None where there is none, and the same weights
        serve for them.
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
        """Its one code: the values that a point near it has more often than others."""
        return self.hashed()


class Hasher(Protocol):
    """What hashing a pool needs of a fitted family, whatever it is for."""

    @property
    def n_functions(self) -> int:
        """How many functions a code has."""

    @property
    def bits(self) -> int:
        """Bits a function."""

    def hash_points(self, X: Rows) -> Codes:
        """The codes of the rows of X."""


def named(part: str, arrays: Arrays) -> Arrays:
    """The arrays of one part of an index, under names that tell them from those of others."""
    return {f"{part}-{name}": array for name, array in arrays.items()}


def part_of(arrays: Arrays, part: str) -> Arrays:
    """What gave `named(part, …)`, among others."""
    return {name.removeprefix(f"{part}-"): a for name, a in arrays.items() if name.startswith(f"{part}-")}


def row_blocks(X: Rows) -> Iterator[Rows]:
    """X in blocks of `BLOCK_ROWS` rows, the last one of what is left."""
    for start in range(0, X.shape[0], BLOCK_ROWS):
        yield cut(X, start, start + BLOCK_ROWS)


def padded(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """A dense block with zeros after it, `BLOCK_ROWS` rows in all."""
    if len(X) == BLOCK_ROWS:
        return X
    return np.concatenate([X, np.zeros((BLOCK_ROWS - len(X), X.shape[1]), dtype=np.float32)])


def bytes_a_row(n_functions: int, bits: int) -> int:
    """How long a packed code is."""
    return -(-n_functions * bits // 64) * 8
