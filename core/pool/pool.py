"""A pool on disk: features, ids and true classes of its items, and the source that displays them.

A pool is a folder. Its features are immutable segments of raw (not centered) unit-norm rows, dense or sparse.
They are mapped into memory, so any number of processes share one copy in the page cache and a pool needs
almost no memory of its own. The manifest (`core.pool.manifest`) names the files that belong to the pool; the
builder (`core.pool.build`) replaces the manifest whenever another segment is on disk. A `Pool` is a snapshot
of the folder. A snapshot never changes as the folder grows, and its rows are always the first rows of every
later snapshot.

A *row* is a position 0 … N − 1 in the features; an *item id* is a position in the order of the source.
Held-out and unreadable items have ids but no rows. `Pool.ids` has the id of each row, in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import PlacedRows, Rows
from closecall.core.pool.contents import Contents
from closecall.core.pool.held_out import HeldOut
from closecall.core.pool.item_ids import Ids, ItemIds, whole_numbers
from closecall.core.pool.manifest import BYTE, SPARSE
from closecall.core.pool.segment_rows import SegmentRows
from closecall.core.quantization.byte_rows import ByteRows
from closecall.core.sources import Problem, Source
from closecall.core.sources.registry import feature_kind, holds_texts, item_word

if TYPE_CHECKING:
    from closecall.core.accelerator.kept import KeptRows
    from closecall.core.selection.reader import Crew


class Pool:
    """A snapshot of a pool's rows, made by `Pool.open`; safe to share between threads.

    Attributes
    ----------
    path : Path
    version : int
        Number of segments in this snapshot.
    n_features : int
    ids : array of shape (n_rows,), int64
        Item id of each row, ascending; read-only.
    classes : tuple of str
        Class names that `truth` indexes; empty if the truth is unknown.
    title : str
        Display name of the source.
    dtype : numpy dtype
        Type of the features on disk: float32, float16, or int8 for a byte pool. All methods return features
        as float32.
    codebook : Codebook or None
        The codebook of a byte pool, once it is published.
    is_sparse : bool
        Whether features are `csr_array`s instead of arrays, as for texts and edge sets.
    holds_texts : bool
        Whether items are texts instead of images.
    item_word : str
        Display name of one item: "image", "text", "vector" or "set".
    kept : KeptRows or None
        The rows in the memory of a device that scans them, if there is one; later snapshots share it.
    complete : bool
        Whether the snapshot already has all rows of the pool. More rows can come only if the source grows.
    n_unreadable : int
        Number of items that could not be read until now.
    expected : int
        Number of rows of the complete pool, if all remaining items can be read.
    crew : Crew or None
        The workers that help to search this snapshot, and later ones; see `with_crew`.
    """

    crew: Crew | None

    def __init__(self, contents: Contents, other: Pool | None = None) -> None:
        manifest = contents.manifest
        self.path = contents.path
        self.version = len(contents.segments)
        self.n_features = manifest.n_features
        self.ids = contents.ids
        self.classes = manifest.classes
        self.title = manifest.title
        self.dtype = np.dtype(np.int8 if manifest.layout == BYTE else manifest.dtype)
        self.codebook = contents.codebook
        self.is_sparse = manifest.layout == SPARSE
        self.holds_texts = holds_texts(manifest.source)
        self.item_word = item_word(manifest.source)
        self.complete = manifest.complete
        self.n_unreadable = sum(part.unreadable for part in manifest.parts)
        unreadable = sum(part.unreadable for part in manifest.segments)
        self.expected = manifest.items - manifest.n_held_out - unreadable
        self.crew = other.crew if other is not None else None
        self.kept: KeptRows | None = other.kept if other is not None else None
        self._contents = contents
        self._rows = SegmentRows(contents.segments, self.n_features, self.dtype, is_sparse=self.is_sparse)
        self._item_ids = ItemIds(self.ids)

    @classmethod
    def open(cls, path: Path | str, version: int | None = None) -> Pool:
        """Open the pool in the folder `path`: the current snapshot, or the snapshot with `version` segments.

        A pool whose builder has just started has no rows yet.

        Raises
        ------
        InputError
            If there is no pool, if it is damaged or of a newer format, or if it has fewer than `version`
            segments.
        """
        return cls(Contents.read(Path(path), version))

    def refreshed(self) -> Pool:
        """Return the newest snapshot. If nothing has changed, this takes microseconds and returns `self`.

        Raises
        ------
        InputError
            If the pool is damaged or was replaced by another pool.
        """
        if self._contents.is_current:
            return self
        return Pool(Contents.read(self.path, earlier=self._contents), self)

    def prefix(self, n_rows: int) -> Pool:
        """Return a snapshot with only the first `n_rows` rows. Its method `refreshed` returns the whole pool.

        Raises
        ------
        InputError
            If this snapshot has fewer rows.
        """
        if not 0 <= n_rows <= len(self):
            raise InputError(f"n_rows must be from 0 to {len(self)} in the pool {self.path}, got {n_rows}")
        return self if n_rows == len(self) else Pool(self._contents.prefix(n_rows), self)

    def with_crew(self, crew: Crew | None) -> Pool:
        """Return this snapshot, which workers help to search; see `core.workers.crew`."""
        helped = copy(self)
        helped.crew = crew
        return helped

    def kept_on(self, kept: KeptRows) -> Pool:
        """Return the same snapshot, scanned by a device as soon as `keep_up` has sent the rows to it.

        Sparse rows can't be sent, so a sparse pool is returned as it is.
        """
        if self.is_sparse:
            return self
        own = copy(self)
        own.kept = kept
        return own

    def keep_up(self, go_on: Callable[[], None] = lambda: None) -> None:
        """Send the rows to the device that it doesn't have yet; see `core.accelerator.kept.KeptRows`."""
        if self.kept is not None:
            self.kept.keep_up([(segment.first_row, segment.X) for segment in self._rows.segments], go_on)

    def alone(self) -> Pool:
        """Return the same snapshot, without workers and without a device: this process searches it.

        The last bits of scores may depend on a device, but not if the pool is alone.
        """
        if self.crew is None and self.kept is None:
            return self
        own = copy(self)
        own.crew = own.kept = None
        return own

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Pool({str(self.path)!r}, version={self.version}, shape=({len(self)}, {self.n_features}))"

    def scores(self, hyperplane: Hyperplane) -> NDArray[np.float32]:
        """Return the signed margins wᵀx + b of all rows, of shape (n_rows,), float32; see `score_blocks`."""
        out = np.empty(len(self), dtype=np.float32)
        for first, scores in self.score_blocks([hyperplane]):
            out[first : first + scores.shape[1]] = scores[0]
        return out

    def score_blocks(
        self, hyperplanes: Sequence[Hyperplane], segments: Collection[int] | None = None
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield the signed margins of all rows under k hyperplanes, in one pass and bounded memory.

        Blocks are computed directly from the mapped files (see `core.linear.scoring`), or by the device that
        has the rows. If `segments` are given, only their rows are scored, from the files; see
        `segment_starts`.

        Yields
        ------
        first : int
            First row of the block.
        scores : array of shape (k, m), float32
            wᵀx + b of the m rows of the block under each hyperplane.

        Raises
        ------
        InputError
            If a hyperplane and the pool have different numbers of features.
        """
        for hyperplane in hyperplanes:
            if len(hyperplane.normal) != self.n_features:
                raise InputError(
                    f"the hyperplane has {len(hyperplane.normal)} features, the pool {self.path} "
                    f"has {self.n_features}"
                )
        if self.kept is None or segments is not None or not hyperplanes:
            return self._rows.score_blocks(hyperplanes, segments)
        return self._scored_by_device(self.kept, hyperplanes)

    def _scored_by_device(
        self, kept: KeptRows, hyperplanes: Sequence[Hyperplane]
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield the blocks of `score_blocks`; rows that the device lacks are scored by the processors."""
        done = 0
        for first, scores in kept.score_blocks(hyperplanes, len(self)):
            yield first, scores
            done = first + scores.shape[1]
        yield from self._rows.score_blocks(hyperplanes, start_row=done)

    def rows(self, rows: ArrayLike) -> Rows:
        """Return the features of these rows, of shape (n, n_features), in the given order.

        Raises
        ------
        InputError
            If a row does not exist.
        """
        wanted = whole_numbers(rows, "rows")
        if wanted.size and (wanted.min() < 0 or wanted.max() >= len(self)):
            bad = wanted[(wanted < 0) | (wanted >= len(self))][0]
            raise InputError(f"rows must be from 0 to {len(self) - 1} in the pool {self.path}, got {bad}")
        return self._rows.gathered(wanted)

    def placed_rows_of(self, ids: ArrayLike) -> PlacedRows:
        """Return the memory addresses of the dense rows of items. Rows that are not float32 are copied.

        Raises
        ------
        InputError
            If an item has no row in this snapshot.
        """
        return self._rows.placed(self.row_of(ids))

    def rows_of(self, ids: ArrayLike) -> Rows:
        """Return the features of items in the order of `ids`, of shape (n, n_features); see `row_of`."""
        return self.rows(self.row_of(ids))

    def have_rows(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """For each of the items `ids`, return whether it has a row; shape (n,). See `has_row`."""
        return self._item_ids.find(whole_numbers(ids, "ids"))[1]

    def has_row(self, item: int) -> bool:
        """Return whether the item has a row in this snapshot. Held-out and unreadable items have no row."""
        return self._item_ids.has(item)

    def awaits(self, item: int) -> bool:
        """Return whether the pool is still being built, and may get a row of the item."""
        manifest = self._contents.manifest
        is_ahead = not self.complete and manifest.next_item <= item < manifest.items
        return is_ahead and item not in self.held_out.ids

    def n_rows_of(self, version: int) -> int:
        """Return the number of rows of the snapshot with `version` segments, at most `len(self)`."""
        segments = self._contents.manifest.segments[: max(version, 0)]
        return min(sum(segment.rows for segment in segments), len(self))

    def can_have_rows(self) -> NDArray[np.bool_]:
        """For each item of the source, return whether it has a row or may still get a row; shape (n_items,).

        If the pool is complete, no item gets another row. Held-out and unreadable items never have rows.

        Raises
        ------
        InputError
            If the source is missing or has changed.
        """
        can = np.zeros(len(self.source), dtype=np.bool_)
        if not self.complete:
            can[self._contents.manifest.next_item :] = True
            can[self.source.held_out()] = False
        can[self.ids] = True
        return can

    def row_of(self, ids: ArrayLike) -> Ids:
        """Return the row numbers of the items `ids`, of shape (n,).

        Raises
        ------
        InputError
            If an item has no row in this snapshot.
        """
        wanted = whole_numbers(ids, "ids")
        rows, found = self._item_ids.find(wanted)
        if not found.all():
            raise InputError(self._absent(int(wanted[~found][0])))
        return rows

    def truth(self, ids: ArrayLike) -> NDArray[np.int16]:
        """For each of the items `ids`, return the index of its class in `classes`, or −1 if unknown.

        The result has shape (n,) and is int16. Held-out items are allowed.

        Raises
        ------
        InputError
            If an item is neither in this snapshot nor held out.
        """
        wanted = whole_numbers(ids, "ids")
        rows, found = self._item_ids.find(wanted)
        out = np.empty(len(wanted), dtype=np.int16)
        out[found] = self._contents.truth[rows[found]]
        if not found.all():
            others = wanted[~found]
            places, held_out = ItemIds(self.held_out.ids).find(others)
            if not held_out.all():
                raise InputError(self._absent(int(others[~held_out][0])))
            out[~found] = self.held_out.truth[places]
        return out

    def blocks(self, start_row: int = 0) -> Iterator[tuple[int, Rows]]:
        """Yield blocks of rows from `start_row` on, as (first row, features of shape (m, n_features)).

        float32 pools, dense or sparse, yield their mapped segments without copying, read-only. Other pools
        yield copies of at most 8,192 rows.
        """
        return self._rows.blocks(start_row)

    @property
    def segment_starts(self) -> Ids:
        """First row of each segment that has rows, ascending. Segments are numbered in this order, from 0."""
        return self._rows.starts

    @property
    def byte_segments(self) -> tuple[tuple[int, ByteRows], ...]:
        """The segments of a byte pool, as (first row, rows) in order. Other pools have none."""
        return self._rows.byte_segments

    @property
    def held_out(self) -> HeldOut:
        """The held-out items; empty until the builder has published them."""
        return self._contents.held_out

    @property
    def source(self) -> Source:
        """Source of the items, which can display any of them.

        Snapshots made by `refreshed` and `prefix` share this object until the pool gets another source.

        Raises
        ------
        InputError
            If the source is missing or has changed.
        """
        return self._contents.source.opened

    @cached_property
    def feature_kind(self) -> str:
        """Kind of the features; see `Source.feature_kind`. The source's files are not needed.

        Raises
        ------
        InputError
            If the vocabulary of texts is missing or damaged.
        """
        source = self._contents.source
        return feature_kind(source.spec, source.folder)

    def problems(self) -> list[Problem]:
        """Return the items that could not be read, with the reasons, in order of their ids.

        Raises
        ------
        InputError
            If a file that lists problems is damaged.
        """
        return self._contents.problems()

    def check(self, deep: bool = False) -> None:
        """Compare the sizes of the snapshot's files with the manifest. If `deep`, also compare the checksums.

        Raises
        ------
        InputError
            If a file is missing or damaged; the message names it.
        """
        self._contents.check(deep=deep)

    @property
    def feature_bytes(self) -> int:
        """Size of the features on disk in bytes. A segment that `prefix` has shortened counts in full."""
        return self._contents.feature_bytes

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify these rows; the same for equal snapshots of a pool."""
        return self._contents.digest

    def _absent(self, item: int) -> str:
        reason = "held out, unreadable, or not yet in this snapshot"
        if not 0 <= item < self._contents.manifest.items:
            reason = f"ids are 0 to {self._contents.manifest.items - 1}"
        return f"item {item} has no row in the pool {self.path}: {reason}"
