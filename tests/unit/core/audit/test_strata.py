from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from closecall.core.audit import Frame, Strata, bands
from closecall.core.audit.strata import shares
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.randomness import uniform
from closecall.core.selection import ArrayPool, PoolExhausted
from tests.scale import scaled

PLANE = Hyperplane(np.array([1.0, 0.0, 0.0]), -0.4)


@pytest.fixture(scope="module")
def pool():
    """700 items with gaps between their ids, about a third of them above `PLANE`."""
    rng = np.random.default_rng(0)
    return ArrayPool(rng.standard_normal((700, 3)), np.sort(rng.choice(2000, 700, replace=False)))


def sizes_of(scores):
    cuts = bands(scores)
    return np.bincount(np.searchsorted(cuts, scores), minlength=len(cuts) + 1).tolist(), cuts


@pytest.mark.parametrize("sign", [1, -1])
def test_bands_double_away_from_the_hyperplane(sign):
    """The rarer side is halved; the other one's bands double, the first as large as the rarer side."""
    scores = sign * (1000.5 - np.random.default_rng(1).permutation(32_000)).astype(np.float32)
    sizes, cuts = sizes_of(scores)
    assert 0.0 in cuts
    far_first = sizes if sign == 1 else sizes[::-1]
    assert far_first[-2:] == [500, 501] or far_first[-2:] == [501, 500]
    larger = np.array(far_first[:-2][::-1])
    assert larger[0] == pytest.approx(1001, rel=0.05)
    assert larger[1:] / larger[:-1] == pytest.approx(np.full(len(larger) - 1, 2), rel=0.01)
    assert sum(sizes) == 32_000


@pytest.mark.parametrize("n_yes", [0, 1, 30])
def test_a_side_with_hardly_any_items(n_yes):
    """The larger side has eight bands at most, none of them tiny, however rare the smaller one is."""
    scores = np.random.default_rng(2).permutation(100_000) - (100_000.0 - n_yes) + 0.5
    sizes, cuts = sizes_of(scores)
    assert sizes[-1] == n_yes
    assert len(cuts) == 8
    assert min(sizes[:-1]) >= 50


def test_equal_scores_stay_together():
    """Where all items score the same there are two bands, and one of them holds them all."""
    assert bands(np.full(1000, 2.0)).tolist() == [0.0]
    assert sizes_of(np.full(1000, 2.0))[0] == [0, 1000]
    assert bands(np.full(1000, 2.0), rule=1).tolist() == [0.0, 2.0]
    assert bands(np.empty(0)).tolist() == [0.0]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_cut_is_no_score_of_equal_items(sign):
    """By the earlier rule, some cut was; the other cuts are where they were."""
    scores = np.linspace(0.5, 100, 4000)
    scores[1000:3000] = scores[1000]
    earlier, cuts = bands(sign * scores, rule=1), bands(sign * scores)
    assert sign * scores[1000] in earlier
    assert np.abs(cuts - sign * scores[1000]).min() > 0
    assert (earlier != sign * scores[1000]).sum() >= 4
    assert np.isin(earlier[earlier != sign * scores[1000]], cuts).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_that_differ_by_rounding_stay_together(dtype):
    """However the scores of identical items are rounded, all are in one band, at the second time, too."""
    rng = np.random.default_rng(6)
    exact = np.sort(rng.uniform(0.1, 1, 4000))
    exact[1000:3000] = exact[1000]
    noise = 1e-7
    first, second = ((exact + rng.uniform(-noise, noise, 4000)).astype(dtype) for _ in range(2))
    cuts = bands(first, error=2 * noise)
    assert len(cuts) > 3
    found = np.searchsorted(cuts, np.stack([first, second])[:, 1000:3000])
    assert (found == found[0, 0]).all()


def test_identical_items_count_in_the_stratum_that_they_are_drawn_from():
    """The strata, computed again from the features, have the sizes of the frame."""
    rng = np.random.default_rng(7)
    for seed in range(20):
        X = rng.standard_normal((3000, 12)).astype(np.float32)
        plane = Hyperplane(rng.standard_normal(12), -1.0)
        order = np.argsort(plane.scores(X))
        X[order[300:2600]] = X[order[1200]]
        pool = ArrayPool(X)
        strata = Frame(pool, plane, seed=seed).strata
        again = np.bincount(strata.of(pool.ids, pool.rows(np.arange(3000))), minlength=len(strata.sizes))
        assert again.tolist() == strata.sizes.tolist()
        assert len(strata.sizes) > 2


@pytest.mark.parametrize("sign", [1, -1])
def test_a_quarter_of_the_draws_is_from_the_rarer_side(sign):
    """And the other bands have theirs by the roots of their sizes; a side without items has none."""
    scores = sign * (1000.5 - np.arange(32_000))
    cuts = bands(scores)
    sizes = np.bincount(np.searchsorted(cuts, scores))
    found = shares(cuts, sizes)
    assert found.sum() == pytest.approx(1)
    rarer, larger = (slice(-2, None), slice(0, -2)) if sign == 1 else (slice(0, 2), slice(2, None))
    assert sizes[rarer].sum() < 1100
    assert found[rarer].sum() == pytest.approx(0.25)
    assert np.ptp(found[larger] / np.sqrt(sizes[larger])) < 1e-12
    assert shares([0.0, 2.0], [0, 100, 400]) == pytest.approx([0, 1 / 3, 2 / 3])
    assert shares([], [10]).tolist() == [1]


N_DRAWN_FROM, N_FRAMES = scaled(quick=(230, 2000), all=(700, 6000))
"""So that each item is expected about ten times, on an average."""


def test_an_item_has_the_probability_that_is_recorded(pool):
    """Over many frames bands are drawn as often as they should be (χ²), and the items of each alike."""
    pool = pool.prefix(N_DRAWN_FROM)
    exclude = pool.ids[::7]
    drawn = np.zeros(2000)
    chance = np.zeros(2000)
    for seed in range(N_FRAMES):
        found = Frame(pool, PLANE, exclude=exclude, seed=seed).draw(seed=seed)
        drawn[found.ids[0]] += 1
        chance[found.ids[0]] = found.probability
    ids = np.setdiff1d(pool.ids, exclude)
    strata = Frame(pool, PLANE, exclude=exclude).strata
    stratum = strata.of(ids, pool.rows(np.searchsorted(pool.ids, ids)))
    assert drawn[ids].sum() == N_FRAMES
    expected = shares(strata.cuts, strata.sizes)
    drawn_at_all = drawn[ids] > 0
    assert chance[ids][drawn_at_all] == pytest.approx((expected / strata.sizes)[stratum][drawn_at_all])
    for number, size in enumerate(strata.sizes):
        own = drawn[ids][stratum == number]
        assert len(own) == size
        assert chisquare(own).pvalue > 1e-4
    assert chisquare(np.bincount(stratum, weights=drawn[ids]), N_FRAMES * expected).pvalue > 1e-4


def test_bands_are_drawn_from_without_replacement(pool):
    """Drawing until nothing is left gives every item once, then says that there is none."""
    frame, answered = Frame(pool, PLANE, exclude=pool.ids[:9], seed=4), pool.ids[:9].tolist()
    share = shares(frame.strata.cuts, frame.strata.sizes)
    of = dict(zip(pool.ids.tolist(), frame.strata.of(pool.ids, pool.rows(np.arange(700))), strict=True))
    for seed in range(691):
        found = frame.draw(exclude=answered, seed=seed)
        left = np.bincount([of[item] for item in of.keys() - set(answered)], minlength=len(share))
        stratum = of[int(found.ids[0])]
        among = share[left > 0].sum()
        assert found.probability == pytest.approx(share[stratum] / among / left[stratum])
        answered.append(int(found.ids[0]))
    assert sorted(answered) == pool.ids.tolist()
    with pytest.raises(PoolExhausted, match="0 available for the audit"):
        frame.draw(exclude=answered)
    with pytest.raises(PoolExhausted, match="all 700 items are answered"):
        Frame(pool, PLANE, exclude=answered)


def test_a_draw_can_be_repeated(pool):
    """The same arguments draw the same item, whatever the pool has grown to since."""
    answered = pool.ids[::3]
    found = [Frame(pool, PLANE, exclude=answered, seed=8).draw(exclude=answered, seed=s) for s in range(20)]
    again = [Frame(pool, PLANE, exclude=answered, seed=8).draw(exclude=answered, seed=s) for s in range(20)]
    assert [s.ids.tolist() for s in found] == [s.ids.tolist() for s in again]
    assert len({int(s.ids[0]) for s in found}) > 3
    for selection in found:
        row = np.searchsorted(pool.ids, selection.ids)
        assert selection.margins == pytest.approx(np.abs(PLANE.scores(pool.rows(row))))
        assert (selection.items, selection.scored) == (700, 1)


def test_an_order_has_nothing_of_what_the_items_were_made_with():
    """Sources draw items by hashing (seed, item); a frame of the same seed samples them at random still."""
    made = uniform(1, np.arange(5000), 1)[:, 0]
    pool = ArrayPool(np.ones((5000, 1)))
    frame, drawn = Frame(pool, None, seed=1), []
    for _ in range(200):
        drawn.append(int(frame.draw(exclude=drawn).ids[0]))
    assert kstest(made[drawn], "uniform").pvalue > 1e-3


def test_ids_that_the_pool_does_not_have_do_no_harm(pool):
    """Excluding them neither changes a draw nor its probability."""
    strangers = np.setdiff1d(np.arange(3000), pool.ids)
    frame = Frame(pool, PLANE, seed=1)
    assert Frame(pool, PLANE, exclude=strangers, seed=1).strata.sizes.tolist() == frame.strata.sizes.tolist()
    one, other = frame.draw(seed=2), frame.draw(exclude=iter(strangers.tolist()), seed=2)
    assert (one.ids, one.probability) == (other.ids, other.probability)


def test_without_a_hyperplane_all_items_are_alike(pool):
    """There is one stratum, and no margin to tell."""
    frame = Frame(pool, None, exclude=pool.ids[:200])
    assert frame.strata.sizes.tolist() == [500]
    assert np.isnan(frame.draw().margins).all()
    assert frame.draw().probability == 1 / 500


def test_later_items_are_of_no_stratum(pool):
    """What joined the pool after the frame could not be drawn from it; the rest lies where its score says."""
    short = pool.prefix(400)
    strata = Frame(short, PLANE).strata
    found = strata.of(pool.ids, pool.rows(np.arange(700)))
    assert (found[400:] == -1).all()
    assert np.bincount(found[:400]).tolist() == strata.sizes.tolist()


def test_strata_survive_a_log(pool):
    """What a JSON text keeps of them, and the hyperplane, put every item where it was."""
    strata = Frame(pool, PLANE).strata
    again = Strata(PLANE, **json.loads(json.dumps(strata.params())))
    X = pool.rows(np.arange(700))
    assert np.array_equal(again.of(pool.ids, X), strata.of(pool.ids, X))
    assert again.sizes.tolist() == strata.sizes.tolist()


def test_strata_that_do_not_fit_are_refused():
    """Sizes must be one more than the cuts, which ascend."""
    for cuts, sizes in (([0.0], [3]), ([1.0, 0.0], [1, 2, 3]), ([0.0], [3, -1])):
        with pytest.raises(InputError, match="strata need ascending cuts and one more size"):
            Strata(PLANE, cuts, sizes, 9)
    with pytest.raises(InputError, match="without a hyperplane there is one stratum, got 2"):
        Strata(None, [0.0], [3, 3], 9)
