from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from closecall.core.evaluation.average_precision import average_precision


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
