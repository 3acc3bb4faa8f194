"""Sets of local features: what they take, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.mercer import LocalFeatures


def test_distances_are_euclidean() -> None:
    """And infinite from a feature to itself, which is nobody's neighbour of its own."""
    own = LocalFeatures.of([4, 4, 0], [[0, 0], [3, 4], [0, 1]])
    far = np.inf
    assert own.distances() == pytest.approx(
        np.array([[far, 5, 1], [5, far, np.sqrt(18)], [1, np.sqrt(18), far]])
    )
    assert own.scales.tolist() == [1, 1, 1]


def test_an_image_may_have_no_features() -> None:
    """However its empty lists look."""
    for positions in ([], np.empty((0, 2)), np.empty((0, 3))):
        assert LocalFeatures.of([], positions).distances().shape == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5], [[0, 0]]), r"words must be integers of shape \(n_features,\), got float64 of shape \(1,\)"),
        (([[1]], [[0, 0]]), r"got int64 of shape \(1, 1\)"),
        (([-1, 3], np.zeros((2, 2))), "words must be from 0 to 2,147,483,646, got some from -1 to 3"),
        (([2**31 - 1], [[0, 0]]), "got some from 2147483647 to 2147483647"),
        (([1, 2], [[0, 0]]), r"positions must be of shape \(n_features, n_dimensions\) for 2 words, got"),
        (([1], [0]), r"got \(1,\)"),
        (([1], [[0, np.nan]]), "positions must be finite"),
        (([1], [[0, 0]], [1, 2]), r"scales must be of shape \(1,\), as the words, got \(2,\)"),
        (([1], [[0, 0]], [0]), "scales positive and finite"),
        (([1], [[0, 0]], [np.nan]), "scales positive and finite"),
    ],
)
def test_what_is_no_set_of_features_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    """In one sentence."""
    with pytest.raises(InputError, match=message):
        LocalFeatures.of(*arguments)
