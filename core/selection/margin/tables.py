"""The tables that the kernels of a margin index read, and the result of a search in these tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]
Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Ints16 = NDArray[np.int16]
Ints32 = NDArray[np.int32]
Ints64 = NDArray[np.int64]


class Statistics(NamedTuple):
    """Read-only statistics of N rows of d features in K clusters, from which a query is planned.

    `centre`, `directions`, `steps` and `centroids` are those of a `Quantizer`. `n_leading` is d or `BLOCK`,
    whichever is smaller.

    Parameters
    ----------
    centre : array of shape (d,), float32
    directions : array of shape (d, d), float32
    steps : array of shape (d,), float32
    centroids : array of shape (K, n_clustered), float32
    second_moments : array of shape (n_blocks, BLOCK), float32
        Second moments of the bytes, over all rows.
    means, variances : arrays of shape (K, n_leading), float32
        Mean and variance of the first `n_leading` principal coordinates in each cluster.
    scales : array of shape (256,), float32
        The scale that each byte in `Tables.tails` stands for; see `core.quantization.moments`.
    starts : array of shape (K + 1,), int64
        Number of rows in all earlier clusters; the last number is N.
    """

    centre: Floats32
    directions: Floats32
    steps: Floats32
    centroids: Floats32
    second_moments: Floats32
    means: Floats32
    variances: Floats32
    scales: Floats32
    starts: Ints64


class Tables(NamedTuple):
    """Read-only tables of the bytes of n rows in K clusters: all rows of a pool, or those of a segment.

    Parameters
    ----------
    starts : array of shape (K + 1,), int64
        Cluster c occupies the positions from starts[c] up to, but not including, starts[c + 1].
    codes : array of shape (n_blocks, n, BLOCK), int8
        Bytes of the row at each position.
    tails : array of shape (n_blocks, n), uint8
        The scale of the row's coordinates after each block, encoded as one byte; see `Statistics.scales`.
    order : array of shape (n,), int32
        The row at each position.
    ids : array of shape (n,), int64
        The item id of each row.
    """

    starts: Ints64
    codes: Codes
    tails: Bytes
    order: Ints32
    ids: Ints64


class Outlook(NamedTuple):
    """Affine function x ↦ wᵀx + b, to be computed from the cluster and the bytes of a row.

    Parameters
    ----------
    weights : array of shape (n_blocks, BLOCK), int16
    units : array of shape (n_blocks,), float32
        A row in cluster c with bytes q has the score offsets[c] + Σ_i units[i] · (weights[i] · q[i]), summed
        over the blocks i.
    unread : array of shape (n_blocks,), float32
        For each block, the variance of the sum of all later blocks' terms, for an average row.
    rounded : array of shape (n_blocks,), float32
        Variance due to the rounding of the bytes read up to and including each block.
    offsets : array of shape (K,), float32
    means, variances : arrays of shape (K,), float32
        Moments of the function over the rows of each cluster.
    """

    weights: Ints16
    units: Floats32
    unread: Floats32
    rounded: Floats32
    offsets: Floats32
    means: Floats32
    variances: Floats32


class Plan(NamedTuple):
    """What a query reads, and how it decides which rows may be the nearest.

    Parameters
    ----------
    outlook : Outlook
        The affine function to be computed from the bytes.
    clusters : array of shape (n_clusters,), int64
        The clusters to read, in this order.
    tolerances : array of shape (n_blocks, 256), float32
        Bounds on the error of a partial score. Bound [i, t] is for rows that have been read up to block i,
        and whose byte in `Tables.tails` for this block is t.
    slope : float
        Factor by which earlier scores are multiplied, if there are any.
    reaches : array of shape (K,), float32
        Bound on the error of the mean of `outlook` over each cluster.
    """

    outlook: Outlook
    clusters: Ints64
    tolerances: Floats32
    slope: float
    reaches: Floats32


class Found(NamedTuple):
    """Rows that may be among the nearest to a hyperplane.

    Parameters
    ----------
    rows : array of shape (m,), int64
    distances : array of shape (m,), float32
        Approximate |wᵀx + b| of each row.
    error : float
        Approximate bound on the error of the distances.
    looked : int
        Number of rows whose bytes were read.
    """

    rows: Ints64
    distances: Floats32
    error: float
    looked: int
