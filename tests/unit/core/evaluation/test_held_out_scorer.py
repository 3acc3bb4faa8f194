from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import average_precision_score, roc_auc_score

from closecall.core.evaluation.held_out_scorer import HeldOutScorer
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.held_out import HeldOut


@pytest.fixture
def held_out():
    rng = np.random.default_rng(5)
    truth = rng.integers(-1, 3, 1300).astype(np.int16)
    return HeldOut(np.arange(1300), rng.normal(size=(1300, 6)).astype(np.float32), truth)


def test_held_out_items_of_known_class_count(held_out):
    """As scikit-learn has it for their scores; items of unknown class are left out."""
    planes = [Hyperplane(np.random.default_rng(n).normal(size=6), n / 3) for n in range(3)]
    known = held_out.truth >= 0
    y = held_out.truth[known] == 1
    scores = [plane.scores(held_out.X[known]) for plane in planes]
    found = HeldOutScorer(held_out, 1)(planes)
    assert [one.auroc for one in found] == pytest.approx([roc_auc_score(y, own) for own in scores], abs=1e-6)
    expected = [average_precision_score(y, own) for own in scores]
    assert [one.average_precision for one in found] == pytest.approx(expected, abs=1e-6)


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
    assert np.array(sparse(planes)) == pytest.approx(np.array(dense(planes)), abs=1e-3)


def test_without_a_held_out_yes_there_is_no_figure(held_out):
    """Class 7 is none of theirs."""
    assert HeldOutScorer(held_out, 7)([Hyperplane(np.ones(6), 0)]) == [(None, None, None)]
