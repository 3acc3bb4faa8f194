from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_curve

from closecall.core.evaluation.precision_recall import average_precision, recall_at_precision


@pytest.mark.parametrize("share", [0.5, 0.01, 0.95])
@pytest.mark.parametrize("levels", [None, 5])
def test_it_is_the_area_under_the_steps_of_precision_and_recall(share, levels):
    """As scikit-learn has it; also with rare positives, and with many ties."""
    rng = np.random.default_rng(int(100 * share))
    y = rng.random(2000) < share
    scores = rng.normal(size=2000) + y
    if levels:
        scores = np.round(scores * levels) / levels
    assert average_precision(scores, y) == pytest.approx(average_precision_score(y, scores), abs=1e-12)


def test_a_perfect_order_a_reversed_one_and_none():
    """By hand; where all scores are equal, it is the share of positives."""
    y = np.array([False, False, True, True])
    assert average_precision([1, 2, 3, 4], y) == 1
    assert average_precision([4, 3, 2, 1], y) == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert average_precision([1, 1, 1, 1], y) == 0.5


def test_one_kind_alone_has_none():
    assert average_precision([1.0, 2.0], [True, True]) is None
    assert average_precision([1.0, 2.0], [False, False]) is None
    assert average_precision([], []) is None
    assert recall_at_precision([1.0, 2.0], [True, True], 0.9) is None


@pytest.mark.parametrize("share", [0.5, 0.02])
@pytest.mark.parametrize("levels", [None, 5])
@pytest.mark.parametrize("least", [0.3, 0.9, 0.999])
def test_the_recall_is_the_largest_on_the_curve(share, levels, least):
    """Of scikit-learn's curve, without its last point, which belongs to no threshold."""
    rng = np.random.default_rng(int(100 * share))
    y = rng.random(2000) < share
    scores = rng.normal(size=2000) + 2 * y
    if levels:
        scores = np.round(scores * levels) / levels
    precision, recall, _ = precision_recall_curve(y, scores)
    reached = recall[:-1][precision[:-1] >= least]
    assert recall_at_precision(scores, y, least) == pytest.approx(max(reached, default=0))


def test_without_such_a_precision_there_is_no_recall():
    """The highest scores are of negatives."""
    assert recall_at_precision([3.0, 2.0, 1.0], [False, True, True], 0.9) == 0


def test_weighted_positives_are_repeated_ones():
    """Three of each positive, and a weight of 3."""
    rng = np.random.default_rng(2)
    y = rng.random(300) < 0.2
    scores = np.round(rng.normal(size=300) + y, 1)
    more = np.concatenate([scores, scores[y], scores[y]]), np.concatenate([y, y[y], y[y]])
    assert average_precision(scores, y, weight=3) == pytest.approx(average_precision(*more))
    assert recall_at_precision(scores, y, 0.6, weight=3) == pytest.approx(recall_at_precision(*more, 0.6))
