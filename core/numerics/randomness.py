"""Counter-based random numbers: the draws for item i depend only on the seed and on i.

A draw has no state: it is a hash of (seed, item, number of the draw), computed by the finalizer of SplitMix64
[1]_. Draws can therefore be computed in any order and on any number of threads.

References
----------
.. [1] G. L. Steele, D. Lea, C. H. Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


def seed_for(purpose: str, seed: int) -> int:
    """Return a separate seed for each purpose, from 0 to 2⁶⁴ − 1.

    If two purposes shared a seed, they would get the same random numbers for the same items. For example, if
    one number selected an item for a sample and also deformed its image, all images of the sample would be
    deformed in similar ways. The seeds for different purposes are unrelated.
    """
    digest = hashlib.blake2b(f"{purpose} {seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def hashed(seed: int, items: ArrayLike, n_draws: int) -> NDArray[np.uint64]:
    """Return 64 random bits for each item and draw, of shape (n_items, n_draws), uint64."""
    key = _mixed(np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64) + _GOLDEN)
    rows = _mixed(key + np.asarray(items, dtype=np.int64).astype(np.uint64) * _GOLDEN)
    return _mixed(rows[:, None] + np.arange(1, n_draws + 1, dtype=np.uint64) * _GOLDEN)


def uniform(seed: int, items: ArrayLike, n_draws: int) -> NDArray[np.float64]:
    """Return uniform draws from the open interval (0, 1), of shape (n_items, n_draws)."""
    draws = (hashed(seed, items, n_draws) >> np.uint64(11)).astype(np.float64)
    return (draws + 0.5) * 2.0**-53


def normal(seed: int, items: ArrayLike, n_draws: int) -> NDArray[np.float64]:
    """Return standard normal draws, of shape (n_items, n_draws)."""
    return np.asarray(ndtri(uniform(seed, items, n_draws)), dtype=np.float64)
