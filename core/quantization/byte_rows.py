"""The rows of one segment of a byte pool, in the order of their clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.quantization.byte_kernels import (
    coordinates,
    coordinates_in_order,
    places_of,
    products,
    scan,
    turned_back,
)
from closecall.core.quantization.codebook import FINE, Codebook, Encoded, Turned
from closecall.core.quantization.quantizer import BLOCK, Floats32, Labels, in_whole_tiles

FEW = 8
"""For up to this many hyperplanes, one scan of the codes for each is faster than decoding the rows."""

_ROWS_AT_ONCE = 512
"""Number of rows to score at a time in a scan; their coordinates fit into the cache of one core."""


@dataclass(frozen=True, eq=False)
class ByteRows:
    """Rows 0 … n − 1 of a segment, at n places. The rows of a cluster have consecutive places, and ascend.

    It can be indexed like an array of shape (n_rows, d): rows give float32 features, and a slice gives the
    `ByteRows` of a range of rows, without a copy. See `core.quantization.codebook` for the bytes.

    Parameters
    ----------
    codebook : Codebook
    codes : array of shape (n_blocks, n, BLOCK), int8
        The bytes q of the row at each place.
    fine : array of shape (n, n_fine), int8
        The bytes f of the row at each place.
    tails : array of shape (n_blocks, n), uint8
        Scales of the row at each place; see `core.quantization.moments.tails`.
    order : array of shape (n,), int32
        The row at each place.
    labels : array of shape (n,), uint16
        The cluster of each row.
    starts : array of shape (n_clusters + 1,), int64
        The first place of each cluster.
    first, end : int
        The range of rows that this object shows, as a slice does; all rows by default.
    """

    codebook: Codebook
    codes: NDArray[np.int8]
    fine: NDArray[np.int8]
    tails: NDArray[np.uint8]
    order: NDArray[np.int32]
    labels: Labels
    starts: NDArray[np.int64]
    first: int = 0
    end: int = -1

    def __post_init__(self) -> None:
        if self.end < 0:
            object.__setattr__(self, "end", len(self.order))

    @classmethod
    def of(cls, data: NDArray[np.uint8], n: int, codebook: Codebook) -> ByteRows:
        """Return the n rows in `data`, the content of a file that was written with `in_file_order`.

        Raises
        ------
        ValueError
            If the data is damaged so that reading rows could access other memory.
        """
        n_blocks, n_fine = codebook.quantizer.n_blocks, codebook.n_fine
        lengths = [n * n_blocks * BLOCK, 4 * n, 2 * n, n * n_fine, n * n_blocks]
        if len(data) != sum(lengths):
            raise ValueError(f"{len(data)} bytes instead of {sum(lengths)}")
        parts = np.split(data, np.cumsum(lengths)[:-1])
        codes = parts[0].view(np.int8).reshape(n_blocks, n, BLOCK)
        order, labels = parts[1].view(np.int32), parts[2].view(np.uint16)
        fine, tails = parts[3].view(np.int8).reshape(n, n_fine), parts[4].reshape(n_blocks, n)
        n_clusters = len(codebook.quantizer.centroids)
        if n and not (0 <= order.min() <= order.max() < n and labels.max() < n_clusters):
            raise ValueError("it names rows or clusters that do not exist")
        has_place = np.zeros(n, dtype=np.bool_)
        has_place[order] = True
        if not has_place.all():
            raise ValueError("it has rows without a place")
        starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_clusters))])
        return cls(codebook, codes, fine, tails, order, labels, starts)

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return len(self), self.codebook.n_features

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the segment are shown."""
        return len(self) == len(self.order)

    def __getitem__(self, wanted: Any) -> Any:
        if isinstance(wanted, slice):
            first, end, step = wanted.indices(len(self))
            if step != 1:
                raise IndexError("only consecutive rows")
            return replace(self, first=self.first + first, end=self.first + max(first, end))
        return self._decoded(self.first + np.asarray(wanted, dtype=np.int64))

    def decoded(self) -> Floats32:
        """Return the features of all rows shown, of shape (n_rows, d), computed by BLAS.

        The last bits may differ from those of rows that are read by index.
        """
        rows = np.arange(self.first, self.end)
        quantizer = self.codebook.quantizer
        points = self._coordinates(rows).astype(np.float32)
        return in_whole_tiles(points, quantizer.directions.T) + quantizer.centre

    def rough_scores(self, rows: NDArray[np.int64], turned: Turned) -> NDArray[np.float64]:
        """Return wᵀx + b of rows, of shape (len(rows),), before x is rounded to float32.

        `turned` is the hyperplane in principal coordinates; see `Codebook.turned`.
        """
        normal, at_centre = turned
        wanted = rows + self.first
        out = np.empty(len(rows), dtype=np.float64)
        clusters, quantizer = self.labels[wanted], self.codebook.quantizer
        places = places_of(wanted, self.labels, self.starts, self.order)
        products(self.codes, self.fine, places, clusters, quantizer.centroids, quantizer.steps, normal, out)
        out += at_centre
        return out

    def scores(self, hyperplanes: Sequence[Hyperplane]) -> Floats32:
        """Return wᵀx + b of all rows shown under k hyperplanes, of shape (k, n_rows), in float32."""
        out = np.empty((len(hyperplanes), len(self.order)), dtype=np.float32)
        if len(hyperplanes) <= FEW:
            for hyperplane, scores in zip(hyperplanes, out, strict=True):
                self._scan(hyperplane, scores)
        else:
            for rows, scores in self._scores_in_order(hyperplanes):
                out[:, rows] = scores
        return out[:, self.first : self.end]

    def _scan(self, hyperplane: Hyperplane, out: Floats32) -> None:
        """Write wᵀx + b of all rows of the segment to `out`, without decoding them."""
        parts = self.codebook.scan_weights(hyperplane)
        of_clusters, of_codes, of_fine = (np.ascontiguousarray(part, dtype=np.float32) for part in parts)
        scan(self.codes, self.fine, self.starts, self.order, of_clusters, of_codes, of_fine, out)

    def _scores_in_order(
        self, hyperplanes: Sequence[Hyperplane]
    ) -> Iterator[tuple[NDArray[np.int32], Floats32]]:
        """Yield rows and their scores, of shape (k, m), place by place."""
        turned = [self.codebook.turned(hyperplane) for hyperplane in hyperplanes]
        normals = np.array([one.normal for one in turned], dtype=np.float32).T
        normals = np.ascontiguousarray(normals)
        centres = np.array([[one.at_centre] for one in turned], dtype=np.float32)
        points = np.empty((_ROWS_AT_ONCE, self.shape[1]), dtype=np.float32)
        quantizer = self.codebook.quantizer
        for first in range(0, len(self.order), _ROWS_AT_ONCE):
            rows = self.order[first : first + _ROWS_AT_ONCE]
            some = points[: len(rows)]
            coordinates_in_order(
                self.codes, self.fine, first, self.starts, quantizer.centroids, quantizer.steps, some
            )
            yield rows, (some @ normals).T + centres

    def _coordinates(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        quantizer = self.codebook.quantizer
        places = places_of(rows, self.labels, self.starts, self.order)
        points = np.empty((len(rows), self.shape[1]), dtype=np.float64)
        coordinates(
            self.codes, self.fine, places, self.labels[rows], quantizer.centroids, quantizer.steps, points
        )
        return points

    def _decoded(self, rows: NDArray[np.int64]) -> Floats32:
        out = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        codebook = self.codebook
        turned_back(self._coordinates(rows), codebook.rows_of_directions, codebook.quantizer.centre, out)
        return out


def replaced(X: Floats32, codebook: Codebook) -> Floats32:
    """Return the rows that a byte pool stores for the rows X of shape (n, d)."""
    parts = in_file_order(codebook.encoded(X))
    data = np.concatenate([np.ascontiguousarray(part).view(np.uint8).ravel() for part in parts])
    return ByteRows.of(data, len(X), codebook).decoded()


def in_file_order(rows: Encoded) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a segment's file: the codes, block by block, then order, labels, fine and tails.

    The order of the arrays aligns the codes with cache lines, and the numbers with their sizes.
    """
    order = np.argsort(rows.labels, kind="stable").astype(np.int32)
    for block in range(rows.codes.shape[1]):
        yield rows.codes[order, block]
    yield order
    yield rows.labels
    yield rows.fine[order]
    yield rows.tails[order].T


def bytes_a_row(n_features: int) -> int:
    """Return the number of bytes that a segment stores per row."""
    n_blocks = -(-n_features // BLOCK)
    return n_blocks * BLOCK + min(FINE, n_features) + n_blocks + np.dtype(np.int32).itemsize + 2
