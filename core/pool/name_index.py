"""Items by their names: every item of a pool whose name contains some words.

Before a classifier exists, what a file is called is often the quickest way to a first positive. Names are
kept as bytes in blocks, one after the other, and a search runs through them: of a million names in a
hundredth of a second where nothing is found, in two tenths where all of them match. There is nothing to look
up, so words may be parts of words, and the index is the text itself.

Letters match whether large or small, and however accents are encoded: both names and words are casefolded
and brought into Unicode's normal form C.
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
"""Names searched at a time, without a pause for other threads."""

_BETWEEN = b"\xff"
"""Stands between names: no text in UTF-8 contains it, so no word reaches from one name into the next."""

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Block:
    """The names of items that follow each other.

    Parameters
    ----------
    first_row : int
        The row of the first of them.
    text : bytes
        The names, each followed by `_BETWEEN`.
    ends : array of shape (n_names,), int64
        Where each of them ends.
    """

    first_row: int
    text: bytes
    ends: NDArray[np.int64]

    def rows(self, words: list[bytes]) -> NDArray[np.int64]:
        """The rows whose names contain all words, ascending."""
        n_found = np.zeros(len(self.ends), dtype=np.int64)
        for number, word in enumerate(words):
            places = np.fromiter(_places(self.text, word), dtype=np.int64)
            if not len(places):
                return places
            has_it = np.searchsorted(self.ends, places, side="right")
            n_found[has_it[n_found[has_it] == number]] = number + 1
        return self.first_row + np.flatnonzero(n_found == len(words))


class Names:
    """The names of a pool's items. It never changes, so any number of threads may search one.

    Parameters
    ----------
    pool : Pool
        Its source tells the names.
    """

    def __init__(self, pool: Pool) -> None:
        self._blocks: tuple[_Block, ...] = ()
        self._take_in(pool)

    def __len__(self) -> int:
        return len(self._ids)

    def extended(self, pool: Pool) -> Self:
        """The names of a later snapshot of the same pool; only those of its new items are asked for."""
        later = type(self).__new__(type(self))
        later._blocks = self._blocks
        later._take_in(pool, len(self))
        return later

    def search(self, text: str) -> Ids:
        """The items whose names contain every word of `text`, ascending; none where it has no word.

        Parameters
        ----------
        text : str
            Words, parted by blanks, in any order.

        Returns
        -------
        array of shape (n_found,), int64
            Item ids.
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
    """Where `word` begins in `text`."""
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + len(word))
