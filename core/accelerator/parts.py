"""Consecutive rows of a pool in the memory of a device, and their scores wᵀx + b.

Rows are stored at *places*. The rows of a byte pool stay in the order of their segment, which is that of
their clusters (`core.quantization.byte_rows`). Other rows are in their own order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.quantization.byte_kernels import places_of
from closecall.core.quantization.byte_rows import ByteRows

Ints = NDArray[np.int64]
Dtype = type[np.float32] | type[np.float64]
Weights = tuple[Tensor, ...]
"""Hyperplanes in the form that `scores` takes, in float32 or float64. All parts of a pool share them."""


class FloatPart(NamedTuple):
    """float32 or float16 rows, from the row `first_row` on: `X` has the shape (n, n_features)."""

    first_row: int
    X: Tensor

    @property
    def end(self) -> int:
        """Number of the row after the last."""
        return self.first_row + len(self.X)

    def weights(self, planes: Sequence[Hyperplane], dtype: Dtype) -> Weights:
        """Return the hyperplanes for `scores`."""
        arrays = np.array([plane.normal for plane in planes]).T, np.array([plane.bias for plane in planes])
        return tuple(_sent(array, dtype, self.X) for array in arrays)

    def scores(self, weights: Weights, at: slice | Tensor) -> Tensor:
        """Return wᵀx + b of the rows at m places under k hyperplanes, of shape (m, k)."""
        normals, biases = weights
        return torch.addmm(biases, self.X[at].to(normals.dtype), normals)

    def places(self, rows: Ints) -> Ints:
        """Return the places of rows; both are counted from the first row."""
        return rows

    def rows(self, places: Ints) -> Ints:
        """Return the rows at these places; both are counted from the first row."""
        return places

    def in_order_of_rows(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return scores of shape (k, n), which are in the order of the places, in the order of the rows."""
        return scores


class BytePart(NamedTuple):
    """A segment of a byte pool that starts at the row `first_row`; its other methods are like `FloatPart`'s.

    Parameters
    ----------
    codes : tensor of shape (n_blocks, n, BLOCK), int8
    fine : tensor of shape (n, n_fine), int8
    ends : tensor of shape (n_clusters,), int64
        The place after the last place of each cluster.
    on_disk : ByteRows
        All rows of the segment.
    """

    first_row: int
    codes: Tensor
    fine: Tensor
    ends: Tensor
    on_disk: ByteRows

    @classmethod
    def of(cls, first_row: int, X: ByteRows, device: str) -> BytePart:
        """Send a segment to a device. If X shows only some rows of the segment, send the others, too."""
        codes = torch.empty(X.codes.shape, dtype=torch.int8, device=device)
        for block, source in zip(codes, X.codes, strict=True):
            block.copy_(torch.from_numpy(np.array(source)))
        fine, ends = (torch.from_numpy(np.array(array)).to(device) for array in (X.fine, X.starts[1:]))
        return cls(first_row, codes, fine, ends, X)

    @property
    def end(self) -> int:
        """See `FloatPart.end`."""
        return self.first_row + len(self.fine)

    def weights(self, planes: Sequence[Hyperplane], dtype: Dtype) -> Weights:
        """See `FloatPart.weights`."""
        of_each = [self.on_disk.codebook.scan_weights(plane) for plane in planes]
        return tuple(
            _sent(np.stack(arrays, axis=-1), dtype, self.fine) for arrays in zip(*of_each, strict=True)
        )

    def scores(self, weights: Weights, at: slice | Tensor) -> Tensor:
        """See `FloatPart.scores`."""
        of_clusters, of_codes, of_fine = weights
        places = torch.arange(at.start, at.stop, device=self.ends.device) if isinstance(at, slice) else at
        scores = of_clusters[torch.bucketize(places, self.ends, right=True)]
        for stored, own in ((self.fine, of_fine), *zip(self.codes, of_codes, strict=True)):
            scores.addmm_(stored[at].to(own.dtype), own)
        return scores

    def places(self, rows: Ints) -> Ints:
        """See `FloatPart.places`."""
        X = self.on_disk
        return places_of(rows, X.labels, X.starts, X.order)

    def rows(self, places: Ints) -> Ints:
        """See `FloatPart.rows`."""
        return self.on_disk.order[places].astype(np.int64)

    def in_order_of_rows(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `FloatPart.in_order_of_rows`."""
        out = np.empty_like(scores)
        out[:, self.on_disk.order] = scores
        return out


Part: TypeAlias = FloatPart | BytePart


def of_each(parts: Sequence[Part], numbers: Ints) -> Iterator[tuple[Part, Ints]]:
    """Divide ascending numbers, of rows or places, among the parts. Yield each part with its own, if any.

    They are then counted from the part's first row.
    """
    ends = np.searchsorted(numbers, [parts[0].first_row, *(part.end for part in parts)])
    for part, first, end in zip(parts, ends[:-1], ends[1:], strict=True):
        if first < end:
            yield part, numbers[first:end] - part.first_row


def _sent(array: NDArray[Any], dtype: Dtype, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=dtype)).to(like.device)
