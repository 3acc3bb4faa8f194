"""Geometric Min-Hash: hash values of images agree if the images share a visual word and the words around it.

Min-Hash (`core.hashing.minhash`) only compares which visual words two images contain. A hash value of
geometric Min-Hash describes one place in an image [1]_. Each function has t + 1 random orders of all words:
one for a central feature, and one for each of t secondary features.

1. The central feature is the feature whose word comes first in the first order. Only words that occur once in
   the image are considered, because such a word determines a place.
2. The neighbourhood of the central feature contains all other features at a distance of at most `radius`
   times the scale of the central feature.
3. Each secondary feature is the feature of the neighbourhood whose word comes first in the order for this
   secondary feature.

The hash value consists of the t + 1 words. Let U(A) be the words that occur once in the image A, and N_w(A)
the words in the neighbourhood of w. Two images A and B have the same value with probability

    s(A, B) = Σ_{w ∈ U(A) ∩ U(B)} J_w^t / |U(A) ∪ U(B)|,   J_w = |N_w(A) ∩ N_w(B)| / |N_w(A) ∪ N_w(B)|

As in Min-Hash, each order results from one random number per word, so no permutation is stored. The random
numbers of the t + 1 words are combined to one number, and a code contains b bits of it. One function
therefore agrees with probability s + (1 − s) 2⁻ᵇ. An empty neighbourhood is replaced by the set of one word
that no image has. If no word occurs exactly once in an image, U(A) and N_w(A) are replaced by this set.

The survey [2]_ only mentions the method. This implementation follows Chum, Perdoch and Matas [1]_, but leaves
out tf·idf weights, affine shapes, and limits on the scales of secondary features.

References
----------
.. [1] O. Chum, M. Perdoch, J. Matas, "Geometric min-Hashing: finding a (thick) needle in a haystack", CVPR
   2009.
.. [2] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.hashing.base import Codes, QueryCode
from closecall.core.hashing.collision import Probabilities
from closecall.core.hashing.minhash import Hashes, agreement, check_bits, last_bits, minima, queries_of
from closecall.core.hashing.similarity import Floats64
from closecall.core.mercer.local import MOST_WORDS, LocalFeatures, Words
from closecall.core.numerics.rows import as_sparse


class GeometricMinHash:
    """Hash family for sets of local features.

    The family needs no fitting. Search structures (`core.search`) accept its codes and queries.

    Parameters
    ----------
    radius : float
        Radius of a neighbourhood in units of the scale of the central feature.
    n_secondary : int
        Number of secondary features. With more secondary features, fewer hash values agree, above all between
        unrelated images.
    bits : 1, 2, 4, 8 or 16
        Number b of bits per function, as in `MinHash`.
    n_functions : int
        Number of functions in a code, which has n_functions · b bits.
    random_state : int
        Seed of the random orders.

    Attributes
    ----------
    keys_ : array of shape (1 + n_secondary, n_functions), uint64
        Keys of the random orders, first for the central feature, then for the secondary features.

    Raises
    ------
    InputError
        If a parameter is out of range.
    """

    keys_: Hashes

    def __init__(
        self,
        *,
        radius: float,
        n_secondary: int = 1,
        bits: int = 4,
        n_functions: int = 256,
        random_state: int = 0,
    ) -> None:
        if not 0 < radius < np.inf:
            raise InputError(f"radius must be positive and finite, got {radius:g}")
        for name, value, least in (
            ("n_secondary", n_secondary, 1),
            ("n_functions", n_functions, 1),
            ("random_state", random_state, 0),
        ):
            if value < least:
                raise InputError(f"{name} must be at least {least}, got {value}")
        check_bits(bits)
        self.radius = radius
        self.n_secondary = n_secondary
        self.bits = bits
        self.n_functions = n_functions
        self.random_state = random_state
        rng = np.random.default_rng(random_state)
        self.keys_ = rng.integers(0, 2**64, (1 + n_secondary, n_functions), dtype=np.uint64)

    def hash_sets(self, sets: Sequence[LocalFeatures]) -> Codes:
        """Return one code per set. A code depends neither on other sets nor on the order of the features."""
        numbers = np.empty((len(sets), self.n_functions), dtype=np.uint64)
        for row, own in zip(numbers, sets, strict=True):
            row[:] = self._numbers(own)
        return last_bits(numbers, self.bits)

    def queries(self, sets: Sequence[LocalFeatures]) -> list[QueryCode]:
        """Return one query per set for search structures. Every bit has the same weight."""
        return queries_of(self.hash_sets(sets))

    def between(self, Q: Sequence[LocalFeatures], X: Sequence[LocalFeatures]) -> Floats64:
        """Return s(A, B) for each set A in Q and each set B in X, of shape (n_queries, n_points).

        s(A, B), from 0 to 1, is the probability that the two sets have the same hash value (see the module).
        """
        q, x = ([self._neighbourhoods(own) for own in sets] for sets in (Q, X))
        return np.array([[self._collides(a, b) for b in x] for a in q]).reshape(len(Q), len(X))

    def collision_probability(self, values: ArrayLike) -> Probabilities:
        """Return s + (1 − s) 2⁻ᵇ for each s in `values`, the probability that one function agrees."""
        return agreement(values, self.bits)

    def _numbers(self, own: LocalFeatures) -> Hashes:
        """Return the random number of a set's hash value under each function, of shape (n_functions,)."""
        words, around = self._candidates(own)
        central = minima(words, self.keys_[0])
        chosen = central.argmin(axis=0), np.arange(self.n_functions)
        numbers: Hashes = central[chosen]
        for keys in self.keys_[1:]:
            numbers ^= minima(around, keys)[chosen]
        return numbers

    def _candidates(self, own: LocalFeatures) -> tuple[csr_array, csr_array]:
        """Return two matrices with one row for each word that occurs once in the set `own`.

        The row of the first matrix contains this word. The row of the second matrix contains the words in the
        neighbourhood of this word. If no word occurs once, both matrices have one empty row.
        """
        _, places, counts = np.unique(own.words, return_index=True, return_counts=True)
        places = places[counts == 1]
        reach = self.radius * own.scales[places, None]
        rows, columns = np.nonzero(own.distances()[places] <= reach)
        n = len(places)
        return _sets(np.arange(n), own.words[places], n), _sets(rows, own.words[columns], n)

    def _neighbourhoods(self, own: LocalFeatures) -> dict[int, set[int]]:
        """Return a mapping from each word that occurs once in the set to the words in its neighbourhood."""
        words, around = self._candidates(own)
        found = np.split(around.indices, around.indptr[1:-1])
        return {w: set(near.tolist()) for w, near in zip(words.indices.tolist(), found, strict=False)}

    def _collides(self, a: dict[int, set[int]], b: dict[int, set[int]]) -> float:
        if not a and not b:
            return 1.0
        overlaps = (_overlap(a[word], b[word]) for word in a.keys() & b.keys())
        return sum(s**self.n_secondary for s in overlaps) / len(a.keys() | b.keys())


def _sets(rows: Words, words: Words, n_rows: int) -> csr_array:
    """Return a matrix with ones at the given rows and words; if `n_rows` is 0, it has one empty row."""
    return as_sparse(csr_array((np.ones(len(words)), (rows, words)), shape=(max(1, n_rows), MOST_WORDS)))


def _overlap(a: set[int], b: set[int]) -> float:
    return len(a & b) / len(a | b) if a or b else 1.0
