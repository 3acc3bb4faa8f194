from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from closecall.core.errors import InputError
from closecall.core.selection import make_strategy
from tests.contract.kit import gaussian_pool, hyperplanes
from tests.scale import scaled

PLANE = hyperplanes(1)[0]
DRAWS = scaled(quick=1500, all=4000)
ALPHA = 1e-4


def test_random_items_are_uniform_among_those_that_are_not_excluded():
    """Each of the items left is as likely as any other, and the probability told is theirs."""
    pool = gaussian_pool(60)
    strategy = make_strategy("random").fit(pool)
    exclude = pool.ids[[0, 1, 2, 10, 30, 31, 59]]
    found = [strategy.select(None, exclude=exclude, seed=seed) for seed in range(DRAWS)]
    assert {one.probability for one in found} == {1 / 53}
    drawn, counts = np.unique([one.ids[0] for one in found], return_counts=True)
    assert np.array_equal(drawn, np.setdiff1d(pool.ids, exclude))
    assert stats.chisquare(counts).pvalue > ALPHA


def test_several_random_items_are_a_simple_random_sample():
    """Every pair of items is equally likely, and the probability told is that of being among them."""
    pool = gaussian_pool(7)
    strategy = make_strategy("random").fit(pool)
    found = [strategy.select(None, 2, seed=seed, exclude=[5]) for seed in range(DRAWS)]
    assert {one.probability for one in found} == {2 / 6}
    pairs, counts = np.unique([sorted(one.ids) for one in found], axis=0, return_counts=True)
    assert len(pairs) == 15
    assert stats.chisquare(counts).pvalue > ALPHA


def test_random_computes_no_score_where_there_is_no_hyperplane():
    """`scored` counts scores, and margins without a hyperplane are unknown."""
    strategy = make_strategy("random").fit(gaussian_pool(50))
    without = strategy.select(None, 3)
    assert without.scored == 0
    assert np.isnan(without.margins).all()
    assert strategy.select(PLANE, 3).scored == 3


@pytest.mark.parametrize("run_length", [1, 4, 50])
def test_every_item_is_equally_likely_to_be_in_the_subsample(run_length):
    """Whatever the length of the runs, and also at the pool's end."""
    pool = gaussian_pool(103)
    strategy = make_strategy("subsample", n_scored=20, run_length=run_length).fit(pool)
    exclude = pool.ids[[3, 50, 51]]
    # As many are wanted as are scored, so what is returned is the whole subsample.
    drawn = np.zeros(103)
    for seed in range(DRAWS):
        drawn[np.searchsorted(pool.ids, strategy.select(PLANE, 20, seed=seed, exclude=exclude).ids)] += 1
    free = np.setdiff1d(np.arange(103), [3, 50, 51])
    assert not drawn[[3, 50, 51]].any()
    assert drawn.sum() == 20 * DRAWS
    low, high = stats.binom.interval(1 - ALPHA / len(free), DRAWS, 20 / len(free))
    assert ((low <= drawn[free]) & (drawn[free] <= high)).all()


def test_the_subsample_scores_as_many_as_it_says_and_finds_the_nearest_of_them():
    """n_scored rows, or all where there are fewer; the best of a subsample of all is the best of all."""
    pool = gaussian_pool(500)
    best = make_strategy("exhaustive").fit(pool).select(PLANE, 3)
    for n_scored, expected in ((1, 3), (40, 40), (499, 499), (500, 500), (10_000, 500)):
        found = make_strategy("subsample", n_scored=n_scored, run_length=7).fit(pool).select(PLANE, 3)
        assert found.scored == expected
    assert found.ids.tolist() == best.ids.tolist()
    with pytest.raises(InputError, match="n_scored and run_length must be at least 1, got 0 and 4"):
        make_strategy("subsample", n_scored=0).fit(pool)
