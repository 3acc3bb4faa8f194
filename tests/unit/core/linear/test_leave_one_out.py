"""Leave-one-out from one training, against training anew without each label."""

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.linear.leave_one_out import leave_one_out
from closecall.core.linear.svm import Solution, box, solve, train
from tests.unit.core.linear.test_svm import actively_labeled, answers, rows

C = 1.0


def retrained(X, y):
    """Each label's score under the SVM of the others, and whether they kept their sides."""
    whole = sides(solve(X, y, C=C), y)
    scores, kept = np.empty(len(y)), np.empty(len(y), dtype=bool)
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        solution = solve(X[others], y[others], C=C)
        scores[i] = X[i] @ solution.weights[:-1] + solution.weights[-1]
        kept[i] = np.array_equal(sides(solution, y[others]), whole[others])
    return scores, kept


def sides(solution: Solution, y):
    """0, 1 or 2 for labels at 0, free, or at their upper bound."""
    return np.where(solution.alpha == 0, 0, np.where(solution.alpha < box(y, C, None), 1, 2))


def test_it_is_exact_where_the_other_labels_keep_their_sides():
    """To the accuracy of the solver, whatever side the label itself is on."""
    met = set()
    for seed in range(3):
        X = rows(100, 20, seed, spread=1.0)
        y = answers(X, seed)
        expected, kept = retrained(X, y)
        np.testing.assert_allclose(leave_one_out(X, y, C=C).scores[kept], expected[kept], atol=1e-7)
        met |= set(sides(solve(X, y, C=C), y)[kept])
    assert met == {0, 1, 2}


@pytest.mark.parametrize("seed", range(3))
def test_it_is_close_where_they_do_not(seed):
    """For labels chosen at the margin, nearly all of them support vectors, one of ten wrong."""
    X, y = actively_labeled(150, 40, seed)
    expected, kept = retrained(X, y)
    found = leave_one_out(X, y, C=C).scores
    assert kept.mean() < 0.8
    assert np.corrcoef(found, expected)[0, 1] > 0.98
    assert np.mean((found > 0) == (expected > 0)) > 0.95


def test_no_label_speaks_for_itself():
    """Without it the hyperplane is no better for any label; for some it is worse by far."""
    X, y = actively_labeled(150, 40)
    found = leave_one_out(X, y, C=C)
    lost = np.where(y, 1, -1) * (found.hyperplane.scores(X) - found.scores)
    assert lost.min() >= 0
    assert lost.max() > 0.1


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_the_hyperplane_is_the_one_of_all_labels(class_weight):
    """What is shown beside the scores is the classifier that selects."""
    X = rows(60, 20)
    y = answers(X)
    found = leave_one_out(X, y, C=C, class_weight=class_weight)
    assert found.hyperplane.digest == train(X, y, np.arange(60), C=C, class_weight=class_weight).digest


def test_a_label_that_is_alone_of_its_kind_keeps_its_score():
    """Without it there is no hyperplane that could contradict it."""
    X = rows(20, 10)
    y = np.arange(20) == 7
    found = leave_one_out(X, y, C=C)
    assert found.scores[7] == found.hyperplane.scores(X)[7]


def test_one_kind_of_label_is_refused():
    """As in training."""
    with pytest.raises(InputError, match="at least one yes and one no"):
        leave_one_out(rows(5, 4), np.ones(5, dtype=bool))
