from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from closecall.core.errors import InputError
from closecall.core.evaluation.auroc import auroc, compare_auroc


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
