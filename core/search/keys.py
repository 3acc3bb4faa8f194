"""Selection of the hash functions that form the key of a hash table.

The functions of a family are not equally good. Let p₁ be the fraction of near pairs of rows that get the same
value from a function, and p₂ the same fraction among all pairs of rows. With ρ = ln p₁ / ln p₂, a search
among N rows costs about N^ρ [1]_, so a key uses functions with a small ρ. Random projections of real data
differ a lot in ρ. Along directions of large variance, a function seldom separates near rows. But there are
few such directions, and functions that carry the same information do not make buckets finer. Functions are
therefore added to the key in ascending order of ρ. A function is left out if its bits correlate with the bits
of a function in the key.

ρ and the correlations are estimated on a sample of rows. The near rows of a row are those with the most
similar whole codes. On a million images, a table with a key of random functions must compare about twice as
many codes, or more, to reach the same recall.

References
----------
.. [1] A. Gionis, P. Indyk, R. Motwani, "Similarity search in high dimensions via hashing", VLDB 1999.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.hashing.base import Codes, QueryCode
from closecall.core.search.ranking import closest, comparison

_SAMPLED = 20_000
_ASKED = 300
_NEAR = 5
_ALIKE = 0.25

Functions = NDArray[np.int64]


def key_functions(codes: Codes, n: int, seed: int) -> Functions:
    """Return the indices of the functions for a key, of shape (min(n, n_functions),).

    The functions are chosen in ascending order of ρ (see the module). A function that correlates strongly
    with a chosen function is added only if there are not enough other functions.

    Parameters
    ----------
    codes : Codes
        Codes of the rows that the hash table is built for.
    n : int
        Number of functions.
    seed : int
        Seed of the sample of rows on which ρ and the correlations are estimated.
    """
    rng = np.random.default_rng(seed)
    some = np.sort(rng.permutation(len(codes))[:_SAMPLED])
    sample = Codes(np.ascontiguousarray(codes.packed[some]), codes.n_functions, codes.bits)
    best_first = np.argsort(rho(sample, rng), kind="stable")
    alike = _correlations(sample)
    taken: list[int] = []
    for limit in (_ALIKE, np.inf):
        for function in best_first.tolist():
            if len(taken) < n and function not in taken and (alike[function, taken] <= limit).all():
                taken.append(function)
    return np.array(taken, dtype=np.int64)


def rho(codes: Codes, rng: np.random.Generator) -> NDArray[np.float64]:
    """Estimate ρ = ln p₁ / ln p₂ for each function, of shape (n_functions,).

    p₁ is the probability that two near rows get the same value from the function. p₂ is the same probability
    for two rows drawn at random.
    """
    values = codes.unpacked().reshape(len(codes), codes.n_functions, codes.bits)
    asked = rng.permutation(len(codes))[:_ASKED]
    everything = np.zeros(1, dtype=np.int64), np.array([len(codes)])
    agree, n_pairs = np.zeros(codes.n_functions), 0
    for row in asked:
        near = closest(codes, *everything, comparison(_query(codes, row), "disagreements"), _NEAR + 1)
        near = near[near != row]
        agree += (values[near] == values[row]).all(axis=2).sum(axis=0)
        n_pairs += len(near)
    others = values[rng.permutation(len(codes))[: len(asked)]]
    at_random = (values[asked] == others).all(axis=2).sum(axis=0)
    p1, p2 = (agree + 1) / (n_pairs + 2), (at_random + 1) / (len(asked) + 2)
    return np.asarray(np.log(p1) / np.log(p2))


def _correlations(codes: Codes) -> NDArray[np.float64]:
    """Return, for each pair of functions, the largest absolute correlation between their bits.

    A constant bit counts as fully correlated with every other bit.
    """
    signs = codes.unpacked().astype(np.float64)
    signs -= signs.mean(axis=0)
    spread = np.sqrt((signs**2).sum(axis=0))
    norms = np.outer(spread, spread)
    bits = np.abs(np.divide(signs.T @ signs, norms, out=np.ones_like(norms), where=norms > 0))
    k, b = codes.n_functions, codes.bits
    return np.asarray(bits.reshape(k, b, k, b).max(axis=(1, 3)))


def _query(codes: Codes, row: int) -> QueryCode:
    code = Codes(np.ascontiguousarray(codes.packed[row : row + 1]), codes.n_functions, codes.bits)
    unused = np.zeros(codes.n_functions * codes.bits, dtype=np.float32)
    return QueryCode(codes.n_functions, codes.bits, unused, 0.0, False, lambda: code)
