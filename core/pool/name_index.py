"""Search for items by words in their names.

Before a classifier exists, file names are often the quickest way to find a first positive item. Names are
stored one after the other as bytes, in blocks, and a search scans all blocks. A million names take about 10
ms if none matches and 200 ms if all match. There is no index of words, so a search term may also match a part
of a word.

Matching ignores case and the encoding of accents: names and words are casefolded and converted to Unicode
normal form C.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from closecall.core.pool.pool import Pool

BLOCK_ITEMS = 65_536
"""Number of names in a block. While a block is scanned for a word, other threads wait."""

_BETWEEN = b"\xff"
"""Separator between names. It does not occur in UTF-8, so a match cannot span two names."""

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Block:
    """Names of consecutive items.

    Parameters
    ----------
    first_row : int
        Row of the first name.
    text : bytes
        The names, each followed by `_BETWEEN`.
    ends : array of shape (n_names,), int64
        End of each name in `text`, including the separator.
    """

    first_row: int
    text: bytes
    ends: NDArray[np.int64]

    def rows(self, words: list[bytes]) -> NDArray[np.int64]:
        """Return, in ascending order, the rows whose names contain all words."""
        n_found = np.zeros(len(self.ends), dtype=np.int64)
        for number, word in enumerate(words):
            places = np.fromiter(_places(self.text, word), dtype=np.int64)
            if not len(places):
                return places
            has_it = np.searchsorted(self.ends, places, side="right")
            n_found[has_it[n_found[has_it] == number]] = number + 1
        return self.first_row + np.flatnonzero(n_found == len(words))


class Names:
    """The names of a pool's items, prepared for search. Immutable, so any number of threads may search them.

    Parameters
    ----------
    pool : Pool
        The pool whose source supplies the names.
    """

    def __init__(self, pool: Pool) -> None:
        self._blocks: tuple[_Block, ...] = ()
        self._take_in(pool)

    def __len__(self) -> int:
        return len(self._ids)

    def extended(self, pool: Pool) -> Self:
        """Return the names of a later snapshot of the same pool. Only the names of new items are read."""
        later = type(self).__new__(type(self))
        later._blocks = self._blocks
        later._take_in(pool, len(self))
        return later

    def search(self, text: str) -> Ids:
        """Return the items whose names contain every word of `text`, or no items if `text` has no words.

        Parameters
        ----------
        text : str
            Words separated by whitespace, in any order.

        Returns
        -------
        array of shape (n_found,), int64
            Item ids, ascending.
        """
        words = sorted(set(map(_searchable, text.split())), key=len, reverse=True)
        if not words:
            return np.empty(0, dtype=np.int64)
        rows = [block.rows(words) for block in self._blocks]
        return np.asarray(self._ids[np.concatenate([np.empty(0, np.int64), *rows])])

    def _take_in(self, pool: Pool, first_row: int = 0) -> None:
        self._ids = pool.ids
        self._blocks += tuple(
            _block(pool, first, min(first + BLOCK_ITEMS, len(pool)))
            for first in range(first_row, len(pool), BLOCK_ITEMS)
        )


def _block(pool: Pool, first_row: int, end_row: int) -> _Block:
    names = list(map(_searchable, pool.source.names(pool.ids[first_row:end_row])))
    ends = np.cumsum([len(name) + len(_BETWEEN) for name in names])
    return _Block(first_row, _BETWEEN.join([*names, b""]), ends)


def _searchable(text: str) -> bytes:
    folded = text.lower() if text.isascii() else normalize("NFC", normalize("NFC", text).casefold())
    return folded.encode("utf-8", errors="replace")


def _places(text: bytes, word: bytes) -> Iterator[int]:
    """Yield the positions of `word` in `text`, without overlaps."""
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + len(word))
