"""What a search structure is: built from codes once, asked for the rows whose codes are like a query's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.hashing.base import Codes

Rows = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]


class SearchStructure(ABC):
    """Finds rows by their codes; immutable, and queries may run in several threads at once.

    A structure keeps what its queries need and not the codes themselves. What it is depends on the codes and
    on the parameters it was built with, so one built over more rows is the same whether or not there was one
    over fewer.
    """

    name: ClassVar[str]

    n_rows: int
    n_functions: int
    bits: int

    @classmethod
    @abstractmethod
    def build(cls, codes: Codes, *, n_candidates: int, n_bytes: int, seed: int) -> Self:
        """A structure over `codes`.

        Parameters
        ----------
        codes : Codes
            One code a row.
        n_candidates : int
            How many candidates a query will usually want.
        n_bytes : int
            About how much memory the structure may take.
        seed : int
            Which functions are used where.
        """

    @abstractmethod
    def candidates(self, query: Codes, n_candidates: int, seed: int = 0) -> Rows:
        """Rows whose codes are like the query's, each once, of shape (min(n_candidates, n_rows),), int64.

        Parameters
        ----------
        query : Codes
            One code, of the same functions.
        n_candidates : int
            How many rows.
        seed : int
            Settles which rows are taken where there are more, equally like the query, than are wanted.
        """

    @abstractmethod
    def arrays(self) -> Arrays:
        """All there is to it, by name."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The structure that gave these `arrays`."""

    def _check(self, query: Codes) -> None:
        if (len(query), query.n_functions, query.bits) != (1, self.n_functions, self.bits):
            raise InputError(
                f"a query needs 1 code of {self.n_functions} functions of {self.bits} bits, "
                f"got {len(query)} of {query.n_functions} functions of {query.bits} bits"
            )


def dealt(n_functions: int, n_hands: int, size: int, seed: int) -> NDArray[np.int64]:
    """Functions for each of `n_hands` tables or orders, of shape (n_hands, min(size, n_functions)).

    They are dealt from a shuffled deck, shuffled again when it runs out, so that all functions are used
    equally often, none twice in one hand, and no function by two hands as long as there are enough.
    """
    rng = np.random.default_rng(seed)
    size = min(size, n_functions)
    hands = np.empty((n_hands, size), dtype=np.int64)
    deck = rng.permutation(n_functions)
    for hand in hands:
        if len(deck) < size:
            fresh = rng.permutation(n_functions)
            # A hand that takes the old deck's last cards must not get one of them again.
            deck = np.concatenate([deck, fresh[~np.isin(fresh, deck)], fresh[np.isin(fresh, deck)]])
        hand[:], deck = deck[:size], deck[size:]
    return hands
