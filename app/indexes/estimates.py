"""Estimate properties of an index before it is built: building time, kernel width, good settings of a kernel.

Estimates are computed from small samples of the pool, and kept until the pool has grown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from closecall.app.indexes.build_time import BuildTime, Paces, Shape, build_time, trial_time
from closecall.app.indexes.choosing import MOST_LANDMARKS, QUERIES, ROWS, chosen_by_data, n_trials
from closecall.app.indexes.codes import MOST_TAUGHT
from closecall.app.indexes.costs import cost_of
from closecall.app.runtime import kernels
from closecall.core.errors import InputError
from closecall.core.hashing import ShiftInvariantHash, SimilarityHasher
from closecall.core.hashing.fourier import bandwidth
from closecall.core.hashing.pool import fit_rows

if TYPE_CHECKING:
    from closecall.app.indexes.recipe import Recipe
    from closecall.app.indexes.saved import Coded
    from closecall.core.pool.pool import Pool

GAMMA_QUERIES = 100
"""Number of rows from which the width of shift-invariant kernels is estimated; fitting uses 1,000 rows."""

SIGN_ROWS = 1_000
"""Number of rows that are searched for negative features."""


class Estimates:
    """Estimates for a pool, and settings chosen by its data.

    Thread-safe: at worst, two threads compute the same estimate.

    Parameters
    ----------
    pool : callable
        Returns the newest snapshot of the pool, or None while the pool has no items.
    """

    def __init__(self, pool: Callable[[], Pool | None]) -> None:
        self._pool = pool
        self._shape: Shape | None = None
        self._gamma: tuple[int, float] | None = None
        self._signs: tuple[int, bool] | None = None
        self._paces = Paces()
        self._chosen: dict[tuple[Recipe, int], Recipe] = {}

    @property
    def has_negatives(self) -> bool:
        """Return whether a sample of the pool has negative features, as embeddings usually do."""
        pool = self._pool()
        if pool is None:
            return False
        rows, known = fit_rows(len(pool))[:SIGN_ROWS], self._signs
        if known is None or not (known[1] or known[0] == len(rows)):
            self._signs = known = len(rows), bool((pool.rows(rows) < 0).sum())
        return known[1]

    def family(self, recipe: Recipe) -> SimilarityHasher | None:
        """Return an unfitted hash family that approximates `agreement_within` of the recipe's fitted family.

        Only recipes for shift-invariant codes with a radius need such a family, because the width of their
        kernel depends on the rows. The width is estimated from a few rows. For other recipes, and while the
        pool has no items, the result is None.

        Raises
        ------
        InputError
            If the width can't be estimated.
        """
        pool = self._pool()
        if recipe.family != ShiftInvariantHash.name or recipe.radius is None or pool is None:
            return None
        rows, known = fit_rows(len(pool)), self._gamma
        if known is None or known[0] != len(rows):
            gamma = bandwidth(pool.rows(rows), np.random.default_rng(0), GAMMA_QUERIES)
            self._gamma = known = len(rows), gamma
        return ShiftInvariantHash(gamma=known[1])

    def build_time(self, recipe: Recipe, n_labels: int, family: SimilarityHasher | None) -> BuildTime | None:
        """Estimate the time to build a recipe's index.

        The result is None if there is no pool yet, if Numba functions aren't compiled yet, or if the recipe
        can't be built.

        Parameters
        ----------
        recipe : Recipe
            The settings of the search.
        n_labels : int
            Number of answers to learn from.
        family : SimilarityHasher or None
            See `app.indexes.costs.cost_of`.
        """
        pool = self._pool()
        if pool is None or not kernels.is_ready("everything"):
            return None
        try:
            n_tables = cost_of(recipe, len(pool), family).n_tables
        except InputError:
            return None
        if self._shape is None or self._shape.n_rows != len(pool):
            self._shape = Shape.of(pool)
        shape = replace(self._shape, n_labels=min(n_labels, MOST_TAUGHT))
        return self._paces.corrected(recipe, build_time(recipe, shape, n_tables))

    def learn(self, recipe: Recipe, coded: Coded, crowded: float) -> None:
        """Correct later estimates by the time that the build of the codes `coded` took.

        `crowded` says how busy the machine was at the start of the build (`app.indexes.build_time.crowding`).
        """
        n_labels = 0 if coded.labels is None else min(len(coded.labels), MOST_TAUGHT)
        estimated = build_time(recipe.codes, Shape.of(coded.pool, n_labels), crowded=crowded)
        self._paces.learn(recipe, estimated.codes, coded.seconds)

    def choice_time(self, recipe: Recipe) -> float | None:
        """Estimate the seconds that `chosen` takes to choose rank and scale.

        The result is None if rank and scale were already chosen, if there is no pool yet, or if Numba
        functions aren't compiled yet.
        """
        pool = self._pool()
        if pool is None or self._key(recipe, pool) in self._chosen or not kernels.is_ready("everything"):
            return None
        shape = Shape(min(len(pool), ROWS + QUERIES), pool.n_features)
        tried = recipe.having(landmarks=min(recipe.value("landmarks"), MOST_LANDMARKS))
        return trial_time(tried, shape, n_trials(recipe))

    def chosen(self, recipe: Recipe) -> Recipe:
        """Return the recipe with the rank and scale that suit the pool; see `app.indexes.choosing`.

        Raises
        ------
        InputError
            If there is no pool yet, or if `chosen_by_data` raises it.
        """
        pool = self._pool()
        if pool is None:
            raise InputError("there are no items yet to choose a rank by")
        key = self._key(recipe, pool)
        if key not in self._chosen:
            kernels.wait_for("everything")
            self._chosen[key] = chosen_by_data(recipe, pool)
        found = self._chosen[key]
        return recipe.having(rank=found.rank, scale=found.scale)

    def _key(self, recipe: Recipe, pool: Pool) -> tuple[Recipe, int]:
        """Return what `chosen` depends on: the codes without rank and scale, and the sample's size."""
        return recipe.having(rank=None, scale=None).codes, len(fit_rows(len(pool)))
