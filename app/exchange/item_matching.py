"""Find the item of a pool that a file refers to, by id or by name.

The id is used if the file gives no name, or if the item with this id has the given name. Otherwise the name
is used. If no item has exactly this name, folders at the beginning of the given path are dropped until the
rest is the name of one item: "/home/ada/seal/7.jpg" matches the item "seal/7.jpg". A file name without a
folder also matches an item in any folder, if only one item has this file name.

In each of these steps, a name that no item has exactly is compared in Unicode normal form C, because some
systems decompose accented letters. It then matches only if one item has it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.sources import Source
from closecall.storage.claims import Claim
from closecall.storage.tabular import shown

LISTED = 5
"""Maximum number of unmatched lines that are listed."""

_BLOCK = 65_536
_UPLOADED = re.compile("[0-9a-f]{8}-")  # Label Studio prepends this to the names of uploaded files


@dataclass
class Unmatched:
    """The number of lines that match no item, and a sentence about each of the first `LISTED` such lines."""

    number: int = 0
    listed: list[str] = field(default_factory=list)

    def add(self, claim: Claim, reason: Callable[[], str]) -> None:
        """Count a line, and list it with `reason` unless `LISTED` lines are listed already."""
        self.number += 1
        if len(self.listed) < LISTED:
            self.listed.append(f"{claim.place}: {reason()}")


class Items:
    """The items of a pool, found by id or name.

    Parameters
    ----------
    pool : Pool
        Its source provides the names, which are read when the first name is looked up.

    Attributes
    ----------
    unmatched : Unmatched
        The lines for which no item was found.
    by_end : int
        Number of names that were matched by the end of a path, or by the file name alone.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._source = pool.source
        self._can_be_labeled = pool.can_have_rows()
        self._names: _Index | None = None
        self._files: _Index | None = None
        self._found: dict[str, list[int]] = {}
        self.unmatched = Unmatched()
        self.by_end = 0

    def find(self, claim: Claim) -> int | None:
        """Return the item that a claim (a statement in the file) is about.

        If there is no such item, or it can't be labeled, count the claim as unmatched and return None.
        """
        item = claim.item
        if claim.name is not None and not (item is not None and self.is_called(item, claim.name)):
            name, named = claim.name, self._named(claim.name)
            if len(named) != 1:
                number = "several items are" if named else "no item is"
                self.unmatched.add(claim, lambda: f"{number} called {shown(name)}")
                return None
            item = named[0]
        assert item is not None
        if item < len(self._can_be_labeled) and self._can_be_labeled[item]:
            return item
        found = item
        self.unmatched.add(claim, lambda: self._why_not(found))
        return None

    def is_called(self, item: int, name: str) -> bool:
        """Return whether `name` is the item's complete name."""
        return item < len(self._source) and self._source.name(item) == name

    def _why_not(self, item: int) -> str:
        if item >= len(self._source):
            return f"there is no item {shown(item)}: ids are 0 to {len(self._source) - 1}"
        if item in self._source.held_out():
            return f"item {item} is held out to measure accuracy, and is not labeled"
        return f"item {item} can't be read"

    def _named(self, name: str) -> list[int]:
        """Return a list with the item of this name.

        The list is empty if no item has this name, and has two items if the name is ambiguous.
        """
        if name not in self._found:
            if len(self._found) >= _BLOCK:
                self._found.clear()
            self._found[name] = self._search(name)
        return self._found[name]

    def _search(self, name: str) -> list[int]:
        if self._names is None:
            self._names = _Index(self._source, lambda name: name)
        found = self._names.find(name)
        if len(found):
            return found
        path = _path(name)
        ends = ["/".join(path[first:]) for first in range(len(path))]
        bare = path[0] if len(path) == 1 else None
        if path and _UPLOADED.match(path[-1]):
            bare = path[-1][9:]
            ends.append(bare)
        for end in ends:
            if len(found := self._names.find(end)) == 1:
                self.by_end += 1
                return found
        if bare is None:
            return []
        if self._files is None:
            self._files = _Index(self._source, _file_name)
        found = self._files.find(bare)
        self.by_end += len(found) == 1
        return found


def _path(name: str) -> list[str]:
    """Return the path components of a name: a plain path, a URL, or Label Studio's address of a file."""
    path = name
    if "?d=" in name or "://" in name:
        with suppress(ValueError):  # not a URL, though it looks like one
            parts = urlsplit(name)
            path = unquote(parts.query.partition("d=")[2] or parts.path)
    return [piece for piece in path.replace("\\", "/").split("/") if piece]


def _file_name(name: str) -> str:
    return name.rpartition("/")[2]


class _Index:
    """An index of items by their names: as they are, and in normal form C."""

    def __init__(self, source: Source, key: Callable[[str], str]) -> None:
        self._source, self._key = source, key
        self._exact = _Hashes(source, key)
        self._composed: _Hashes | None = None

    def find(self, key: str) -> list[int]:
        """Return the items with exactly this key or, if there are none, with this key in normal form C.

        The result has at most two items: two already show that the key is ambiguous.
        """
        found = self._exact.find(key)
        if found or key.isascii():
            return found
        if self._composed is None:
            self._composed = _Hashes(self._source, lambda name: normalize("NFC", self._key(name)))
        return self._composed.find(normalize("NFC", key))


class _Hashes:
    """An index of items by the hashes of their names, with 16 bytes per item for names of any length."""

    def __init__(self, source: Source, key: Callable[[str], str]) -> None:
        self._source, self._key = source, key
        hashes = np.fromiter(map(_hash, map(key, _all_names(source))), dtype=np.int64, count=len(source))
        self._items = np.argsort(hashes, kind="stable")
        self._hashes: NDArray[np.int64] = hashes[self._items]

    def find(self, key: str) -> list[int]:
        """Return the items with this key, but at most two."""
        wanted = _hash(key)
        first, last = np.searchsorted(self._hashes, [wanted, wanted + 1])
        found = []
        for item in self._items[first:last].tolist():
            if self._key(self._source.name(item)) == key:
                found.append(item)
                if len(found) == 2:
                    break
        return found


def _all_names(source: Source) -> Iterable[str]:
    for first in range(0, len(source), _BLOCK):
        yield from source.names(np.arange(first, min(first + _BLOCK, len(source)), dtype=np.int64))


def _hash(name: str) -> int:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) >> 1


def require_matches(items: Items, matched: int, file: object) -> None:
    """Check that the file is about some item of the pool.

    Raises
    ------
    InputError
        If there are only unmatched lines. The message gives the reason for the first line.
    """
    if not matched and items.unmatched.number:
        raise InputError(f"{file} is about none of this project's items; {items.unmatched.listed[0]}")
