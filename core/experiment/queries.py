"""Held-out items: queries to measure with, and other queries to choose parameters on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows, cut
from closecall.core.pool.pool import Pool


@dataclass(frozen=True, eq=False)
class Items:
    """Features and classes of items.

    Parameters
    ----------
    X : array or csr_array of shape (n_items, n_features)
    truth : array of shape (n_items,), integer
        Classes, −1 where unknown.
    """

    X: Rows
    truth: NDArray[np.integer]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def first(self, n: int) -> list[Rows]:
        """Return the features of the first `n` items, each of shape (1, n_features)."""
        return [cut(self.X, i, i + 1) for i in range(min(n, len(self)))]


def held_out_queries(
    pool: Pool, n_queries: int, n_choosing: int, *, known: bool = False, seed: int = 0
) -> tuple[Items, Items]:
    """Draw held-out items: queries to measure with, and other queries to choose parameters on.

    Held-out items are not among the rows of the pool.

    Parameters
    ----------
    pool : Pool
        The pool whose held-out items are drawn.
    n_queries, n_choosing : int
        Number of queries to measure with, and number of queries to choose parameters on.
    known : bool
        Draw only items whose class is known.
    seed : int
        Seed of the draw.

    Returns
    -------
    queries, choosing : Items
        In the order of the held-out items.

    Raises
    ------
    InputError
        If the pool holds out too few items.
    """
    held_out, needed = pool.held_out, n_queries + n_choosing
    able = np.flatnonzero(held_out.truth >= 0) if known else np.arange(len(held_out))
    if len(able) < needed:
        raise InputError(
            f"{needed:,} held-out items {'of known class ' if known else ''}are needed as queries, "
            f"{n_queries:,} to measure and {n_choosing:,} to choose by, and the pool {pool.path} holds out "
            f"{len(able):,}"
        )
    drawn = np.random.default_rng([seed, 3 if known else 2]).permutation(able)[:needed]
    measuring, choosing = (np.sort(part) for part in (drawn[:n_queries], drawn[n_queries:]))
    return (
        Items(held_out.X[measuring], held_out.truth[measuring]),
        Items(held_out.X[choosing], held_out.truth[choosing]),
    )


def queries_of_draws(
    pool: Pool, n_queries: int, n_choosing: int, n_draws: int, *, known: bool = False
) -> tuple[list[Items], Items]:
    """Divide held-out items into queries for each of several draws, and queries to choose parameters on.

    No two draws share a query. A confidence interval over the draws therefore accounts for the random choice
    of queries, too.

    Parameters
    ----------
    pool, n_choosing, known
        See `held_out_queries`.
    n_queries : int
        Number of queries to measure with in each draw.
    n_draws : int
        Number of draws.

    Returns
    -------
    (list of Items, Items)
        The queries of each draw, and the queries to choose parameters on.

    Raises
    ------
    InputError
        If the pool holds out too few items.
    """
    every, choosing = held_out_queries(pool, n_draws * n_queries, n_choosing, known=known)
    shuffled = np.random.default_rng(8).permutation(len(every))
    parts = (np.sort(part) for part in np.split(shuffled, n_draws))
    return [Items(every.X[part], every.truth[part]) for part in parts], choosing
