"""Finding similar items, held against brute force in float64."""

from __future__ import annotations

import numpy as np
import pytest

import closecall.core.linear.scoring
from closecall.core.errors import InputError
from closecall.core.hashing import RandomHyperplaneLSH, ShiftInvariantHash, SpectralHash
from closecall.core.linear.hyperplane import unit_rows
from closecall.core.metric import ITML, Constraints
from closecall.core.search import built_for_points
from closecall.core.selection import ArrayPool
from closecall.core.similar import (
    ByAngle,
    ByDistance,
    ByFamily,
    ExactSearch,
    HashedSimilarity,
    nearness_of,
)
from tests.contract.kit import bags, dense_rows, gaussian_pool

D = 8


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Pools of a few items, too, are scanned in several blocks."""
    monkeypatch.setattr(closecall.core.linear.scoring, "_SCORES", 64)
    monkeypatch.setattr(closecall.core.linear.scoring, "_CACHED_ROWS", 16)


def learned(pool: ArrayPool, form="auto"):
    X = pool.rows(np.arange(60))
    return ITML(form=form).fit(X, Constraints.from_labels(X, np.arange(60) % 3)).metric_


def brute_force(pool, query, exclude, metric=None):
    """(distance, id) of every item, the nearest first: the definition, row by row."""
    X = dense_rows(pool).astype(np.float64)
    q = np.asarray(query, dtype=np.float64).ravel()
    q = unit_rows(q[None])[0].astype(np.float64)
    if metric is None:
        q = q / np.linalg.norm(q)
        squares = [((q - x / np.linalg.norm(x)) ** 2).sum() for x in X]
        values = 2 * np.arcsin(np.minimum(np.sqrt(squares) / 2, 1))
    else:
        A = metric.inner(np.eye(X.shape[1]), np.eye(X.shape[1]))
        values = np.sqrt([(q - x) @ A @ (q - x) for x in X])
    pairs = zip(values.tolist(), pool.ids.tolist(), strict=True)
    return sorted(pair for pair in pairs if pair[1] not in exclude)


@pytest.mark.parametrize("make", [gaussian_pool, bags], ids=["dense", "sparse"])
@pytest.mark.parametrize("metric", [False, True], ids=["original", "learned"])
def test_an_exact_search_finds_the_nearest_there_are(make, metric):
    """With exclusions, for one query or many, and their distances right to the last digits."""
    pool = make(700)
    under = learned(pool) if metric else None
    search = ExactSearch(ByDistance(pool, under))
    queries = make(5, seed=9).rows(np.arange(5))
    exclude = set(pool.ids[::3].tolist())
    together = search.neighbours_of_many(queries, 12, exclude=exclude)
    for i, many in enumerate(together):
        query = queries[[i]]
        found = search.neighbours(query, 12, exclude=exclude)
        dense = query.toarray() if make is bags else query
        expected = brute_force(pool, dense, exclude, under)[:12]
        assert found.ids.tolist() == [item for _, item in expected]
        assert np.allclose(found.values, [value for value, _ in expected], atol=1e-6)
        assert found.measure == ("distance" if metric else "angle")
        assert np.array_equal(many.ids, found.ids)
        assert (found.scored, found.searched, found.items) == (700, 1.0, 700)


def test_the_item_itself_comes_first_and_of_equals_the_lower_id():
    """At the angle zero, also where a hundred rows are equal; all others are given, too, if wanted."""
    X = np.random.default_rng(0).standard_normal((300, D))
    X[100:200] = X[7]
    pool = ArrayPool(X, ids=2 * np.arange(300) + 1)
    found = ExactSearch(ByDistance(pool)).neighbours(pool.rows(np.array([7]))[0], 50)
    assert found.ids.tolist() == [15, *range(201, 201 + 98, 2)]
    assert (found.values < 1e-7).all()
    everything = ExactSearch(ByDistance(pool)).neighbours(X[0], 1000)
    assert sorted(everything.ids.tolist()) == pool.ids.tolist()
    assert (np.diff(everything.values) >= 0).all()


def test_a_family_orders_by_what_it_estimates():
    """The generic scan agrees with the fast one where both mean the same."""
    pool = gaussian_pool(500)
    family = RandomHyperplaneLSH(centred=False, n_functions=8).fit(pool.rows(np.arange(500)))
    query = gaussian_pool(1, seed=4).rows(np.array([0]))
    exclude = pool.ids[:100]
    fast = ExactSearch(ByDistance(pool)).neighbours(query, 20, exclude=exclude)
    slow = ExactSearch(ByFamily(pool, family)).neighbours(query, 20, exclude=exclude)
    assert np.array_equal(fast.ids, slow.ids)
    assert np.allclose(fast.values, slow.values, atol=1e-6)
    some = np.arange(50, 300)
    by_family = ByFamily(pool, family).nearest_of(query, some, 7)
    assert np.array_equal(by_family.rows, ByDistance(pool).nearest_of(query, some, 7).rows)


def nearness_by(kind, pool):
    """Of each kind one, and what it calls near, row by row; less is nearer."""
    X = dense_rows(pool).astype(np.float64)
    if kind == "family":
        family = ShiftInvariantHash(n_functions=8).fit(pool.rows(np.arange(len(pool))))
        return ByFamily(pool, family), lambda q: -family.between(q, pool.rows(np.arange(len(pool))))[0]
    if kind == "distance":
        metric = learned(pool)
        return ByDistance(pool, metric), lambda q: metric.squared_distances(q, X)[0]
    metric = learned(pool) if kind == "angle under a metric" else None
    A = np.eye(D) if metric is None else metric.inner(np.eye(D), np.eye(D))
    norms = np.sqrt(np.einsum("ij,jk,ik->i", X, A, X))
    nearness = ByAngle(pool, metric, norms=None if metric is None else norms.astype(np.float32))

    def angles(q):
        q = q[0].astype(np.float64)
        return np.arccos(np.clip(X @ A @ q / norms / np.sqrt(q @ A @ q), -1, 1))

    return nearness, angles


@pytest.mark.parametrize("n_queries", [1, 7])
@pytest.mark.parametrize("kind", ["family", "distance", "angle", "angle under a metric"])
def test_a_row_is_as_near_to_several_queries_as_to_the_nearest_of_them(kind, n_queries):
    """Of all rows and of some; exactly, and by codes where all rows are candidates."""
    pool = gaussian_pool(500)
    nearness, far = nearness_by(kind, pool)
    queries = gaussian_pool(n_queries, seed=9).rows(np.arange(n_queries))
    least = np.min([far(queries[[i]]) for i in range(n_queries)], axis=0)
    exclude = pool.ids[::3]
    order = [row for row in np.argsort(least, kind="stable") if pool.ids[row] not in set(exclude.tolist())]
    family = RandomHyperplaneLSH(n_functions=24).fit(pool.rows(np.arange(500)))
    codes = family.hash_points(pool.rows(np.arange(500)))
    scan = built_for_points("scan", codes, n_compared=500, n_bytes=10**6, seed=0)
    for search in (
        ExactSearch(nearness),
        HashedSimilarity(family, scan, nearness, n_candidates=500 * n_queries),
    ):
        found = search.neighbours(queries, 20, exclude=exclude)
        assert found.ids.tolist() == pool.ids[order[:20]].tolist()
    some = np.arange(50, 300)
    ranked = nearness.nearest_of(queries, some, 9)
    assert ranked.rows.tolist() == some[np.argsort(least[some], kind="stable")[:9]].tolist()


def test_where_everything_is_excluded_nothing_is_found():
    """By any search."""
    pool = gaussian_pool(30)
    for search in (ExactSearch(ByAngle(pool)), ExactSearch(ByDistance(pool))):
        assert len(search.neighbours(pool.rows(np.array([0])), 5, exclude=pool.ids).ids) == 0


@pytest.mark.parametrize("family", [SpectralHash, ShiftInvariantHash])
def test_families_whose_order_is_the_angles_are_scanned_by_angles(family):
    """The same rows come out as by what the family estimates, in the same order."""
    pool = gaussian_pool(500)
    fitted = family(n_functions=8).fit(pool.rows(np.arange(500)))
    query = gaussian_pool(1, seed=4).rows(np.array([0]))
    found = nearness_of(pool, fitted)
    assert found.measure == "angle"
    by_family = ByFamily(pool, fitted).nearest_of(query, np.arange(500), 30)
    assert np.array_equal(found.nearest_of(query, np.arange(500), 30).rows, by_family.rows)


@pytest.mark.parametrize("structure", ["table", "orders", "scan", "tables", "ball"])
def test_a_hashed_search_that_ranks_all_items_is_exact(structure):
    """If everything is a candidate nothing is lost; a part of them is found with few."""
    pool = gaussian_pool(400, lean=0.0)
    n_functions = 12 if structure == "ball" else 24
    family = RandomHyperplaneLSH(n_functions=n_functions).fit(pool.rows(np.arange(400)))
    exact = ExactSearch(nearness_of(pool, family))
    everything = HashedSimilarity.built(
        pool, family, structure=structure, megabytes=1, n_compared=400, n_candidates=400
    )
    few = HashedSimilarity.built(
        pool, family, structure=structure, megabytes=1, n_compared=200, n_candidates=50
    )
    recalled = 0
    for query in gaussian_pool(10, seed=3, lean=0.0).rows(np.arange(10)):
        best = exact.neighbours(query, 5)
        found = everything.neighbours(query, 5)
        assert found.scored == found.compared == 400
        assert np.array_equal(found.ids, best.ids)
        assert np.array_equal(found.values, best.values)
        some = few.neighbours(query, 5)
        assert some.scored == 50
        assert some.compared in {"scan": (400,), "ball": (200, 400)}.get(structure, (200,))
        assert some.searched == 50 / 400
        recalled += len(np.intersect1d(some.ids, best.ids))
    assert recalled >= 30


@pytest.mark.parametrize("structure", ["table", "orders", "scan", "tables"])
def test_excluded_items_are_passed_over(structure):
    """Also where nearly all are excluded, and all of those that come first."""
    pool = gaussian_pool(500, lean=0.0)
    family = RandomHyperplaneLSH(n_functions=30).fit(pool.rows(np.arange(500)))
    search = HashedSimilarity.built(
        pool, family, structure=structure, megabytes=1, n_compared=60, n_candidates=30
    )
    query = pool.rows(np.array([3]))
    exclude = set(ExactSearch(nearness_of(pool, family)).neighbours(query, 470).ids.tolist())
    found = search.neighbours(query, 3, exclude=exclude)
    assert len(found.ids) == 3
    assert not exclude & set(found.ids.tolist())


def test_the_rules_decide_how_many_tables_and_orders_there_are():
    """As far as there is room."""
    pool = gaussian_pool(400)
    family = RandomHyperplaneLSH(n_functions=64).fit(pool.rows(np.arange(400)))
    tables = HashedSimilarity.built(pool, family, structure="tables", radius=0.3, epsilon=2.0).structure
    assert tables.functions_.shape == (7, 18)
    orders = HashedSimilarity.built(pool, family, structure="orders", epsilon=1.5).structure
    assert len(orders.functions_) == 22


@pytest.mark.parametrize("radius", [0, 1, 3])
def test_a_ball_of_fixed_radius_finds_what_is_within_it(radius):
    """By brute force: for one example or several, the nearest of them by angle; nothing if it is empty."""
    pool = gaussian_pool(400, lean=0.0)
    family = RandomHyperplaneLSH(n_functions=12).fit(pool.rows(np.arange(400)))
    search = HashedSimilarity.built(pool, family, structure="ball", radius=radius)
    codes, X = family.hash_points(dense_rows(pool)).unpacked(), dense_rows(pool)
    for queries in (-X[:1], X[1:2], X[2:5]):
        own = family.hash_queries(queries).unpacked()
        near = ((codes[:, None] != own).sum(axis=2) <= radius).any(axis=1)
        every = [
            pair for query in queries for pair in brute_force(pool, query, set(pool.ids[~near].tolist()))
        ]
        nearest = list(dict.fromkeys(id_ for _, id_ in sorted(every)))
        assert search.neighbours(queries, 20).ids.tolist() == nearest[:20]


def test_bad_input_gets_one_clear_sentence():
    """Queries of nothing, of other features or none, structures that there are not."""
    pool = gaussian_pool(50)
    family = RandomHyperplaneLSH(n_functions=40).fit(pool.rows(np.arange(50)))
    for search in (ExactSearch(ByDistance(pool)), HashedSimilarity.built(pool, family)):
        with pytest.raises(InputError, match="n must be at least 1, got 0"):
            search.neighbours(np.ones(D), 0)
        with pytest.raises(InputError, match=r"needs 8 features, got shape \(1, 3\)"):
            search.neighbours(np.ones(3))
        with pytest.raises(InputError, match="must be finite"):
            search.neighbours(np.full(D, np.nan))
        with pytest.raises(InputError, match="row 0 is zero"):
            search.neighbours(np.zeros(D))
    with pytest.raises(InputError, match="structure must be one of table, orders, scan, tables, ball"):
        HashedSimilarity.built(pool, family, structure="tree")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="megabytes must be at least 1, got 0"):
        HashedSimilarity.built(pool, family, megabytes=0)
    with pytest.raises(InputError, match="measure must be one of weights, disagreements, got 'difference'"):
        HashedSimilarity.built(pool, family, measure="difference")
    with pytest.raises(InputError, match="n_candidates at least 1, got 5 and 0"):
        HashedSimilarity.built(pool, family, n_compared=5, n_candidates=0)
    with pytest.raises(InputError, match="at most 32 functions"):
        HashedSimilarity.built(pool, family, structure="ball")
    with pytest.raises(InputError, match="metric has 8 features, but the pool's rows have 5"):
        ByDistance(gaussian_pool(20, 5), learned(gaussian_pool(60)))
