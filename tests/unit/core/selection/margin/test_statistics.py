"""How often the margin index finds the nearest, and what a budget buys."""

from __future__ import annotations

import warnings
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool, make_strategy
from closecall.core.selection.margin import MarginIndex, layout
from closecall.core.selection.margin import index as margin_index
from tests.margin_kit import (
    WHERE,
    clustered_pool,
    heavy_tailed_pool,
    near_exact,
    planes_of,
    shares_found,
    true_margins,
)
from tests.scale import scaled

N, D, QUERIES = 3999, 200, 300
BUDGETS = [1, 40, 400, 2000, 3998]
CONFIDENCE = 0.9
SURE = 1 - 1e-12
"""Of near-exact with this confidence it is demanded that it is exact."""
ALPHA = 1e-3


@pytest.fixture(scope="module", autouse=True)
def _small():
    """Some of the rows are fitted, many blocks are encoded; any budget is spent on clusters."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(layout, "FIRST_FIT", 3000)
        monkeypatch.setattr(layout, "BLOCK_ROWS", 512)
        monkeypatch.setattr(margin_index, "LEAST_BUDGET", 1)
        yield


class Asked:
    """A pool, and hyperplanes by where they pass, with everything's true distance."""

    def __init__(self, pool: ArrayPool) -> None:
        self.pool = pool
        self.planes = {where: planes_of(pool, QUERIES, where) for where in WHERE}
        self.true = {where: true_margins(pool, planes) for where, planes in self.planes.items()}
        self.near_exact = cache(partial(near_exact, pool))

    def some(self, n: int) -> list[tuple[Hyperplane, NDArray[np.float64]]]:
        """The first `n` of each kind, with the true distances."""
        return [
            pair for where in WHERE for pair in zip(self.planes[where][:n], self.true[where], strict=False)
        ]


@pytest.fixture(scope="module")
def clustered():
    return Asked(clustered_pool(N, D))


@pytest.fixture(scope="module")
def heavy_tailed():
    return Asked(heavy_tailed_pool(N, D))


@pytest.fixture(params=["clustered", "heavy_tailed"])
def asked(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def with_budget(clustered):
    """Indexes that share everything but the budget."""
    index = near_exact(clustered.pool, SURE)
    return {b: MarginIndex(budget=b, confidence=SURE).sharing(index) for b in (*BUDGETS, N, 10**6, None)}


def at_least(share: float, n: int) -> float:
    """The smallest share that n trials of this probability have but for one case in a thousand."""
    return stats.binom.ppf(ALPHA, n, share) / n


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("confidence", [CONFIDENCE, 0.999])
def test_the_nearest_are_found_as_often_as_is_promised(asked, where, confidence):
    """Through the bulk of the pool, at its rim, and beside it; one item or several."""
    index, queries = asked.near_exact(confidence), scaled(quick=150, all=QUERIES)
    planes, true = asked.planes[where][:queries], asked.true[where][:queries]
    for n in (1, 5):
        assert shares_found(index, planes, true, n) >= at_least(confidence, queries)


def test_rows_that_float32_cannot_tell_apart_are_all_kept():
    """Near-duplicates: their bytes could tell them apart, but not after float32 has rounded the sum."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, 160))[rng.integers(4, size=2000)]
    pool = ArrayPool(X + 1e-6 * rng.standard_normal(X.shape))
    index = near_exact(pool)
    assert index.layout_.quantizer.steps.max() < 1e-6
    for where in WHERE:
        planes = planes_of(pool, 60, where)
        assert shares_found(index, planes, true_margins(pool, planes)) >= at_least(0.99, 60)


@pytest.mark.parametrize("budget", BUDGETS)
def test_no_more_rows_are_looked_at_than_the_budget_has(clustered, with_budget, budget):
    """But for as many as are wanted; and what is told of the items found is true."""
    for plane, margins in clustered.some(30):
        for n in (1, 30):
            found = with_budget[budget].select(plane, n)
            assert found.scored == max(budget, n)
            assert len(found.ids) == n
            rows = np.searchsorted(clustered.pool.ids, found.ids)
            assert np.allclose(found.margins, margins[rows], rtol=0, atol=1e-12)


def test_a_budget_for_all_rows_is_none(clustered, with_budget):
    """The same answers, to the last bit."""
    for plane, _ in clustered.some(50):
        expected = with_budget[None].select(plane, 3)
        for budget in (N, 10**6):
            found = with_budget[budget].select(plane, 3)
            assert found.ids.tolist() == expected.ids.tolist()
            assert found.margins.tolist() == expected.margins.tolist()
            assert found.scored == N


def test_a_larger_budget_never_gives_a_farther_item(clustered, with_budget):
    """What a smaller one reads, a larger one reads, too, and the nearest of more rows is nearer."""
    for plane, _ in clustered.some(60):
        nearest = [with_budget[budget].select(plane, 4).margins for budget in BUDGETS]
        assert all((less >= more).all() for less, more in pairwise(nearest))


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("budget", [40, 400])
def test_a_budget_buys_more_than_as_many_random_rows(clustered, with_budget, where, budget):
    """By the ranks of the answers to the same hyperplanes; where they cut through the bulk, only somewhat."""
    strategies = [with_budget[budget], make_strategy("subsample", n_scored=budget).fit(clustered.pool)]
    ranks = np.empty((QUERIES, 2))
    for seed, plane in enumerate(clustered.planes[where]):
        found = [strategy.select(plane, seed=seed).margins[0] for strategy in strategies]
        ranks[seed] = [(clustered.true[where][seed] < margin - 1e-12).sum() for margin in found]
    better, worse = int((ranks[:, 0] < ranks[:, 1]).sum()), int((ranks[:, 0] > ranks[:, 1]).sum())
    assert stats.binomtest(better, better + worse, alternative="greater").pvalue < ALPHA
    assert where == "bulk" or 5 * np.median(ranks[:, 0]) < np.median(ranks[:, 1])


@pytest.mark.parametrize("n", [1, 20])
def test_where_all_that_was_read_is_excluded_the_rest_is_looked_at(clustered, with_budget, n):
    """As many as are wanted are found all the same, and they are the nearest that are left."""
    pool = clustered.pool
    for plane, margins in clustered.some(10):
        read = with_budget[400].select(plane, 400).ids
        found = with_budget[400].select(plane, n, exclude=np.sort(read))
        free = np.isin(pool.ids, read, invert=True)
        expected = pool.ids[free][np.argsort(margins[free])[:n]]
        assert found.ids.tolist() == expected.tolist()


def test_below_the_least_budget_that_wins_a_random_subsample_is_taken_and_it_says_so(clustered, monkeypatch):
    """Fitted or shared; the next larger budget says nothing."""
    monkeypatch.setattr(margin_index, "LEAST_BUDGET", 500)
    pool = clustered.pool
    subsample = make_strategy("subsample", n_scored=499, random_state=3).fit(pool)
    index = near_exact(pool, random_state=3)
    for make in (lambda small: small.fit(pool), lambda small: small.sharing(index)):
        with pytest.warns(UserWarning, match="a budget of 499 rows is spent on a random subsample"):
            small = make(MarginIndex(budget=499, random_state=3))
        for seed, (plane, _) in enumerate(clustered.some(3)):
            expected = subsample.select(plane, 3, seed=seed, exclude=pool.ids[::2])
            found = small.select(plane, 3, seed=seed, exclude=pool.ids[::2])
            assert found.ids.tolist() == expected.ids.tolist()
            assert found.scored == 499
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large = MarginIndex(budget=500, random_state=3).sharing(index)
    assert len({large.select(plane, seed=seed).ids[0] for seed in range(20)}) == 1
