"""Groups of near-duplicates as ids of items.

Ids stay the same when a pool grows, so a log can refer to groups.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.duplicates.files import KINDS, Kind
from closecall.core.duplicates.groups import Groups
from closecall.core.errors import InputError
from closecall.core.selection.reader import PoolRows

Items = NDArray[np.int64]

_UNREADABLE = (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Partition:
    """Groups of one kind. Each group has at least two items, and no item is in two groups.

    Parameters
    ----------
    items : array of shape (n_items,), int64
        Items, group after group, ascending within a group.
    ends : array of shape (n_groups,), int64
        For each group, the index after its last item in `items`.
    """

    items: Items
    ends: Items

    @classmethod
    def of(cls, ids: Items, groups: Groups) -> Self:
        """Convert groups of rows to groups of items, and leave out groups of a single row.

        `ids` has the item of each row, ascending.
        """
        rows = np.flatnonzero(groups.sizes[groups.leaders] > 1)
        rows = rows[np.argsort(groups.leaders[rows], kind="stable")]
        return cls(np.asarray(ids[rows], dtype=np.int64), np.cumsum(groups.sizes[groups.sizes > 1]))

    def members(self, item: int) -> Items:
        """Return all items of the group that contains `item`, ascending; empty if no group contains it."""
        place = int(np.searchsorted(self._ascending, item))
        if place == len(self._ascending) or self._ascending[place] != item:
            return self.items[:0]
        group = self._groups[place]
        return self.items[self._starts[group] : self.ends[group]]

    def members_of(self, items: Sequence[int]) -> Items:
        """Return, ascending, all items of the groups that contain any of `items`."""
        wanted = np.asarray(items, dtype=np.int64)
        places = np.searchsorted(self._ascending, wanted)
        there = self._ascending.take(places, mode="clip") == wanted if len(self.items) else places < 0
        groups = np.unique(self._groups[places[there]])
        parts = [self.items[self._starts[group] : self.ends[group]] for group in groups]
        return np.sort(np.concatenate(parts)) if parts else self.items[:0]

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.argsort(self.items)

    @cached_property
    def _ascending(self) -> Items:
        return self.items[self._order]

    @cached_property
    def _groups(self) -> NDArray[np.intp]:
        """The index of each item's group, in the order of `_ascending`."""
        return np.searchsorted(self.ends, self._order, side="right")

    @cached_property
    def _starts(self) -> Items:
        return np.concatenate([[0], self.ends[:-1]]).astype(np.int64)


class ItemGroups:
    """The groups of a pool's items, of one kind or of both.

    Two items *repeat* each other if they are in the same group, of either kind. This relation is not
    transitive.

    Parameters
    ----------
    partitions : dict of {"near", "bursts"} to Partition
        The groups by kind. Kinds without groups are left out.
    """

    def __init__(self, partitions: Mapping[Kind, Partition]) -> None:
        self._partitions = {kind: partitions[kind] for kind in KINDS if kind in partitions}

    @classmethod
    def of(cls, pool: PoolRows, found: Mapping[Kind, Groups]) -> Self:
        """Return the groups that were found among the first rows of `pool`."""
        parted = {kind: Partition.of(pool.ids, groups) for kind, groups in found.items()}
        return cls({kind: partition for kind, partition in parted.items() if len(partition.items)})

    @property
    def n_groups(self) -> int:
        """Number of groups of all kinds."""
        return sum(len(partition.ends) for partition in self._partitions.values())

    @cached_property
    def n_items(self) -> int:
        """Number of items that are in a group."""
        return len(self._all([partition.items for partition in self._partitions.values()]))

    @cached_property
    def digest(self) -> str:
        """Digest of the groups: 32 hexadecimal digits."""
        whole = blake2b(digest_size=16)
        for name, array in self._arrays().items():
            whole.update(f"{name} {len(array)} ".encode())
            whole.update(array.tobytes())
        return whole.hexdigest()

    def group(self, item: int) -> tuple[Kind, Items] | None:
        """Return the kind of the item's group, and its items in ascending order.

        If the item has a burst and near-duplicates, return the burst. If it has no group, return None.
        """
        found = ((kind, partition.members(item)) for kind, partition in self._partitions.items())
        return next(((kind, members) for kind, members in found if len(members)), None)

    def members(self, item: int) -> Items:
        """Return all items of the groups that contain `item`, ascending; empty if no group contains it."""
        return self._all([partition.members(item) for partition in self._partitions.values()])

    def members_of(self, items: Sequence[int]) -> Items:
        """Return, ascending, all items of the groups that contain any of `items`."""
        return self._all([partition.members_of(items) for partition in self._partitions.values()])

    def to_bytes(self) -> bytes:
        """Return the groups in a form that `from_bytes` reads."""
        stream = io.BytesIO()
        differences: dict[str, Any] = {
            name: np.diff(array, prepend=0) for name, array in self._arrays().items()
        }
        np.savez(stream, **differences)
        return zlib.compress(stream.getvalue(), 1)  # differences are compressed faster, and to half the size

    @classmethod
    def from_bytes(cls, content: bytes, digest: str) -> Self:
        """Read groups back from the bytes that `to_bytes` returned.

        Raises
        ------
        InputError
            If the content is damaged, or these are not the groups with this digest.
        """
        try:
            with np.load(io.BytesIO(zlib.decompress(content)), allow_pickle=False) as stored:
                arrays = {name: np.cumsum(stored[name], dtype=np.int64) for name in stored.files}
            kinds = [kind for kind in KINDS if f"{kind}_items" in arrays]
            found = cls({kind: Partition(arrays[f"{kind}_items"], arrays[f"{kind}_ends"]) for kind in kinds})
        except _UNREADABLE as error:
            raise InputError(f"the groups of near-duplicates {digest} are damaged") from error
        if found.digest != digest:
            raise InputError(f"the groups of near-duplicates {digest} are damaged")
        return found

    def _arrays(self) -> dict[str, NDArray[np.int64]]:
        return {
            f"{kind}_{part}": np.asarray(getattr(partition, part), dtype="<i8")
            for kind, partition in self._partitions.items()
            for part in ("items", "ends")
        }

    @staticmethod
    def _all(parts: Sequence[Items]) -> Items:
        """Return the union of arrays, ascending. If there is only one array, return it unchanged."""
        if len(parts) == 1:
            return parts[0]
        return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
