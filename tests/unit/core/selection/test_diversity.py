from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from closecall.core.selection import ArrayPool
from closecall.core.selection.diversity import diverse, typical_angle


def angles(X: np.ndarray) -> np.ndarray:
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    return np.arccos(np.clip(unit @ unit.T, -1, 1))


@given(
    rows=st.lists(st.tuples(*[st.integers(-2, 2)] * 3).filter(any), min_size=1, max_size=25),
    n=st.integers(1, 30),
    degrees=st.sampled_from([0, 1, 20, 40, 80, 170]),
)
def test_the_first_are_taken_that_are_far_enough_from_those_taken(rows, n, degrees):
    """In order, and those too near to one only when none is left that is not: the furthest first."""
    X = np.array(rows, dtype=np.float32)
    least = max(np.radians(degrees), 1e-3)
    between = angles(X.astype(np.float64))
    expected: list[int] = []
    for item in range(len(X)):
        if len(expected) < n and all(between[item, other] > least for other in expected):
            expected.append(item)
    taken = diverse(X, n, np.radians(degrees)).tolist()
    assert taken == sorted(set(taken))
    assert len(taken) == min(n, len(X))
    if len(expected) == len(taken):
        assert taken == expected
    else:
        assert set(expected) < set(taken)
        others = [item for item in range(len(X)) if item not in taken]
        added = [item for item in taken if item not in expected]
        nearest = [between[item, expected].min() for item in range(len(X))]
        assert not others or max(nearest[item] for item in added) >= max(nearest[o] for o in others) - 1e-6


def test_the_typical_angle_is_the_median_of_all_pairs():
    """Also where the rows lean to one side; a pool of one item has none."""
    assert typical_angle(ArrayPool(np.eye(5))) == pytest.approx(np.pi / 2)
    assert typical_angle(ArrayPool(np.ones((1, 4)))) == 0
    assert typical_angle(ArrayPool(np.ones((9, 4)))) == pytest.approx(0, abs=1e-7)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5_000, 30)) + 2 * np.eye(30)[0] * np.sqrt(30)
    some = angles(X[:1_000])[np.triu_indices(1_000, 1)]
    assert typical_angle(ArrayPool(X)) == pytest.approx(np.median(some), rel=0.05)
