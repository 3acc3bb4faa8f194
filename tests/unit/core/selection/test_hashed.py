"""Selection by hashing: what it learns from a pool, what it scores, and what it is for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import closecall.core.hashing.pool
from closecall.core.hashing.pool import fit_rows
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool, make_strategy
from tests.scale import thorough
from tests.yardsticks import median_rank_of_best, rank_of

FAMILIES = ["h-hash-weighted", "eh-hash-weighted", "bh-hash-weighted", "lbh-hash-weighted"]


@pytest.fixture(scope="module", name="rows")
def _rows():
    """Clusters that lie unevenly, one after the other, as in a folder with a folder for each class."""
    rng = np.random.default_rng(0)
    spread = np.geomspace(3, 0.3, 24)
    centres = rng.standard_normal((16, 24)) * spread
    return np.repeat(centres, 400, axis=0) + 0.5 * rng.standard_normal((6400, 24)) * spread


@pytest.fixture(scope="module", name="planes")
def _planes(rows):
    """Nearer to one cluster's mean than to the other's."""
    return _between(rows, 0.65)


def _between(rows, share, apart=(5,)):
    """Hyperplanes that divide the way from one cluster's mean to another's, `share` of it from the second.

    For clusters that are `apart` places from each other: 16 hyperplanes for each distance.
    """
    X = ArrayPool(rows).rows(np.arange(len(rows)))
    means = X.reshape(16, 400, 24).mean(axis=1)
    pairs = (pair for places in apart for pair in zip(means, np.roll(means, places, axis=0), strict=True))
    return [Hyperplane(a - b, -(a - b) @ (share * a + (1 - share) * b)) for a, b in pairs]


def test_it_is_fitted_on_rows_from_all_of_the_pool_until_that_has_doubled(monkeypatch):
    """Evenly spread over the first 2^j rows, at most so many; the same ones for up to twice as many rows."""
    monkeypatch.setattr(closecall.core.hashing.pool, "FIT_ROWS", 100)
    assert fit_rows(0).tolist() == []
    assert fit_rows(1).tolist() == [0]
    assert fit_rows(5).tolist() == [0, 1, 2, 3]
    for n_rows in (128, 200, 255):
        assert np.array_equal(fit_rows(n_rows), fit_rows(128))
    assert fit_rows(255).max() == 127
    assert fit_rows(256).max() == 255
    assert len(fit_rows(256)) == 100
    assert np.diff(fit_rows(256)).max() <= 3


@pytest.mark.parametrize("structure", ["table", "orders", "scan"])
def test_a_growing_pool_keeps_its_functions_until_it_has_doubled(rows, structure):
    """Then all is hashed anew; the same as fitting at once."""
    pool = ArrayPool(rows)
    young = make_strategy("h-hash-weighted", structure=structure).fit(pool.prefix(4096))
    grown = young.extended(pool.prefix(6400))
    assert grown.hasher_ is young.hasher_
    assert make_strategy("h-hash-weighted").fit(pool.prefix(4095)).extended(pool).hasher_ is not young.hasher_
    at_once = make_strategy("h-hash-weighted", structure=structure).fit(pool)
    assert np.array_equal(at_once.structure_.codes_by_row().packed, grown.structure_.codes_by_row().packed)


OF_EACH_KIND = {
    *((name, "table") for name in FAMILIES),
    *(("bh-hash-weighted", s) for s in ("orders", "scan")),
}
"""Every family and every structure."""


@pytest.mark.parametrize(
    ("name", "structure"),
    [
        pair if pair in OF_EACH_KIND else thorough(*pair)
        for pair in product(FAMILIES, ["table", "orders", "scan"])
    ],
)
def test_it_comes_nearer_than_as_many_random_items(rows, name, structure):
    """In a pool that is sorted by class, of which it knows 2,000 rows; by the mean of log (rank + 1).

    LBH-Hash does so for hyperplanes that run near a cluster; half-way between two it is no better. What it
    learns differs from processor to processor, since rounding adds up over its steps: so it is judged by 240
    hyperplanes, with three standard errors of their mean.
    """
    learns = name == "lbh-hash-weighted"
    planes = _between(rows, 0.8, range(1, 16)) if learns else _between(rows, 0.65)
    pool = ArrayPool(rows)
    usual = closecall.core.hashing.pool.FIT_ROWS
    closecall.core.hashing.pool.FIT_ROWS = 2000
    try:
        strategy = make_strategy(name, structure=structure, n_compared=600, n_candidates=40).fit(pool)
    finally:
        closecall.core.hashing.pool.FIT_ROWS = usual
    ranks = []
    for plane in planes:
        found = strategy.select(plane)
        assert found.scored == 40
        ranks.append(rank_of(pool, plane, int(found.ids[0])))
    random = median_rank_of_best(40, len(pool))
    logs = np.log1p(ranks)
    if learns:
        assert logs.mean() + 3 * logs.std() / np.sqrt(len(logs)) < np.log(random)
    else:
        assert np.exp(logs.mean()) < random / 1.5


@pytest.mark.parametrize(("refills", "least"), [(True, 400), (False, 200)])
@pytest.mark.parametrize("structure", ["table", "orders", "scan"])
def test_where_many_are_excluded_more_are_looked_up(rows, planes, structure, refills, least):
    """The likest are all excluded: others are scored instead. Earlier versions were content with half."""
    params = {"structure": structure, "n_compared": 60, "n_candidates": 40, "refills": refills}
    strategy = make_strategy("bh-hash-weighted", **params).fit(ArrayPool(rows))
    for plane in planes[:4]:
        excluded = np.empty(0, dtype=np.int64)
        for _ in range(3):
            found = strategy.select(plane, 40, exclude=excluded)
            assert len(found.ids) == 40
            assert min(least, len(rows) - len(excluded)) <= found.scored <= 400
            excluded = np.union1d(excluded, found.ids)


def test_the_scale_of_a_hyperplane_changes_nothing(rows, planes):
    """Times 10^±150: the same items, and margins in the same proportion."""
    strategy = make_strategy("h-hash-weighted", n_compared=600).fit(ArrayPool(rows))
    for plane in planes[:4]:
        found = strategy.select(plane, 3)
        for factor in (2.0**-500, 2.0**500):
            scaled = strategy.select(Hyperplane(plane.normal * factor, plane.bias * factor), 3)
            assert np.array_equal(scaled.ids, found.ids)
            assert np.array_equal(scaled.margins, found.margins * factor)
