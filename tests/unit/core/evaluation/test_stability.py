from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from closecall.core.errors import InputError
from closecall.core.evaluation.stability import (
    agreement,
    cross_validated_accuracy,
    held_out_scores,
    stop_set,
    within_margin,
)
from closecall.core.learning.round import Labels
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.svm import train
from closecall.core.selection import ArrayPool
from tests.precision import rounding


def labels_of(n, *, wrong=0.0, seed=0, n_features=6):
    """Two clouds of unit rows, a share of whose answers is wrong."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    X = rng.standard_normal((n, n_features)).astype(np.float32)
    X[:, 0] += np.where(y, 3, -3)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return Labels(rng.permutation(10 * n)[:n], X, y ^ (rng.random(n) < wrong))


def test_no_label_has_a_part_in_its_own_score():
    """Each score is that of an SVM trained on other labels: giving one the other answer leaves it the same.

    All folds stay, since the item changes between yes and no with a twin.
    """
    labels = labels_of(60)
    before = held_out_scores(labels)
    assert np.isfinite(before).all()
    for place in np.flatnonzero(labels.y)[:3]:
        others = [i for i in range(60) if i != place]
        rest = train(labels.X[others], labels.y[others], labels.ids[others])
        assert before[place] != pytest.approx(rest.scores(labels.X[[place]])[0], rel=1e-9)
        X = labels.X.copy()
        X[place] = -X[place]
        moved = held_out_scores(Labels(labels.ids, X, labels.y))
        hyperplane_times_x, bias = (before[place] - moved[place]) / 2, (before[place] + moved[place]) / 2
        assert (moved[place], before[place]) == pytest.approx(
            (bias - hyperplane_times_x, bias + hyperplane_times_x)
        )
        same = np.isclose(moved, before, rtol=0, atol=1e-12)
        assert 11 <= same.sum() + 1 <= 13


def test_with_as_many_folds_as_labels_each_is_left_out():
    """Leave-one-out: the score under the SVM of all the others, where both kinds are equally frequent."""
    labels = labels_of(40)
    scores = held_out_scores(labels, folds=40)
    for place in range(40):
        others = np.arange(40) != place
        alone = train(labels.X[others], labels.y[others], labels.ids[others])
        assert scores[place] == pytest.approx(alone.scores(labels.X[[place]])[0])


def test_accuracy_tells_wrong_answers():
    """Of labels that can be learned nearly all are predicted; where 20 % are wrong, about 80 %."""
    assert cross_validated_accuracy(labels_of(400)) > 0.97
    assert cross_validated_accuracy(labels_of(400, wrong=0.2), C=0.1) == pytest.approx(0.8, abs=0.06)
    rng = np.random.default_rng(9)
    luck = Labels(np.arange(400), labels_of(400).X, rng.random(400) < 0.5)
    assert cross_validated_accuracy(luck) == pytest.approx(0.5, abs=0.1)


def test_the_order_of_labels_does_not_matter():
    """Scores move with their labels, but for the order in which a processor sums the products of a row."""
    labels = labels_of(50, wrong=0.1)
    order = np.random.default_rng(1).permutation(50)
    turned = held_out_scores(Labels(labels.ids[order], labels.X[order], labels.y[order]))
    expected = held_out_scores(labels)[order]
    most = 2 * len(labels)  # of ‖w‖ + |b|: rows have unit norm, and all Cᵢ add up to the number of labels
    wrong = 2 * rounding(labels.X.shape[1] + 1, np.float64) * most
    assert np.allclose(turned, expected, rtol=0, atol=wrong)


def test_every_fold_has_its_share_of_a_rare_answer():
    """With as many yes as folds each fold has one, so every label can be scored; with one yes not all can."""
    labels = labels_of(100)
    few = np.concatenate([np.flatnonzero(labels.y)[:5], np.flatnonzero(~labels.y)])
    rare = Labels(labels.ids[few], labels.X[few], labels.y[few])
    assert np.isfinite(held_out_scores(rare)).all()
    assert np.isnan(held_out_scores(Labels(rare.ids[4:], rare.X[4:], rare.y[4:]))[0])
    assert cross_validated_accuracy(Labels(rare.ids[5:], rare.X[5:], rare.y[5:])) is None
    assert cross_validated_accuracy(Labels(rare.ids[:0], rare.X[:0], rare.y[:0])) is None


def test_one_fold_is_refused():
    """It would leave nothing to train on."""
    with pytest.raises(InputError, match="folds must be at least 2, got 1"):
        held_out_scores(labels_of(20), folds=1)


def test_items_within_the_margin_are_counted():
    """As many as brute force counts, without the excluded ones; ids that the pool doesn't have do no harm."""
    rng = np.random.default_rng(0)
    pool = ArrayPool(rng.standard_normal((900, 5)), np.arange(0, 1800, 2))
    plane = Hyperplane(2 * rng.standard_normal(5), 0.3)
    inside = np.abs(plane.scores(pool.rows(np.arange(900)))) < 1
    assert within_margin(pool, plane) == inside.sum()
    assert within_margin(pool, plane, exclude=pool.ids[::3]) == inside.sum() - inside[::3].sum()
    assert within_margin(pool, plane, exclude=[1, 3, 5000]) == inside.sum()
    assert 0 < inside.sum() < 900


def test_the_stop_set_is_a_random_sample():
    """Different rows, the same ones for the same seed, and all rows of a small pool."""
    pool = ArrayPool(np.random.default_rng(0).standard_normal((500, 4)))
    some = stop_set(pool, 100)
    assert len(np.unique(some, axis=0)) == 100
    assert np.array_equal(some, stop_set(pool, 100))
    assert not np.array_equal(some, stop_set(pool, 100, seed=1))
    assert np.array_equal(stop_set(pool), pool.rows(np.arange(500)))


def test_a_pool_that_grows_keeps_what_it_can_of_the_stop_set(monkeypatch):
    """New items displace some of those that were there, in proportion to their number; no block matters."""
    angles = np.arange(8000) / 8000
    pool = ArrayPool(np.column_stack([np.cos(angles), np.sin(angles)]))

    def items(n_rows):
        some = stop_set(pool.prefix(n_rows), 1000)
        return np.rint(8000 * np.arctan2(some[:, 1], some[:, 0])).astype(int)

    former = items(4000)
    monkeypatch.setattr("closecall.core.evaluation.stability._HASHED_IDS", 700)
    assert np.array_equal(items(4000), former)
    now = items(8000)
    assert len(now) == 1000
    assert (np.diff(now) > 0).all()
    assert set(now[now < 4000].tolist()) <= set(former.tolist())
    assert 420 < np.count_nonzero(now >= 4000) < 580  # five standard deviations around a half


@pytest.mark.parametrize("share", [0.5, 0.01])
def test_agreement_is_cohens_kappa(share):
    """As scikit-learn computes it."""
    rng = np.random.default_rng(2)
    before = rng.random(5000) < share
    now = before ^ (rng.random(5000) < share / 4)
    assert agreement(before, now) == pytest.approx(cohen_kappa_score(before, now))
    assert agreement(before, before) == 1
    assert agreement(before, ~before) < 0
    assert abs(agreement(before, rng.random(5000) < share)) < 0.1


def test_one_answer_for_all_is_no_agreement():
    """Nothing can be told from it, whichever answer it is."""
    none = np.zeros(50, dtype=bool)
    assert np.isnan(agreement(none, none))
    assert np.isnan(agreement(~none, ~none))
    assert agreement(none, ~none) == 0


@pytest.mark.parametrize(("before", "now"), [([True], [True, False]), ([], []), ([[True]], [[True]])])
def test_what_cannot_be_compared_is_refused(before, now):
    """Different lengths, or nothing."""
    with pytest.raises(InputError, match="before and now must have the same length, at least 1"):
        agreement(before, now)
