from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from closecall.core.errors import InputError
from closecall.core.evaluation.auroc import HeldOutScorer, auroc, compare_auroc
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.held_out import HeldOut


@pytest.mark.parametrize("share", [0.5, 0.01, 0.95])
@pytest.mark.parametrize("levels", [None, 5])
def test_it_is_the_area_under_the_curve(share, levels):
    """Also with rare positives, and with many ties."""
    rng = np.random.default_rng(int(100 * share))
    y = rng.random(2000) < share
    scores = rng.normal(size=2000) + y
    if levels:
        scores = np.round(scores * levels) / levels
    assert auroc(scores, y) == pytest.approx(roc_auc_score(y, scores), abs=1e-12)


def test_a_perfect_order_a_reversed_one_and_none():
    """1, 0 and one half."""
    y = np.array([False, False, True, True])
    assert auroc([1, 2, 3, 4], y) == 1
    assert auroc([4, 3, 2, 1], y) == 0
    assert auroc([1, 1, 1, 1], y) == 0.5


def test_one_kind_alone_has_no_area():
    """There is no pair to put in order."""
    assert auroc([1.0, 2.0], [True, True]) is None
    assert auroc([1.0, 2.0], [False, False]) is None
    assert auroc([], []) is None


@pytest.fixture
def held_out():
    rng = np.random.default_rng(5)
    truth = rng.integers(-1, 3, 1300).astype(np.int16)
    return HeldOut(np.arange(1300), rng.normal(size=(1300, 6)).astype(np.float32), truth)


def test_held_out_items_of_known_class_count(held_out):
    """As scikit-learn has it for their scores; items of unknown class are left out."""
    planes = [Hyperplane(np.random.default_rng(n).normal(size=6), n / 3) for n in range(3)]
    known = held_out.truth >= 0
    expected = [
        roc_auc_score(held_out.truth[known] == 1, plane.scores(held_out.X[known])) for plane in planes
    ]
    assert HeldOutScorer(held_out, 1)(planes) == pytest.approx(expected, abs=1e-6)


def test_a_hyperplane_is_worth_the_same_whatever_the_others(held_out):
    """To the last bit, however many are measured together."""
    planes = [Hyperplane(np.random.default_rng(n).normal(size=6), 0) for n in range(5)]
    scorer = HeldOutScorer(held_out, 0)
    assert scorer(planes) == [scorer([plane])[0] for plane in planes]
    assert scorer([]) == []


def test_sparse_items_are_worth_what_they_are_dense(held_out):
    """Up to what float32 rounds; items of unknown class are left out here, too."""
    X = np.where(held_out.X > 0.5, held_out.X, 0).astype(np.float32)
    planes = [Hyperplane(np.random.default_rng(n).normal(size=6), 0) for n in range(3)]
    dense = HeldOutScorer(HeldOut(held_out.ids, X, held_out.truth), 2)
    sparse = HeldOutScorer(HeldOut(held_out.ids, csr_array(X), held_out.truth), 2)
    assert sparse(planes) == pytest.approx(dense(planes), abs=1e-4)


def test_without_a_held_out_yes_there_is_no_figure(held_out):
    """Class 7 is none of theirs."""
    assert HeldOutScorer(held_out, 7)([Hyperplane(np.ones(6), 0)]) == [None]


def test_the_covariance_of_two_areas_is_that_of_drawing_again():
    """DeLong's estimate against a bootstrap of the items, each kind by itself; the values are `auroc`'s."""
    rng = np.random.default_rng(4)
    y = np.arange(900) < 250
    common = rng.normal(size=900) + 0.8 * y
    scores = np.stack([common + 0.6 * rng.normal(size=900), common + 0.9 * rng.normal(size=900)])
    scores[1] = np.round(scores[1], 1)
    values, covariance = compare_auroc(scores, y)
    assert values == pytest.approx([auroc(own, y) for own in scores])
    drawn = []
    for _ in range(3000):
        rows = np.concatenate([rng.choice(np.flatnonzero(kind), kind.sum()) for kind in (y, ~y)])
        drawn.append([auroc(own[rows], y[rows]) for own in scores])
    assert covariance == pytest.approx(np.cov(np.array(drawn).T), rel=0.12)


def test_too_few_of_a_kind_have_no_covariance():
    with pytest.raises(InputError, match="at least two yes and two no, got 1 yes and 3 no"):
        compare_auroc([[1.0, 2, 3, 4]], [True, False, False, False])
