import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from core.agreement import cohen_kappa


@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_the_one_of_the_literature(seed):
    """As scikit-learn computes it, whatever the two say."""
    rng = np.random.default_rng(seed)
    first = rng.random(50) < 0.3
    second = np.where(rng.random(50) < 0.2 * seed, rng.random(50) < 0.5, first)
    assert cohen_kappa(first, second) == pytest.approx(cohen_kappa_score(first, second))


def test_kappa_is_unknown_where_chance_explains_everything():
    """Two who only ever say no agree, but that tells nothing."""
    no = np.zeros(9, dtype=bool)
    assert cohen_kappa(no, no) is None
    assert cohen_kappa(no[:0], no[:0]) is None
    assert cohen_kappa(no, ~no) == 0
