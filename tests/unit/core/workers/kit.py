"""Questions to strategies, and answers that must be the same with and without workers."""

from __future__ import annotations

import numpy as np

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy, Request, Selection
from tests.contract.kit import labeled

DIVIDED = (
    "exhaustive",
    "likely-positive",
    "likely-positive:scans=true",
    "subsample:n_scored=300",
    "margin-index",
    "margin-index:share=0.2",
    "mixture",
    "auto",
    "h-hash:n_functions=30,n_candidates=60",
    "bh-hash-weighted:n_functions=60,n_compared=200,n_candidates=60",
)
"""Strategies whose searches are divided among workers, in some or all of their parts."""

BY_MARGIN_INDEX = {"likely-positive", "margin-index", "margin-index:share=0.2", "mixture", "auto"}
"""Of these, those that are divided only if the pool is its own margin index."""


def is_divided(pool: Pool, word: str) -> bool:
    """Whether workers are asked for anything."""
    return bool(pool.byte_segments) or word not in BY_MARGIN_INDEX


def requests(pool: Pool, n: int, *, first: int = 0) -> list[Request]:
    """Hyperplanes through the pool and beside it, for one item or several, few or most items excluded."""
    found = []
    for seed in range(first, first + n):
        rng = np.random.default_rng(seed)
        plane = Hyperplane(rng.standard_normal(pool.n_features), rng.standard_normal() * (seed % 3))
        n_excluded = (0, 3, 40, len(pool) // 2, len(pool) - 4)[seed % 5]
        exclude = np.sort(rng.choice(pool.ids, n_excluded, replace=False))
        labels = labeled(seed % 9, seed % 40)
        found.append(Request(plane, (1, 1, 2, 7)[seed % 4], exclude, seed, labels=labels))
    return found


def answer(strategy: QueryStrategy, request: Request) -> Selection:
    (selection,) = strategy.select_many([request])
    assert selection is not None
    return selection


def same(one: Selection, other: Selection) -> bool:
    """All but the time."""
    return (
        np.array_equal(one.ids, other.ids)
        and np.array_equal(one.margins, other.margins)
        and (one.scored, one.items, one.probability, one.parts, one.missing)
        == (other.scored, other.items, other.probability, other.parts, other.missing)
    )
