"""Interface of search structures, which are built once from codes and then find the best rows for queries."""

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
    """The result of a query to a search structure.

    Parameters
    ----------
    rows : array of shape (n,), int64
        Distinct rows, most similar first.
    compared : int
        Number of rows whose whole codes were compared with the code of the query.
    """

    rows: Rows
    compared: int


class SearchStructure(ABC):
    """Immutable structure that finds rows by their codes; queries may run in several threads at once.

    A structure keeps the codes, in an order that suits its queries. It depends only on the codes and the
    parameters that it was built with.
    """

    name: ClassVar[str]

    codes_: Codes

    @classmethod
    @abstractmethod
    def build(
        cls, codes: Codes, moments: Moments | None, *, n_compared: int, n_bytes: int, seed: int
    ) -> Self:
        """Build a structure over `codes`.

        Parameters
        ----------
        codes : Codes
            One code per row.
        moments : Moments or None
            Moments of the bits, if the hash family has computed them.
        n_compared : int
            Usual number of rows whose whole codes are compared with a query.
        n_bytes : int
            Approximate memory in bytes that the structure may take in addition to the codes.
        seed : int
            Seed of the random choice of functions.
        """

    @abstractmethod
    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """Return the rows whose codes are most similar to the query, among the rows that are compared.

        Parameters
        ----------
        query : QueryCode
            Query for the hash functions of the structure's codes.
        n : int
            Number of rows to return.
        n_compared : int
            Number of rows whose whole codes are compared with the query. A number below n counts as n.
        measure : "weights", "disagreements" or "difference"
            How codes are compared; see `core.search.ranking`.

        Returns
        -------
        Found
            min(n, n_rows) rows. There may be fewer only if the documentation of the structure says so.

        Raises
        ------
        InputError
            If the query and the codes differ in their number of functions or bits.
        """

    def candidates(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Rows:
        """Return the rows that `found` finds, without the number of codes compared."""
        return self.found(query, n, n_compared=n_compared, measure=measure).rows

    @property
    def n_bytes(self) -> int:
        """Memory that the structure takes, including the codes, in bytes."""
        return sum(array.nbytes for array in self.arrays().values())

    def codes_by_row(self) -> Codes:
        """Return the codes in the order of the rows."""
        return self.codes_

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return the content of the structure as arrays, by name."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild the structure from the result of `arrays`."""

    def _check(self, query: QueryCode) -> None:
        own = self.codes_
        if (query.n_functions, query.bits) != (own.n_functions, own.bits):
            raise InputError(
                f"a query needs {own.n_functions} functions of {own.bits} bits, "
                f"got {query.n_functions} functions of {query.bits} bits"
            )


def packed_arrays(codes: Codes) -> Arrays:
    """Return the arrays of codes by name, for `SearchStructure.arrays`."""
    return {"codes": codes.packed, "sizes": np.array([codes.n_functions, codes.bits], dtype=np.int64)}


def packed_codes(arrays: Arrays) -> Codes:
    """Return the codes, given the result of `packed_arrays`."""
    n_functions, bits = arrays["sizes"].tolist()
    return Codes(arrays["codes"], n_functions, bits)
