"""The division of a source into the parts of a pool, and of each part into chunks.

See `core.pool.build`. A division depends only on the source and on the parts that are already published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.core.features import bytes_an_item
from closecall.core.pool.manifest import BYTE, Manifest
from closecall.core.quantization.byte_rows import bytes_a_row
from closecall.core.sources import Source

FIRST_SEGMENT_ROWS = 100
SEGMENT_GROWTH = 3
"""Items in the next segment, as a multiple of the items processed so far."""
SEGMENT_ROWS = 50_000
SEGMENT_BYTES = 1 << 27
"""Maximum size of a segment in bytes. A segment stays in memory while it is filled."""
SLOW_SEGMENT_ROWS, SLOW_SEGMENT_GROWTH = 2_000, 0.5
"""Maximum rows and growth of segments for a source that `is_slow`. An interrupted build then loses at most a
third of its work.
"""
BYTE_SEGMENT_ROWS = 2_000_000
"""Maximum rows of a segment of a byte pool."""
BYTE_SEGMENT_BYTES = 1 << 30
"""Maximum size of such a segment in bytes. It stays in memory, twice, while it is filled and sorted."""
CODEBOOK_ROWS, SLOW_CODEBOOK_ROWS = 1 << 18, 20_000
"""Maximum number of evenly spaced items to which the codebook of a byte pool is fitted. The features of these
items are computed twice, so there are fewer of them if the source `is_slow`.
"""
CHUNK_ITEMS = 1_000
SLOW_CHUNK_ITEMS = 1
CHUNKS_A_SEGMENT = 8
"""Minimum number of chunks per segment, so that a small segment keeps several cores busy.

The division into chunks does not affect the features.
"""


class Chunk(NamedTuple):
    """Items whose features are computed together."""

    ids: NDArray[np.int64]
    is_held_out: bool = False


@dataclass(frozen=True, eq=False)
class Task:
    """A part of the pool that remains to be built.

    Parameters
    ----------
    ids : array of shape (n,), int64
        The items of the part.
    stop : int
        See `core.pool.manifest.Part`.
    most_at_once : int
        Maximum number of items whose features are computed together.
    last : bool
        Whether the pool is complete with this part.
    """

    ids: NDArray[np.int64]
    stop: int
    most_at_once: int
    last: bool = False

    def chunks(self) -> Iterator[Chunk]:
        """Yield the items in chunks of at most `most_at_once`."""
        size = max(1, min(self.most_at_once, -(-len(self.ids) // CHUNKS_A_SEGMENT)))
        for first in range(0, len(self.ids), size):
            yield Chunk(self.ids[first : first + size], is_held_out=self.stop == 0)


def tasks(source: Source, manifest: Manifest) -> Iterator[Task]:
    """Yield the remaining tasks in order. They depend only on the source and on the published parts."""
    held_out = source.held_out()
    awaited = manifest.held_out is None and len(held_out) > 0
    at_once = SLOW_CHUNK_ITEMS if source.is_slow else CHUNK_ITEMS
    growth = SLOW_SEGMENT_GROWTH if source.is_slow else SEGMENT_GROWTH
    most = _most_rows(source, manifest)
    through = sum(part.rows + part.unreadable for part in manifest.segments)
    start, last = manifest.next_item, False
    while not last:
        size = min(most, max(FIRST_SEGMENT_ROWS, int(growth * through)))
        ids, stop = _not_held_out(start, size, len(source), held_out)
        last = stop == len(source)
        if awaited and (last or through >= len(held_out)):
            yield Task(held_out, 0, at_once)
            awaited = False
        yield Task(ids, stop, at_once, last)
        start = stop
        through += len(ids)


def codebook_sample(source: Source) -> Task:
    """Return the items to which the codebook of a byte pool is fitted."""
    most = SLOW_CODEBOOK_ROWS if source.is_slow else CODEBOOK_ROWS
    spaced = np.linspace(0, len(source) - 1, min(len(source), most)).astype(np.int64)
    ids = np.setdiff1d(spaced, source.held_out())
    return Task(ids, len(source), SLOW_CHUNK_ITEMS if source.is_slow else CHUNK_ITEMS)


def _most_rows(source: Source, manifest: Manifest) -> int:
    """Return the maximum number of rows of a segment."""
    if manifest.layout == BYTE:
        most, each, size = BYTE_SEGMENT_ROWS, float(bytes_a_row(manifest.n_features)), BYTE_SEGMENT_BYTES
    else:
        most, each, size = SEGMENT_ROWS, bytes_an_item(source, manifest.dtype), SEGMENT_BYTES
    if source.is_slow:
        most = SLOW_SEGMENT_ROWS
    return max(1, min(most, int(size / each)))


def _not_held_out(
    start: int, n: int, n_items: int, held_out: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Return the first n ids from `start` on that are not held out, and the next such id.

    If there is no next one, the second value is `n_items`.
    """
    found = [np.empty(0, dtype=np.int64)]
    while n > 0 and start < n_items:
        ids = np.arange(start, min(start + n, n_items), dtype=np.int64)
        start += len(ids)
        found.append(ids[~np.isin(ids, held_out)])
        n -= len(found[-1])
    while start < n_items and held_out[np.searchsorted(held_out, start) :][:1].tolist() == [start]:
        start += 1
    return np.concatenate(found), start
