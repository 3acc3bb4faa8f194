"""What a search structure is: built from codes once, asked for the rows whose codes are likest a query's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays, Codes, QueryCode
from closecall.core.hashing.reconstruction import Moments
from closecall.core.search.ranking import Measure

Rows = NDArray[np.int64]


class Found(NamedTuple):
    """A structure's answer.

    Parameters
    ----------
    rows : array of shape (n,), int64
        Each row once, the likest first.
    compared : int
        How many rows' whole codes were compared with the query's for it.
    """

    rows: Rows
    compared: int


class SearchStructure(ABC):
    """Finds rows by their codes; immutable, and queries may run in several threads at once.

    A structure keeps the codes, in an order that suits its queries. What it is depends on the codes and on
    the parameters it was built with, so one built over more rows is the same whether or not there was one
    over fewer.
    """

    name: ClassVar[str]

    codes_: Codes

    @classmethod
    @abstractmethod
    def build(
        cls, codes: Codes, moments: Moments | None, *, n_compared: int, n_bytes: int, seed: int
    ) -> Self:
        """A structure over `codes`.

        Parameters
        ----------
        codes : Codes
            One code a row.
        moments : Moments or None
            Of the bits, where the hash family knows them.
        n_compared : int
            How many whole codes a query will usually compare.
        n_bytes : int
            About how much memory the structure may take beside the codes.
        seed : int
            Which functions are used where.
        """

    @abstractmethod
    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """The rows whose codes are likest the query's, as far as is looked.

        Parameters
        ----------
        query : QueryCode
            Of the same functions.
        n : int
            How many rows.
        n_compared : int
            How many rows' whole codes are compared with the query's; at least n are, if there are so many.
        measure : "weights", "disagreements" or "difference"
            See `core.search.ranking`.

        Returns
        -------
        Found
            min(n, n_rows) rows; fewer only where the structure says how far it looks at most.
        """

    def candidates(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Rows:
        """The rows of `found`."""
        return self.found(query, n, n_compared=n_compared, measure=measure).rows

    @property
    def n_bytes(self) -> int:
        """How much memory it takes, codes and all."""
        return sum(array.nbytes for array in self.arrays().values())

    def codes_by_row(self) -> Codes:
        """The codes in the order of the rows."""
        return self.codes_

    @abstractmethod
    def arrays(self) -> Arrays:
        """All there is to it, by name."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The structure that gave these `arrays`."""

    def _check(self, query: QueryCode) -> None:
        own = self.codes_
        if (query.n_functions, query.bits) != (own.n_functions, own.bits):
            raise InputError(
                f"a query needs {own.n_functions} functions of {own.bits} bits, "
                f"got {query.n_functions} functions of {query.bits} bits"
            )


def packed_arrays(codes: Codes) -> Arrays:
    """Codes by name, for `SearchStructure.arrays`."""
    return {"codes": codes.packed, "sizes": np.array([codes.n_functions, codes.bits], dtype=np.int64)}


def packed_codes(arrays: Arrays) -> Codes:
    """The codes that gave `packed_arrays`."""
    n_functions, bits = arrays["sizes"].tolist()
    return Codes(arrays["codes"], n_functions, bits)
