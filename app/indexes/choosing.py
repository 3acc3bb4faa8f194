"""Choose the rank and scale of kernelized codes by their recall on a sample of the pool.

Some rows of the pool are drawn as queries, and their neighbours are searched for among other rows, as in
`core.experiment.kernelized`. The rank is chosen first. If the form of the codes (`core.hashing.forms`) has a
scale, the scale is chosen next, and then the rank once more. The result is a `Recipe` with these numbers, so
the log, saved indexes and ``closecall verify`` treat a chosen rank like a rank that a person entered.

**The benefit** depends on the form. The table compares the defaults of the page (rank 64, scale 5) with the
chosen values. It gives recall@16 of the nearest item, and the difference with its 95 % interval. 1,000
queries searched 8,000 items, all drawn from the GIST features of CIFAR-10's test images, with 300 landmarks
and 256 bits (2026-11-25). "Mean" and "origin" are the points from which a form measures angles. For forms
with the mean, the defaults are as good as the choice, so rank and scale are not chosen for every pool.

======================  =============================  ========  ======  ===============
family, kernel          form                           defaults  chosen  difference
======================  =============================  ========  ======  ===============
KLSH, χ²                low rank, mean                 0.615     0.610   −0.005 ± 0.029
KLSH, χ²                low rank, transformed, mean    0.638     0.613   −0.025 ± 0.027
KPCA, RBF with γ = 2    low rank, mean                 0.627     0.629   +0.002 ± 0.030
KLSH, χ²                low rank, origin               0.442     0.511   +0.069 ± 0.036
KLSH, χ²                low rank, transformed, origin  0.576     0.588   +0.012 ± 0.033
KLSH, intersection      low rank, transformed, origin  0.539     0.539   none: the same
Nyström, χ²             low rank, origin               0.320     0.348   +0.028 ± 0.030
======================  =============================  ========  ======  ===============
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from closecall.app.indexes.codes import SEED
from closecall.app.indexes.recipe import Recipe
from closecall.app.indexes.settings import LANDMARKS
from closecall.core.errors import InputError
from closecall.core.experiment.kernelized import RANKS, SCALES, Form, Trials
from closecall.core.hashing import FAMILIES
from closecall.core.hashing.klsh import KernelHasher
from closecall.core.pool.pool import Pool

ROWS, QUERIES = 4_000, 500
"""Maximum number of rows that are searched, and maximum number of queries."""

MOST_LANDMARKS = 1_000
"""Maximum number of landmarks in a trial; each trial decomposes the kernel matrix of the landmarks."""

RETRIEVED = 10
"""Number of rows that a trial retrieves per query by their codes, to find the query's nearest neighbour."""


def chosen_by_data(recipe: Recipe, pool: Pool) -> Recipe:
    """Return the recipe with the best rank and, if the form has a scale, the best scale.

    The best values have the highest recall on a sample. The result depends only on the pool and the other
    settings of the codes.

    Raises
    ------
    InputError
        If the form has no rank, if the pool is too small, or if the kernel does not apply to its rows.
    """
    kind = FAMILIES[recipe.family]
    if not (recipe.applies("rank") and issubclass(kind, KernelHasher)):
        raise InputError(f"{recipe.family} codes in the form {recipe.value('form')!r} have no rank to choose")
    rows, queries = _drawn(len(pool))
    n_landmarks = min(recipe.value("landmarks"), MOST_LANDMARKS, len(rows))
    ranks = [rank for rank in RANKS if rank < n_landmarks]
    if not (ranks and len(queries)):
        raise InputError(f"the pool has too few items to choose a rank by: {len(pool)}")
    trials = Trials(
        recipe.value("kernel"),
        pool.rows(rows),
        pool.rows(queries),
        min(1.0, RETRIEVED / len(rows)),
        {"n_landmarks": n_landmarks, "n_functions": recipe.value("functions"), "random_state": SEED},
    )
    own = recipe.own_form
    form = Form(recipe.value("kernel"), centred=own.params.get("centred", True), family=kind)
    form = trials.best([replace(form, rank=rank) for rank in ranks])
    if own.has_scale:
        form = trials.best([replace(form, scale=scale) for scale in SCALES])
        form = trials.best([replace(form, rank=rank) for rank in ranks])
    return recipe.having(rank=form.rank, **({"scale": form.scale} if own.has_scale else {}))


def n_trials(recipe: Recipe) -> int:
    """Return the number of forms that `chosen_by_data` tries."""
    ranks = sum(rank < min(recipe.landmarks or LANDMARKS, MOST_LANDMARKS) for rank in RANKS)
    return 2 * ranks + len(SCALES) - 1 if recipe.applies("scale") else ranks


def _drawn(n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw rows to search and other rows as queries; return the row numbers of both, ascending."""
    order = np.random.default_rng([SEED, 8]).permutation(n_rows)
    n_queries = min(QUERIES, n_rows // 5)
    queries, rows = order[:n_queries], order[n_queries : n_queries + ROWS]
    return np.sort(rows), np.sort(queries)
