"""Pool interface for query strategies, and a reader that computes wᵀx + b of rows without copying them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]
from numpy.typing import NDArray
from scipy.sparse import csr_array

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.jit import float32_at, prefetch
from closecall.core.numerics.rows import Rows as Features
from closecall.core.numerics.rows import as_bytes, product
from closecall.core.quantization.byte_rows import ByteRows

if TYPE_CHECKING:
    from closecall.core.accelerator.kept import KeptRows

Ids = NDArray[np.int64]
Rows = NDArray[np.int64]
Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]

_COPIED_ROWS = 2048
_HASHED_IDS = 1 << 20

_AHEAD = 4
_LINE = 16
"""Number of float32 values in a cache line."""


class PoolRows(Protocol):
    """Pool interface that a query strategy needs: a snapshot of N unit rows, in order of their ids."""

    @property
    def ids(self) -> Ids:
        """Item ids of shape (N,), ascending."""

    @property
    def n_features(self) -> int:
        """Length of a row."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored rows. If it is float32, `blocks` yields the rows without copying them."""

    def __len__(self) -> int:
        """Return N, the number of rows."""

    def scores(self, hyperplane: Hyperplane) -> NDArray[np.float32]:
        """Return wᵀx + b of every row, of shape (N,), computed in float32."""

    def score_blocks(
        self, hyperplanes: Sequence[Hyperplane], segments: Collection[int] | None = None
    ) -> Iterator[tuple[int, Floats32]]:
        """Yield wᵀx + b of all rows under each of k hyperplanes, block by block.

        A block of m rows gives a pair: the number of its first row, and an array of shape (k, m), float32.
        If `segments` are given, only their rows are scored.
        """

    @property
    def segment_starts(self) -> Rows:
        """First row of each segment, ascending. Segments are numbered from 0, and none is empty."""

    @property
    def crew(self) -> Crew | None:
        """The workers that help to search the pool, if there are any."""

    @property
    def is_sparse(self) -> bool:
        """Whether `rows` and `blocks` return `csr_array`s instead of arrays."""

    def rows(self, rows: Rows) -> Features:
        """Return the features of these rows, of shape (len(rows), n_features)."""

    def blocks(self, start_row: int = 0) -> Iterator[tuple[int, Features]]:
        """Yield the rows from `start_row` on, block by block.

        A block of m rows gives a pair: the number of its first row, and the features, of shape
        (m, n_features).
        """

    def alone(self) -> PoolRows:
        """Return the same pool without workers and without a device; itself if it has neither."""

    @property
    def kept(self) -> KeptRows | None:
        """The rows in the memory of a device that scans them, if there is one."""

    @property
    def byte_segments(self) -> Sequence[tuple[int, ByteRows]]:
        """The segments of a byte pool, as (first row, rows) in order. Other pools have none."""

    def prefix(self, n_rows: int) -> PoolRows:
        """Return the snapshot of the first `n_rows` rows."""


Part = TypeVar("Part")
Part_co = TypeVar("Part_co", covariant=True)


class Search(Protocol[Part_co]):
    """A search of a pool's segments, whose parts can be searched by different processes.

    It can be pickled. Its results do not depend on which segments are searched together.
    """

    def within(self, pool: PoolRows, segments: Sequence[int]) -> Search[Part_co]:
        """Return the same search with only the data that these segments need."""

    def run(self, pool: PoolRows, reader: RowReader, segments: Sequence[int] | None) -> Part_co:
        """Search these segments, or all segments if None."""


@dataclass(frozen=True)
class Parts(Generic[Part]):
    """What a search has found.

    Parameters
    ----------
    found : list
        The results of `Search.run`, in any order. Together, their segments are those that were searched.
    missing : tuple of int
        Segments that could not be searched in time.
    is_ours : bool
        Whether this process computed all parts. Otherwise, the last bits of floats may differ from those that
        this process computes, because other processors may add in another order.
    """

    found: list[Part]
    missing: tuple[int, ...] = ()
    is_ours: bool = True


class Crew(Protocol):
    """Workers that help to search pools; see `core.workers.crew`."""

    def search(self, pool: PoolRows, reader: RowReader, search: Search[Part]) -> Parts[Part]:
        """Search all segments of the pool. `reader` is the reader of this pool."""


def searched(pool: PoolRows, reader: RowReader, search: Search[Part]) -> Parts[Part]:
    """Search all segments of the pool: with the help of its crew, or in this process if it has none."""
    if pool.crew is not None:
        return pool.crew.search(pool, reader, search)
    return Parts([search.run(pool, reader, None)])


def ids_within(pool: PoolRows, ids: Ids, segments: Sequence[int]) -> Ids:
    """Return those of the ascending `ids` that may be in these segments, ascending."""
    starts, ends = segment_ranges(pool)
    own = sorted(segments)
    first, last = np.searchsorted(ids, [pool.ids[starts[own]], pool.ids[ends[own] - 1] + 1])
    return np.concatenate([ids[:0], *(ids[i:j] for i, j in zip(first, last, strict=True))])


def rows_within(pool: PoolRows, rows: Rows, segments: Sequence[int]) -> Rows:
    """Return those of the `rows` that are in these segments, in the given order."""
    segment = np.searchsorted(pool.segment_starts, rows, side="right") - 1
    return rows[np.isin(segment, segments)]


def rows_in(pool: PoolRows, segments: Sequence[int]) -> int:
    """Return the number of rows in these segments."""
    starts, ends = segment_ranges(pool)
    return int((ends - starts)[list(segments)].sum())


def segment_ranges(pool: PoolRows) -> tuple[Rows, Rows]:
    """Return the first row of each segment, and the row after its last row."""
    starts = pool.segment_starts
    return starts, np.append(starts[1:], len(pool))


def fingerprint(pool: PoolRows) -> str:
    """Return sixteen hexadecimal digits computed from all ids and the features of at most 16 rows."""
    some = np.unique(np.linspace(0, len(pool) - 1, 16).astype(np.int64))
    digest = hashlib.blake2b(digest_size=8)
    for first in range(0, len(pool), _HASHED_IDS):  # the ids may be mapped from a disk
        digest.update(pool.ids[first : first + _HASHED_IDS].astype("<i8", copy=False).data)
    digest.update(as_bytes(pool.rows(some)))
    return digest.hexdigest()


class RowReader:
    """Reader that computes wᵀx + b of rows of a pool; safe to share between threads.

    The memory-mapped segments of a float32 pool, dense or sparse, are read in place. The rows of other pools
    are converted in small batches, but rough scores of a byte pool are computed in place.
    """

    def __init__(self, pool: PoolRows) -> None:
        self._pool = pool
        self._segments: _Segments | _SparseSegments | None = None
        self._bytes = _ByteSegments.of(pool.byte_segments) if pool.byte_segments else None
        if pool.dtype == np.float32:
            kind = _SparseSegments if pool.is_sparse else _Segments
            self._segments = kind.of(list(pool.blocks()))

    def scores(self, rows: Rows, hyperplane: Hyperplane) -> Floats64:
        """Return wᵀx + b of these rows in float64. Equal rows give equal values, wherever they are stored."""
        return self._products(rows, hyperplane.normal) + hyperplane.bias

    def margins(self, rows: Rows, hyperplane: Hyperplane) -> Floats64:
        """Return |wᵀx + b| of these rows in float64; see `scores`."""
        return np.abs(self.scores(rows, hyperplane))

    def rough_margins(self, rows: Rows, hyperplane: Hyperplane) -> Floats64:
        """Return |wᵀx + b| summed in float32, with an error of at most `nearest.float32_error`."""
        return np.abs(self.rough_scores(rows, hyperplane))

    def rough_scores(self, rows: Rows, hyperplane: Hyperplane) -> Floats64:
        """Return wᵀx + b summed in float32, with an error of at most `nearest.float32_error`."""
        if self._bytes is not None:
            return self._bytes.scores(rows, hyperplane)
        return self._products(rows, hyperplane.normal.astype(np.float32)) + hyperplane.bias

    def _products(self, rows: Rows, normal: NDArray[np.floating]) -> Floats64:
        out = np.empty(len(rows), dtype=np.float64)
        if self._segments is not None:
            self._segments.products(rows, normal, out)
            return out
        for start in range(0, len(rows), _COPIED_ROWS):
            X = self._pool.rows(rows[start : start + _COPIED_ROWS])
            _Segments.of([(0, X)]).products(np.arange(len(X)), normal, out[start : start + len(X)])
        return out


class _Segments(NamedTuple):
    """Dense rows in memory: segment s starts at row starts[s] and address addresses[s].

    `arrays` keeps the memory alive.
    """

    starts: Ids
    addresses: NDArray[np.uintp]
    arrays: list[Floats32]

    @classmethod
    def of(cls, blocks: list[tuple[int, Floats32]]) -> _Segments:
        arrays = [np.ascontiguousarray(X) for _, X in blocks]
        return cls(
            np.array([first for first, _ in blocks], dtype=np.int64),
            np.array([X.ctypes.data for X in arrays], dtype=np.uintp),
            arrays,
        )

    def products(self, rows: Rows, normal: NDArray[np.floating], out: Floats64) -> None:
        """Write wᵀx of row rows[i] to out[i], summed in the dtype of the normal w."""
        _products(self.addresses, self.starts, rows, normal, out)


class _SparseSegments(NamedTuple):
    """Sparse rows in memory: the segment blocks[s] starts at row starts[s]."""

    starts: Ids
    blocks: list[csr_array]

    @classmethod
    def of(cls, blocks: list[tuple[int, csr_array]]) -> _SparseSegments:
        return cls(np.array([first for first, _ in blocks], dtype=np.int64), [X for _, X in blocks])

    def products(self, rows: Rows, normal: NDArray[np.floating], out: Floats64) -> None:
        """See `_Segments.products`."""
        segment = np.searchsorted(self.starts, rows, side="right") - 1
        for number, (first, X) in enumerate(zip(self.starts, self.blocks, strict=True)):
            own = segment == number
            if own.any():
                out[own] = product(X, normal, rows[own] - first)


class _ByteSegments(NamedTuple):
    """Rows of a byte pool: the segment blocks[s] starts at row starts[s]."""

    starts: Ids
    blocks: list[ByteRows]

    @classmethod
    def of(cls, segments: Sequence[tuple[int, ByteRows]]) -> _ByteSegments:
        return cls(np.array([first for first, _ in segments], dtype=np.int64), [X for _, X in segments])

    def scores(self, rows: Rows, hyperplane: Hyperplane) -> Floats64:
        """Return wᵀx + b of these rows, from their bytes; see `core.quantization.codebook`."""
        out = np.empty(len(rows), dtype=np.float64)
        turned = self.blocks[0].codebook.turned(hyperplane)
        segment = np.searchsorted(self.starts, rows, side="right") - 1
        for number in np.unique(segment):
            own = segment == number
            out[own] = self.blocks[number].rough_scores(rows[own] - self.starts[number], turned)
        return out


def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    """Compile a function in which sums may be reordered. The order is the same for all rows."""
    return cast(Callable[..., None], njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})(function))


@_compiled
def _products(
    addresses: NDArray[np.uintp], starts: Ids, rows: Rows, normal: NDArray[np.floating], out: Floats64
) -> None:
    """Write wᵀx of row rows[i] to out[i], summed in the dtype of the normal w."""
    n, d = rows.shape[0], normal.shape[0]
    zero = normal[0] - normal[0]
    places = np.empty(n, dtype=np.uintp)
    for i in range(n):
        segment = np.searchsorted(starts, rows[i], side="right") - 1
        places[i] = addresses[segment] + np.uintp((rows[i] - starts[segment]) * d * 4)
    for i in range(n):
        coming = carray(float32_at(places[min(i + _AHEAD, n - 1)]), (1, d))
        for j in range(0, d, _LINE):
            prefetch(coming, 0, j)
        x = carray(float32_at(places[i]), (d,))
        total = zero
        for j in range(d):
            total += x[j] * normal[j]
        out[i] = total
