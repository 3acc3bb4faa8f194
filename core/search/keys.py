"""Which functions make a good key: those that agree for near rows, not for others, and not with each other.

The functions of a family are not equally good. With p₁ the share of near pairs of rows for which a function
agrees, and p₂ that of all pairs, ρ = ln p₁ / ln p₂ weighs over how many buckets near rows are spread against
how few rows a bucket has: a table costs about N^ρ [1]_, so a key takes functions of small ρ. Random
projections of real data differ much in it: along directions of large variance near rows seldom lie on two
sides. But these directions are few, and functions that say the same twice make no finer buckets, so that of
the functions in the order of ρ those are left out whose bits correlate with those of one taken before.

All of it is counted on a sample of rows, near ones being the nearest by the whole codes. On a million images
the same recall takes about half as many compared codes as with random keys, or fewer.

References
----------
.. [1] A. Gionis, P. Indyk, R. Motwani, "Similarity search in high dimensions via hashing", VLDB 1999.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.hashing.base import Codes, QueryCode
from closecall.core.search.ranking import comparison, likest

_SAMPLED = 20_000
_ASKED = 300
_NEAR = 5
_ALIKE = 0.25

Functions = NDArray[np.int64]


def key_functions(codes: Codes, n: int, seed: int) -> Functions:
    """The n functions for a key, of shape (min(n, n_functions),); the best by ρ, which correlate little.

    Parameters
    ----------
    codes : Codes
        Of the rows that a table is to be made of.
    n : int
        How many functions.
    seed : int
        Which rows are sampled.
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
    """An estimate of ρ for each function, of shape (n_functions,)."""
    values = codes.unpacked().reshape(len(codes), codes.n_functions, codes.bits)
    asked = rng.permutation(len(codes))[:_ASKED]
    everything = np.zeros(1, dtype=np.int64), np.array([len(codes)])
    agree, n_pairs = np.zeros(codes.n_functions), 0
    for row in asked:
        near = likest(codes, *everything, comparison(_query(codes, row), "disagreements"), _NEAR + 1)
        near = near[near != row]
        agree += (values[near] == values[row]).all(axis=2).sum(axis=0)
        n_pairs += len(near)
    others = values[rng.permutation(len(codes))[: len(asked)]]
    at_random = (values[asked] == others).all(axis=2).sum(axis=0)
    p1, p2 = (agree + 1) / (n_pairs + 2), (at_random + 1) / (len(asked) + 2)
    return np.asarray(np.log(p1) / np.log(p2))


def _correlations(codes: Codes) -> NDArray[np.float64]:
    """The greatest |correlation| between bits of each two functions; constant bits are like all others."""
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
