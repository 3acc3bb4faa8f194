"""Sums of minima of counts as inner products of sparse rows.

Kernels of sets often count what two sets have in common: Σ min(c, c'), summed over many bins, where c and c'
are the numbers of entries of the two sets in a bin. The minimum min(c, c') is the inner product of c and c'
written in unary: c ones followed by zeros, and c' ones followed by zeros. A set is therefore represented by a
row with one feature for each bin and number j. The feature is nonzero if at least j entries of the set lie in
the bin. A vocabulary lists the features that occur in the fitted sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import starmap
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from closecall.core.numerics.rows import as_sparse

T = TypeVar("T")
Floats64 = NDArray[np.float64]
Places = NDArray[np.int64]
Bins = NDArray[np.void]
"""Bins, each encoded as the bytes of a few integers."""
Counts = tuple[Bins, Places]


class Vocabulary(NamedTuple):
    """The features of the sparse rows that represent sets.

    A bin has n features if n is the largest number of entries of one fitted set in this bin.

    Parameters
    ----------
    bins : array of shape (n_bins,)
        All bins that the fitted sets occupy, distinct and sorted.
    firsts : array of shape (n_bins + 1,), int64
        Bin b has the features from firsts[b] up to, but not including, firsts[b + 1].
    """

    bins: Bins
    firsts: Places

    @classmethod
    def of(cls, counted: Iterable[tuple[Places, Bins]]) -> Self:
        """Build the vocabulary of all sets in `counted`.

        Each element of `counted` is a batch of sets, given by two arrays of equal length: for each entry
        of a set, the index of the set, and the bin of the entry.
        """
        bins, most = reduce(_merged, starmap(_greatest, counted))
        return cls(bins, np.concatenate([[0], np.cumsum(most)]))

    @property
    def n_features(self) -> int:
        """Length of the rows."""
        return int(self.firsts[-1])

    def rows(self, owners: Places, bins: Bins, values: Floats64, n_sets: int) -> csr_array:
        """Return the rows of some sets, of shape (n_sets, n_features), float32.

        Parameters
        ----------
        owners : array of shape (n_entries,), int64
            Set of each entry, from 0 to n_sets − 1.
        bins : array of shape (n_entries,)
            Bin of each entry. Entries outside the vocabulary are left out.
        values : array of shape (n_entries,), float64
            Value of the feature of each entry, the same for all entries of a set in a bin.
        n_sets : int
            Number of sets.
        """
        places = np.minimum(np.searchsorted(self.bins, bins), len(self.bins) - 1)
        known = self.bins[places] == bins
        owners, places, values = owners[known], places[known], values[known]
        order, turns = _turns(owners, places)
        features = self.firsts[places[order]] + turns
        there = features < self.firsts[places[order] + 1]
        entries = values[order][there], (owners[order][there], features[there])
        return as_sparse(csr_array(entries, shape=(n_sets, self.n_features)))


def batches(sets: Sequence[T], sizes: Iterable[int], at_once: int) -> Iterator[Sequence[T]]:
    """Yield the sets in order, in batches that end as soon as they have at least `at_once` entries."""
    first, n_entries = 0, 0
    for end, size in enumerate(sizes, 1):
        n_entries += size
        if n_entries >= at_once or end == len(sets):
            yield sets[first:end]
            first, n_entries = end, 0


def _turns(owners: Places, places: Places) -> tuple[Places, Places]:
    """Return the order of the entries by set and bin, and the number of each entry within its set and bin.

    In this order, an entry's number is the number of earlier entries with the same set and bin.
    """
    order = np.lexsort((places, owners))
    ordered = np.stack([owners[order], places[order]])
    begins = np.flatnonzero(np.append(True, (np.diff(ordered) != 0).any(axis=0))[: len(order)])
    lengths = np.diff(np.append(begins, len(order)))
    return order, np.arange(len(order)) - np.repeat(begins, lengths)


def _greatest(owners: Places, bins: Bins) -> Counts:
    """Return the distinct bins, sorted, and the maximum number of entries of one set in each bin."""
    different, places = np.unique(bins, return_inverse=True)
    order, turns = _turns(owners, places)
    most = np.zeros(len(different), dtype=np.int64)
    np.maximum.at(most, places[order], turns + 1)
    return different, most


def _merged(some: Counts, others: Counts) -> Counts:
    """Return the result of `_greatest` for the sets of both arguments together."""
    different, places = np.unique(np.concatenate([some[0], others[0]]), return_inverse=True)
    most = np.zeros(len(different), dtype=np.int64)
    np.maximum.at(most, places, np.concatenate([some[1], others[1]]))
    return different, most
