from __future__ import annotations

import numpy as np
import pytest

from closecall.core.audit import Frame, Strata, inclusion, inclusion_by_stratum
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool
from tests.scale import scaled, thorough

EARLY = Hyperplane(np.array([1.0, 0.5, 0.0]), -0.6)
LATE = Hyperplane(np.array([0.2, 1.0, 0.0]), -0.7)


@pytest.fixture(scope="module")
def pool():
    return ArrayPool(np.random.default_rng(0).standard_normal((600, 3)))


def audit(pool, planes, n_draws, seed, lengths=(600, 600, 600)):
    """So many draws from a frame of each plane: the strata, and the frame and id of every draw."""
    strata, frame_of, ids = [], [], []
    for number, plane in enumerate(planes):
        frame = Frame(pool.prefix(lengths[number]), plane, exclude=ids, seed=1000 * seed + number)
        strata.append(frame.strata)
        for draw in range(n_draws):
            ids.append(
                int(frame.draw(exclude=ids, seed=1_000_000 * (number + 1) + 1000 * seed + draw).ids[0])
            )
            frame_of.append(number)
    return strata, np.array(frame_of), np.array(ids)


AUDITS = scaled(quick=60, all=200)


@pytest.mark.parametrize("planes", [[EARLY], thorough([EARLY, LATE]), [None, EARLY, LATE]])
def test_weights_are_unbiased(pool, planes):
    """Over many audits the weighted sums have the pool's sums as their mean (to four standard errors).

    Of everything there is to count: items, and those above a hyperplane that no frame was made with.
    """
    X = pool.rows(np.arange(600))
    values = np.stack([np.ones(600), X[:, 2] > 0.3, X[:, 0] + X[:, 2] > 1.2])
    sums = []
    for seed in range(AUDITS):
        strata, frame, ids = audit(pool, planes, 40, seed)
        chance = inclusion(strata, frame, ids, X[ids])
        sums.append((values[:, ids] / chance).sum(axis=1))
    error = np.std(sums, axis=0) / np.sqrt(AUDITS)
    assert np.all(np.abs(np.mean(sums, axis=0) - values.sum(axis=1)) < 4 * error)


def test_weights_are_unbiased_across_descriptions(pool):
    """Frames may be made from different features of the same items, as after another description of them.

    The second description has no features of every tenth item, which only the first frame can draw.
    """
    X, Z = pool.rows(np.arange(600)), np.random.default_rng(1).standard_normal((600, 2))
    covered, plane = np.flatnonzero(np.arange(600) % 10), Hyperplane(np.array([0.5, 1.0]), -0.4)
    other = ArrayPool(Z[covered], covered)
    values = np.stack([np.ones(600), X[:, 2] > 0.3, Z[:, 0] > 0.9])
    sums = []
    for seed in range(AUDITS):
        strata, frame, ids = audit(pool, [EARLY], 40, seed)
        second, drawn = Frame(other, plane, exclude=ids, seed=900_000 + seed), list(ids)
        for draw in range(40):
            drawn.append(int(second.draw(exclude=drawn, seed=77_000_000 + 1000 * seed + draw).ids[0]))
        ids, frame = np.array(drawn), np.append(frame, np.ones(40, dtype=int))
        under, is_covered = np.full(80, -1), np.isin(ids, covered)
        rows = other.rows(np.searchsorted(covered, ids[is_covered]))
        under[is_covered] = second.strata.of(ids[is_covered], rows)
        chance = inclusion_by_stratum(
            [*strata, second.strata], frame, ids, [strata[0].of(ids, X[ids]), under]
        )
        sums.append((values[:, ids] / chance).sum(axis=1))
    error = np.std(sums, axis=0) / np.sqrt(AUDITS)
    assert np.all(np.abs(np.mean(sums, axis=0) - values.sum(axis=1)) < 4 * error)


def test_weights_are_unbiased_while_the_pool_grows(pool):
    """Items that join after the first frame are as well represented as the others (to four errors)."""
    X = pool.rows(np.arange(600))
    sums = []
    for seed in range(AUDITS):
        strata, frame, ids = audit(pool, [EARLY, LATE], 40, seed, lengths=(350, 600))
        weights = 1 / inclusion(strata, frame, ids, X[ids])
        sums.append([weights[ids < 350].sum(), weights[ids >= 350].sum()])
    error = np.std(sums, axis=0) / np.sqrt(AUDITS)
    assert np.all(np.abs(np.mean(sums, axis=0) - [350, 250]) < 4 * error)


def test_a_frame_alone_gives_drawn_over_size(pool):
    """The chance is the share of its stratum that was drawn."""
    (strata,), frame, ids = audit(pool, [EARLY], 80, 5)
    X = pool.rows(ids)
    stratum = strata.of(ids, X)
    expected = np.bincount(stratum, minlength=len(strata.sizes)) / strata.sizes
    assert inclusion([strata], frame, ids, X) == pytest.approx(expected[stratum])


def test_later_frames_add_to_the_chance_of_earlier_draws(pool):
    """An item drawn early could have been drawn later, too, unless it joined the pool afterwards."""
    strata, frame, ids = audit(pool, [EARLY, LATE], 40, 1)
    X = pool.rows(ids)
    alone = inclusion(strata[:1], frame[:40], ids[:40], X[:40])
    both = inclusion(strata, frame, ids, X)
    assert (both[:40] >= alone).all()
    assert (both[:40] > alone).any()
    short = [Strata(EARLY, strata[0].cuts, strata[0].sizes, int(ids[:40].max())), strata[1]]
    joined = ids > ids[:40].max()
    late = inclusion(short, frame, ids, X)
    assert (late[joined] < both[joined]).all()
    assert np.array_equal(late[~joined], both[~joined])


def test_all_of_a_stratum_is_certain(pool):
    """Where every item was drawn the chance is 1."""
    (strata,), frame, ids = audit(pool, [EARLY], 600, 0)
    assert inclusion([strata], frame, ids, pool.rows(ids)).tolist() == [1.0] * 600


def test_what_does_not_fit_is_refused(pool):
    """Lengths, numbers of frames, and items that a frame does not have, in a sentence each."""
    X = pool.rows(np.array([3, 4]))
    strata = Frame(pool, EARLY).strata
    with pytest.raises(InputError, match="must be equally long, got 2, 1 and 2"):
        inclusion([strata], [0, 0], [3], X)
    with pytest.raises(InputError, match="item 4 is of frame 1, but only 1 exist"):
        inclusion([strata], [0, 1], [3, 4], X)
    with pytest.raises(InputError, match="item 700 cannot be of frame 0, which ends with item 599"):
        inclusion([strata], [0, 0], [3, 700], X)
    assert inclusion([], [], [], np.empty((0, 3), np.float32)).tolist() == []
