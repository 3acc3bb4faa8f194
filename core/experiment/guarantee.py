"""Trials of bucket tables with the (r, ε) guarantee [1]_ on a pool.

The rule of `core.search.tables.Guarantee` determines the number k of hash functions per table, and the
number l of tables, unless memory limits l. No function is used twice. In each table, a query falls into
one bucket; the rows in these buckets are the candidates for the query. A trial succeeds if a candidate is
within (1 + ε) r of the query. If a row is within r of the query, the tables guarantee success with a known
probability. The nearest row is a candidate with probability 1 − (1 − pᵏ)ˡ, where p is the probability that a
function has the same value for this row and the query.

For the families of `core.selection.hashed.papers`, queries are hyperplanes. The angle of a row is its angle
from the hyperplane, after a constant is appended to the row (footnote 2 of [2]_). For random hyperplanes
(`LSH`), queries are items, and the angle of a row is its angle from the query.

References
----------
.. [1] A. Gionis, P. Indyk, R. Motwani, "Similarity search in high dimensions via hashing", VLDB 1999,
   Theorem 1.
.. [2] P. Jain, S. Vijayanarasimhan, K. Grauman, "Hashing hyperplane queries to near points with applications
   to large-scale active learning", NIPS 2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.experiment.planes import Plane
from closecall.core.hashing import RandomHyperplaneLSH
from closecall.core.hashing.augment import Augmentation
from closecall.core.hashing.pool import fit_rows, hash_rows
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows, cut
from closecall.core.search import BucketTables
from closecall.core.search.tables import Guarantee
from closecall.core.selection import make_strategy
from closecall.core.selection.hashed.papers import CodeSearch
from closecall.core.selection.reader import PoolRows, RowReader

LSH = RandomHyperplaneLSH.name

HYPERPLANES: dict[str, dict[str, Any]] = {"h-hash": {}, "bh-hash": {}, "eh-hash": {"query_samples": None}}
"""Hash families for hyperplane queries with a known collision probability, each with its parameters."""

_ROWS_AT_ONCE = 8_192

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tried:
    """Results of a trial: the tables built with one draw of functions, and the candidates of each query.

    The docstring of this module defines candidates, r and ε.

    Parameters
    ----------
    needed : Guarantee
        Guarantee of the tables that the rule requires without regard to memory.
    built : Guarantee
        Guarantee of the tables that were built.
    n_bytes : int
        Memory of tables, codes and functions, in bytes.
    nearest : array of shape (n_queries,), float64
        Angle between each query and its nearest row, in radians.
    expected : array of shape (n_queries,), float64
        Exact probability, over all draws of functions, that the nearest row is a candidate.
    success : array of shape (n_queries,), bool
        Whether a row within (1 + ε) r of the query was a candidate.
    found : array of shape (n_queries,), bool
        Whether the nearest row was a candidate.
    candidates : array of shape (n_queries,), int64
        Number of candidates.
    """

    needed: Guarantee
    built: Guarantee
    n_bytes: int
    nearest: Floats
    expected: Floats
    success: NDArray[np.bool_]
    found: NDArray[np.bool_]
    candidates: NDArray[np.int64]


def try_hyperplanes(
    pool: PoolRows,
    name: str,
    planes: Sequence[Plane],
    *,
    radius: float,
    epsilon: float,
    megabytes: int,
    seed: int,
) -> Tried:
    """Try tables with hyperplanes as queries.

    Items that a hyperplane was trained on count as candidates, but not as its nearest row or as a success.

    Parameters
    ----------
    pool : PoolRows
        Pool of unit rows.
    name : str
        One of `HYPERPLANES`.
    planes : sequence of Plane
        The queries.
    radius, epsilon : float
        r and ε of the guarantee; r is an angle from the hyperplane, in radians.
    megabytes : int
        Maximum memory of tables, codes and functions.
    seed : int
        Seed of the functions.

    Raises
    ------
    InputError
        If the family does not apply to the pool, or a parameter is out of range.
    """
    how = {"structure": "tables", "radius": radius, "epsilon": epsilon, "megabytes": megabytes}
    strategy = make_strategy(name, random_state=seed, **how, **HYPERPLANES[name]).fit(pool)
    assert isinstance(strategy, CodeSearch)
    assert isinstance(strategy.structure_, BucketTables)
    tables, hasher, built = strategy.structure_, strategy.hasher_, strategy.guarantee()
    trials = []
    for plane in planes:
        angles = angles_from(plane.hyperplane, pool, hasher.augmentation_)
        angles[np.isin(pool.ids, plane.labeled)] = np.inf
        code = hasher.query(plane.hyperplane)
        rows, _ = tables.probed(code, len(pool), most_probes=len(tables.functions_))
        nearest = int(angles.argmin())
        trials.append(
            (angles[nearest], _any_within(angles[rows], radius, epsilon), nearest in rows, len(rows))
        )
    n_bytes = tables.n_bytes + sum(array.nbytes for array in hasher.arrays().values())
    agrees = strategy.agreement(np.pi / 2 + np.array([one[0] for one in trials]))
    return _tried(strategy.rule(len(pool)), built, n_bytes, trials, agrees)


def try_items(
    pool: PoolRows, queries: Rows, *, radius: float, epsilon: float, megabytes: int, seed: int
) -> Tried:
    """Try tables of random-hyperplane LSH. The queries are items that are not in the pool.

    Parameters
    ----------
    pool, radius, epsilon, megabytes, seed
        See `try_hyperplanes`; here, r is an angle between two rows.
    queries : array or csr_array of shape (n_queries, n_features)
        Features of the items.

    Raises
    ------
    InputError
        If a parameter is out of range.
    """
    needed = Guarantee.for_angles(len(pool), radius, epsilon)
    a_function = pool.n_features * (1 if pool.is_sparse else 4)
    plan = needed.fitting(RandomHyperplaneLSH.bits, megabytes * 10**6, bytes_a_function=a_function)
    family = RandomHyperplaneLSH(centred=False, n_functions=plan.n_functions, random_state=seed)
    family.fit(pool.rows(fit_rows(len(pool))))
    codes = hash_rows(family, pool.blocks(), len(pool), lambda _: None)
    tables = BucketTables.of_width(codes, plan.width, plan.n_tables, seed)
    nearest = _nearest(family, pool, queries)
    trials = []
    for i, code in enumerate(family.queries(queries)):
        rows, _ = tables.probed(code, len(pool), most_probes=plan.n_tables)
        angles = family.between(cut(queries, i, i + 1), pool.rows(np.append(rows, nearest[i])))[0]
        trials.append((angles[-1], _any_within(angles[:-1], radius, epsilon), nearest[i] in rows, len(rows)))
    n_bytes = tables.n_bytes + sum(array.nbytes for array in family.arrays().values())
    agrees = family.collision_probability([one[0] for one in trials])
    return _tried(needed, tables.guarantee(plan), n_bytes, trials, agrees)


def angles_from(hyperplane: Hyperplane, pool: PoolRows, augmentation: Augmentation) -> Floats:
    """Return the angle of each row from the hyperplane, in radians, of shape (n_rows,).

    The constant of `augmentation` is first appended to each row. The augmentation must not subtract a mean.
    """
    constant, bias = augmentation.constant, hyperplane.bias
    norm = np.sqrt((hyperplane.normal @ hyperplane.normal + (bias / constant) ** 2) * (1 + constant**2))
    margins = RowReader(pool).margins(np.arange(len(pool)), hyperplane)
    return np.asarray(np.arcsin(np.minimum(margins / norm, 1.0)))


def _any_within(angles: Floats, radius: float, epsilon: float) -> bool:
    return bool((angles <= (1 + epsilon) * radius).any())


def _nearest(family: RandomHyperplaneLSH, pool: PoolRows, queries: Rows) -> NDArray[np.int64]:
    """Return, for each query, the row number of the nearest row; shape (n_queries,)."""
    n = queries.shape[0]
    best, rows = np.full(n, np.inf), np.zeros(n, dtype=np.int64)
    for first_row, X in pool.blocks():
        for first in range(0, X.shape[0], _ROWS_AT_ONCE):
            angles = family.between(queries, cut(X, first, first + _ROWS_AT_ONCE))
            place = angles.argmin(axis=1)
            nearer = angles[np.arange(n), place] < best
            best[nearer] = angles[nearer, place[nearer]]
            rows[nearer] = first_row + first + place[nearer]
    return rows


def _tried(
    needed: Guarantee, built: Guarantee, n_bytes: int, trials: Sequence[tuple[Any, ...]], agrees: Floats
) -> Tried:
    nearest, success, found, candidates = (np.array(column) for column in zip(*trials, strict=True))
    return Tried(
        needed, built, n_bytes, nearest, built.success_at(agrees), success, found, candidates.astype(np.int64)
    )
