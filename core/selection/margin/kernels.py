"""Search for the rows nearest to a hyperplane: densest clusters first, with increasingly exact scores.

**Order.** Within a cluster, wᵀx + b is assumed to be normally distributed, with the mean and variance over
the rows of the cluster. Clusters are read in descending order of the density at zero. If all are read, only
the first `FRONT` are ordered.

**Cascade.** The score of a row is summed over blocks of bytes. A row is dropped when its partial score is
farther from zero than r + zσ + κσ². Here r is the approximate distance of the n-th nearest row so far, and z
is a quantile of the normal distribution.

σ² is the variance of the unknown part of the score. In principal coordinates, let w be the normal, p a row
and Δ the steps of the quantizer (see `core.quantization.quantizer`). σ² is the sum of two variances. The
variance due to the unread coordinates j is Σ_j s² w_j² E[p_j²], where s is a scale of the row (see
`core.quantization.moments`). The variance due to rounding the coordinates j that have been read is
Σ_j w_j² Δ_j² / 12.

κ is the slope of the logarithm of the density of scores at zero. If a hyperplane passes far from the pool,
the density of rows increases steeply with the distance from the hyperplane. The nearest row is then probably
one of the many rows with a large partial score, whose unread part moves the score towards zero. If the unread
part is normally distributed, the rows with a score near zero have partial scores that are κσ² from zero on
average. The float32 rounding error is added to the tolerance zσ + κσ², because the scores of near-duplicates
may differ by less than this error.

**Largest scores.** If all rows are on the negative side of a hyperplane, the nearest rows are those with the
largest scores. Densities and κ are then taken at the edge of the pool instead of zero: at a score that few
rows exceed, if scores are normally distributed in every cluster.

**Remembered scores.** Let s₀ be the score of a row x under an earlier hyperplane with the normal w₀, kept
since the earlier query. Then wᵀx + b = α s₀ + δᵀx + β with δ = w − α w₀, a constant β, and the α that
minimizes the variance of δᵀx. A first test of each row uses only α s₀ and the mean of δᵀx + β over the
cluster of the row. For the rows that pass the test, the cascade starts with α s₀ and adds δᵀx + β block by
block.

Bytes are summed as integers, so the sums are equal on every machine. The whole query is compiled because,
between two queries, other work evicts the code of the Python interpreter from the caches of the processor.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from closecall.core.numerics.jit import fast_kernel, kernel, prefetch, strict_kernel
from closecall.core.quantization.quantizer import BLOCK
from closecall.core.selection.margin.tables import (
    Bytes,
    Codes,
    Flags,
    Floats32,
    Floats64,
    Found,
    Ints16,
    Ints32,
    Ints64,
    Outlook,
    Plan,
    Statistics,
    Tables,
)

FRONT = 32
"""Number of clusters to order by density if all clusters are read. The other clusters follow in any order."""

_BATCH = 1024
_LONG_BATCH = 4096
_AHEAD = 64
_MANY = 6  # a batch is read whole while more than one row in six is left: reading fewer saves no memory page
_MARKS = 1 << 14
_ROWS_AHEAD = 4
_CLUSTERS_AHEAD = 8
_LINE = 16
_EDGE = 3  # standard deviations above the mean of a cluster
_LEAST_VARIANCE = 1e-30
_ROUNDING = 2.0**-24


@fast_kernel
def _prefetch_row(array: Floats32, row: int) -> None:
    for j in range(0, array.shape[1], _LINE):
        prefetch(array, row, j)


@fast_kernel
def turned(statistics: Statistics, normal: Floats64, bias: float) -> tuple[Floats32, float]:
    """Return the normal of a hyperplane in principal coordinates, in float32, and the score of `centre`."""
    d = normal.shape[0]
    along = np.zeros(d, dtype=np.float32)
    at_centre = bias
    for i in range(d):
        _prefetch_row(statistics.directions, i + _ROWS_AHEAD)
        weight = np.float32(normal[i])
        at_centre += normal[i] * statistics.centre[i]
        for j in range(d):
            along[j] += weight * statistics.directions[i, j]
    return along, at_centre


@fast_kernel
def _outlook(statistics: Statistics, normal: Floats32, at_centre: float) -> Outlook:
    """Return the `Outlook` of the affine function with this normal and score of the centre (see `turned`)."""
    n_blocks, n_clusters = statistics.second_moments.shape[0], statistics.centroids.shape[0]
    weights = np.zeros((n_blocks, BLOCK), dtype=np.int16)
    units = np.ones(n_blocks, dtype=np.float32)
    unread = np.zeros(n_blocks, dtype=np.float32)
    rounded = np.zeros(n_blocks, dtype=np.float32)
    rest = np.float32(0)
    for block in range(n_blocks - 1, -1, -1):
        first, end = block * BLOCK, min(block * BLOCK + BLOCK, normal.shape[0])
        largest = np.float32(0)
        energy = np.float32(0)
        rounding = np.float32(0)
        for j in range(first, end):
            step = normal[j] * statistics.steps[j]
            largest = max(largest, abs(step))
            energy += step * step * statistics.second_moments[block, j - first]
            rounding += step * step
        if largest > 0:
            units[block] = largest / np.float32(32767)
        for j in range(first, end):
            weights[block, j - first] = np.int16(np.rint(normal[j] * statistics.steps[j] / units[block]))
        unread[block] = rest
        for later in range(block, n_blocks):
            rounded[later] += rounding / np.float32(12)
        if block > 0:
            rest += energy
    offsets = np.empty(n_clusters, dtype=np.float32)
    means = np.empty(n_clusters, dtype=np.float32)
    variances = np.empty(n_clusters, dtype=np.float32)
    for c in range(n_clusters):
        _prefetch_row(statistics.means, c + _CLUSTERS_AHEAD)
        _prefetch_row(statistics.variances, c + _CLUSTERS_AHEAD)
        offset = np.float32(at_centre)
        for j in range(statistics.centroids.shape[1]):
            offset += normal[j] * statistics.centroids[c, j]
        mean = np.float32(at_centre)
        variance = np.float32(max(rest, np.float32(_LEAST_VARIANCE)))
        for j in range(statistics.means.shape[1]):
            mean += normal[j] * statistics.means[c, j]
            variance += normal[j] * normal[j] * statistics.variances[c, j]
        offsets[c] = offset
        means[c] = mean
        variances[c] = variance
    return Outlook(weights, units, unread, rounded, offsets, means, variances)


@fast_kernel
def _slope_of_density(statistics: Statistics, outlook: Outlook) -> float:
    """Return κ, the slope of the log density of scores at zero: |mean| / variance for normal scores."""
    n_rows = statistics.starts[-1]
    first = 0.0
    second = 0.0
    for c in range(outlook.means.shape[0]):
        share = (statistics.starts[c + 1] - statistics.starts[c]) / n_rows
        mean = outlook.means[c]
        first += share * mean
        second += share * (outlook.variances[c] + mean * mean)
    return abs(first) / max(second - first * first, _LEAST_VARIANCE)


@fast_kernel
def _at_edge(statistics: Statistics, outlook: Outlook) -> Outlook:
    """Return the outlook with its means relative to the edge of the pool, if all rows have scores below 0."""
    edge = np.float32(-np.inf)
    for c in range(outlook.means.shape[0]):
        if statistics.starts[c] < statistics.starts[c + 1]:
            edge = max(edge, outlook.means[c] + np.float32(_EDGE) * np.sqrt(outlook.variances[c]))
    means = outlook.means - min(edge, np.float32(0))
    return Outlook(
        outlook.weights, outlook.units, outlook.unread, outlook.rounded, outlook.offsets, means,
        outlook.variances,
    )  # fmt: skip


@fast_kernel
def _slope_of_change(statistics: Statistics, normal: Floats32, before: Floats32) -> float:
    """Return α = w₀ᵀΣw / w₀ᵀΣw₀ for the normals w and w₀ = `before`.

    The diagonal matrix Σ has the variances of the coordinates about the centroids of the clusters.
    """
    across = 0.0
    along = 0.0
    for j in range(normal.shape[0]):
        spread = (
            statistics.second_moments[j // BLOCK, j % BLOCK]
            * statistics.steps[j]
            * statistics.steps[j]
            * before[j]
        )
        across += spread * normal[j]
        along += spread * before[j]
    return across / along if along > 0 else 0.0


@fast_kernel
def _rounding(normal: Floats32, at_centre: float) -> float:
    """Return a bound on the float32 rounding error of a score; see `core.selection.nearest`."""
    squares = 0.0
    for j in range(normal.shape[0]):
        squares += normal[j] * normal[j]
    return (len(normal) + 3) * _ROUNDING * (sqrt(squares) + abs(at_centre))


@fast_kernel
def _tolerances(statistics: Statistics, outlook: Outlook, z: float, tilt: float, rounding: float) -> Floats32:
    """Return bounds on the error of partial scores, of shape (n_blocks, 256).

    Bound [i, t] is for rows that have been read up to block i, and whose byte in `tails` for this block is t.
    """
    found = np.empty((outlook.unread.shape[0], statistics.scales.shape[0]), dtype=np.float32)
    for block in range(found.shape[0]):
        for scale in range(found.shape[1]):
            variance = outlook.unread[block] * statistics.scales[scale] ** 2 + outlook.rounded[block]
            found[block, scale] = z * sqrt(variance) + tilt * variance + rounding
    return found


@kernel
def _reading(statistics: Statistics, outlook: Outlook, limit: int) -> Ints64:
    """Return the clusters to read for `limit` rows. Those with the densest scores at zero come first."""
    n_clusters = outlook.means.shape[0]
    clusters = np.empty(n_clusters, dtype=np.int64)
    logs = np.empty(n_clusters, dtype=np.float32)
    for c in range(n_clusters):
        variance = outlook.variances[c]
        logs[c] = -(outlook.means[c] * outlook.means[c]) / variance - np.log(variance)
    chosen = np.zeros(n_clusters, dtype=np.bool_)
    everything = limit >= statistics.starts[-1]
    n = 0
    rows = 0
    while rows < limit and n < n_clusters and not (everything and n >= FRONT):
        densest = -1
        for c in range(n_clusters):
            if not chosen[c] and (densest < 0 or logs[c] > logs[densest]):
                densest = c
        chosen[densest] = True
        clusters[n] = densest
        rows += statistics.starts[densest + 1] - statistics.starts[densest]
        n += 1
    if everything:
        for c in range(n_clusters):
            if not chosen[c]:
                clusters[n] = c
                n += 1
    return clusters[:n]


@strict_kernel
def _product(codes: Codes, weights: Ints16) -> np.int32:
    """Return the inner product of one block of bytes with its weights."""
    total = np.int32(0)
    for j in range(BLOCK):
        # Numba would use int64 by default; 64 products of 7-bit and 15-bit factors fit in 28 bits and a sign.
        total = np.int32(total + np.int32(np.int32(weights[j]) * np.int32(codes[j])))
    return total


@strict_kernel
def _read_all(
    tables: Tables, outlook: Outlook, tolerance: Floats32, block: int, reach: np.float32,
    begin: int, size: int, partial: Floats32, flags: Bytes, sums: Ints32,
) -> int:  # fmt: skip
    """Add a block to the partial scores of all rows of a batch, and clear the flags of rows that are too far.

    Returns the number of rows that are still flagged.
    """
    codes, tails = tables.codes[block][begin : begin + size], tables.tails[block][begin : begin + size]
    weights, unit = outlook.weights[block], outlook.units[block]
    for i in range(size):
        prefetch(codes, i + _AHEAD, 0)
        sums[i] = _product(codes[i], weights)
    flagged = 0
    for i in range(size):
        partial[i] += unit * np.float32(sums[i])
        flags[i] &= abs(partial[i]) <= reach + tolerance[tails[i]]
        flagged += flags[i]
    return flagged


@strict_kernel
def _flagged(
    begin: int, size: int, partial: Floats32, flags: Bytes, end: int, places: Ints32, scores: Floats32
) -> int:
    """Append the positions and scores of the flagged rows of a batch to `places` and `scores`.

    Returns the new end of the two lists.
    """
    words = flags.view(np.uint64)  # eight flags at once, often all zero
    for word in range((size + 7) // 8):
        if words[word] != 0:
            for i in range(8 * word, min(8 * word + 8, size)):
                places[end] = begin + i
                scores[end] = partial[i]
                end += flags[i]
    return end


@strict_kernel
def _read_some(
    tables: Tables, outlook: Outlook, tolerances: Floats32, block: int, reach: np.float32,
    start: int, end: int, places: Ints32, scores: Floats32,
) -> int:  # fmt: skip
    """Add a block of features to the scores of the rows at places[start:end]; drop rows that are too far.

    The remaining rows are moved to the front of the range. Returns the end of the remaining rows.
    """
    codes, tails = tables.codes[block], tables.tails[block]
    weights, unit, tolerance = outlook.weights[block], outlook.units[block], tolerances[block]
    for candidate in range(start, end):
        prefetch(codes, places[candidate], 0)
        prefetch(tables.tails, block, places[candidate])
    kept = start
    for candidate in range(start, end):
        place = np.uint32(places[candidate])  # unsigned, so there is no check for negative indices
        score = scores[candidate] + unit * np.float32(_product(codes[place], weights))
        # Branchless, because the processor cannot predict whether a row is kept.
        places[kept] = place
        scores[kept] = score
        kept += abs(score) <= reach + tolerance[tails[place]]
    return kept


@strict_kernel
def _marks(excluded: Ints64) -> Flags:
    """Return, for each remainder modulo `_MARKS`, whether an id in `excluded` has this remainder.

    If no excluded id has the remainder of an id, this id is not excluded. Most ids therefore need no search.
    """
    marks = np.zeros(_MARKS, dtype=np.bool_)
    for excluded_id in excluded:
        marks[excluded_id % _MARKS] = True
    return marks


@strict_kernel
def _is_excluded(excluded: Ints64, marks: Flags, wanted: int) -> bool:
    """Return whether `wanted` is in the ascending `excluded`."""
    if not marks[wanted % _MARKS]:
        return False
    low, high = 0, excluded.shape[0]
    while low < high:
        middle = (low + high) // 2
        if excluded[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < excluded.shape[0] and bool(excluded[low] == wanted)


@strict_kernel
def _cascade(
    tables: Tables, outlook: Outlook, tolerances: Floats32, clusters: Ints64, limit: int,
    old: Floats32, slope: np.float32, reaches: Floats32,
    excluded: Ints64, marks: Flags, best: Floats32, places: Ints32, scores: Floats32,
) -> tuple[int, int]:  # fmt: skip
    """Read `limit` rows, cluster by cluster, and keep the rows that may be among the nearest.

    `tolerances` has bounds on the error of a partial score after each block. If there are `old` scores, the
    score of a row is slope · old plus the value of the affine function `outlook`. Before any block is read,
    this value is approximated by the mean of the function over the cluster; `reaches` has a bound on the
    error for each cluster. On return, `best` has the smallest approximate distances from zero, and `places`
    and `scores` describe the rows kept.

    Returns the number of rows kept, and the number of rows whose bytes were read.
    """
    order, ids = tables.order, tables.ids
    n_blocks, n = tables.codes.shape[0], best.shape[0]
    partial = np.empty(_LONG_BATCH, dtype=np.float32)
    flags = np.empty(_LONG_BATCH, dtype=np.uint8)
    sums = np.empty(_LONG_BATCH, dtype=np.int32)
    reach = np.float32(np.inf)
    found = 0
    looked = 0
    for c in clusters:
        last = min(tables.starts[c + 1], tables.starts[c] + limit)
        limit -= last - tables.starts[c]
        begin = tables.starts[c]
        while begin < last:
            # With old scores, most rows are dropped at once. Long batches leave enough rows to prefetch.
            size = min(_BATCH if old.shape[0] == 0 or not np.isfinite(reach) else _LONG_BATCH, last - begin)
            if old.shape[0] == 0:
                partial[:size] = outlook.offsets[c]
                flags[:size] = 1
                flagged = size
            else:
                ahead, cut = outlook.means[c] - outlook.offsets[c], reach + reaches[c]
                flagged = 0
                for i in range(size):
                    partial[i] = slope * old[begin + i] + outlook.offsets[c]
                    flags[i] = abs(partial[i] + ahead) <= cut
                    flagged += flags[i]
            looked += flagged
            block = 0
            while block < n_blocks and flagged * _MANY > size:
                flagged = _read_all(
                    tables, outlook, tolerances[block], block, reach, begin, size, partial, flags, sums
                )
                block += 1
            end = _flagged(begin, size, partial, flags, found, places, scores)
            while block < n_blocks:
                end = _read_some(tables, outlook, tolerances, block, reach, found, end, places, scores)
                block += 1
            for candidate in range(found, end):
                distance = abs(scores[candidate])
                if distance < best[n - 1] and not _is_excluded(
                    excluded, marks, ids[order[places[candidate]]]
                ):
                    at = n - 1
                    while at > 0 and best[at - 1] > distance:
                        best[at] = best[at - 1]
                        at -= 1
                    best[at] = distance
            reach = best[n - 1] + tolerances[n_blocks - 1, 0]
            found = end
            begin += size
    return found, looked


@kernel
def _planned(
    statistics: Statistics, normal: Floats64, bias: float, limit: int, z: float, largest: bool,
    remembers: bool, old_normal: Floats32, old_at_centre: float,
) -> Plan:  # fmt: skip
    """Return the plan of a query. If it `remembers` scores, they are of the old hyperplane (see `search`)."""
    along, at_centre = turned(statistics, normal, bias)
    outlook = _outlook(statistics, along, at_centre)
    densities = _at_edge(statistics, outlook) if largest else outlook
    clusters = _reading(statistics, densities, limit)
    tilt = _slope_of_density(statistics, densities)
    rounding = _rounding(along, at_centre)
    slope = 0.0
    if remembers:
        slope = _slope_of_change(statistics, along, old_normal)
        rest = along - np.float32(slope) * old_normal
        outlook = _outlook(statistics, rest, at_centre - slope * old_at_centre)
        rounding += abs(slope) * _rounding(old_normal, old_at_centre)
    tolerances = _tolerances(statistics, outlook, z, tilt, rounding)
    reaches = np.float32(z) * np.sqrt(outlook.variances) + np.float32(tilt) * outlook.variances
    reaches += np.float32(rounding)
    return Plan(outlook, clusters, tolerances, slope, reaches)


@kernel
def plan(statistics: Statistics, normal: Floats64, bias: float, limit: int, z: float, largest: bool) -> Plan:
    """Return the plan of a query without remembered scores; see `search` for the parameters."""
    return _planned(statistics, normal, bias, limit, z, largest, False, statistics.centre, 0.0)


@kernel
def read(tables: Tables, plan: Plan, excluded: Ints64, n: int, limit: int, old: Floats32) -> Found:
    """Read at most `limit` rows of the planned clusters; see `search` for the other parameters."""
    marks = _marks(excluded)
    best = np.full(n, np.inf, dtype=np.float32)
    places = np.empty(limit + 1, dtype=np.int32)
    scores = np.empty(limit + 1, dtype=np.float32)
    left, looked = _cascade(
        tables, plan.outlook, plan.tolerances, plan.clusters, limit, old, np.float32(plan.slope),
        plan.reaches, excluded, marks, best, places, scores,
    )  # fmt: skip
    error = plan.tolerances[plan.tolerances.shape[0] - 1, 0]
    rows = np.empty(left, dtype=np.int64)
    distances = np.empty(left, dtype=np.float32)
    found = 0
    for candidate in range(left):
        distance = abs(scores[candidate])
        if distance <= best[n - 1] + 2 * error:
            row = tables.order[places[candidate]]
            if not _is_excluded(excluded, marks, tables.ids[row]):
                rows[found] = row
                distances[found] = distance
                found += 1
    return Found(rows[:found], distances[:found], error, looked)


@kernel
def search(  # noqa: D417
    statistics: Statistics, tables: Tables, normal: Floats64, bias: float, excluded: Ints64, n: int,
    limit: int, z: float, largest: bool, old: Floats32, old_normal: Floats32, old_at_centre: float,
) -> Found:  # fmt: skip
    """Read `limit` rows, and find those that may be among the n nearest of them.

    Parameters
    ----------
    statistics : Statistics
    tables : Tables
        Of all rows that the statistics describe.
    normal : array of shape (d,), float64
    bias : float
        The hyperplane.
    excluded : array of shape (n_excluded,), int64, ascending
        Ids of items that must not be returned.
    n : int
        Number of nearest rows to find.
    limit : int
        Number of rows to read.
    z : float
        Quantile z of the tolerance, as in the docstring of this module.
    largest : bool
        Whether all rows are on the negative side of the hyperplane, so that the nearest rows are those with
        the largest scores.
    old : array of shape (N,), float32
        Scores under an earlier hyperplane, by position; an empty array if there is none.
    old_normal : array of shape (d,), float32
    old_at_centre : float
        The earlier hyperplane, as returned by `turned`.
    """
    planned = _planned(
        statistics, normal, bias, limit, z, largest, old.shape[0] > 0, old_normal, old_at_centre
    )
    return read(tables, planned, excluded, n, limit, old)
