"""The pyramid match in a box, held against its definition, and against the vocabulary that is fitted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.mercer import PyramidBox, PyramidMatch


def scattered(n: int, n_bins: tuple[int, ...], n_points: int = 9, seed: int = 0) -> NDArray[np.float64]:
    """Sets about a few places, so that many points share a bin."""
    rng = np.random.default_rng(seed)
    places = rng.random((4, len(n_bins)))
    near = places[rng.integers(0, 4, (n, n_points))] + rng.normal(0, 0.15, (n, n_points, len(n_bins)))
    return np.clip(near, 0, 1 - 1e-9) * np.array(n_bins)


def matched(a: NDArray[np.float64], b: NDArray[np.float64], n_levels: int) -> float:
    """K̃ by its definition: the pairs that are new at each level, by their weights."""
    total, before = 0.0, 0
    for level in range(n_levels):
        A, B = (Counter(map(tuple, np.floor(own / 2**level).tolist())) for own in (a, b))
        pairs = sum((A & B).values())
        total += (pairs - before) / 2**level
        before = pairs
    return total / len(a)


@pytest.mark.parametrize(
    ("n_bins", "n_levels"), [((8,), 4), ((4, 8), 3), ((6, 2, 10), 2), ((3, 5), 1), ((2, 2, 4, 4, 8), 2)]
)
def test_the_inner_product_is_the_kernel(n_bins: tuple[int, ...], n_levels: int) -> None:
    """Of all pairs of sets, none of which was seen before; a set is like itself."""
    sets = scattered(14, n_bins)
    X = PyramidBox(n_bins=n_bins, most=[9] * n_levels).transform(sets)
    expected = np.array([[matched(a, b, n_levels) for b in sets] for a in sets])
    assert np.allclose((X @ X.T).toarray(), expected, atol=1e-6)
    assert np.allclose(np.diag(expected), 1)
    assert np.ptp(expected) > 0.3
    assert X.dtype == np.float32
    assert X.has_canonical_format
    assert (np.diff(X.indptr) == 9 * n_levels).all()


def test_it_is_the_same_as_fitted() -> None:
    """To all points of the box once; then the vocabulary is the same, in another order."""
    sets = scattered(20, (4, 8))
    corner = np.zeros((9, 2))
    fitted = PyramidMatch(side=1.0, n_levels=3).fit([corner, *sets])
    a, b = fitted.transform(list(sets)), PyramidBox(n_bins=(4, 8), most=(9, 9, 9)).transform(sets)
    assert np.allclose((a @ a.T).toarray(), (b @ b.T).toarray(), atol=1e-6)


def test_a_feature_is_a_level_a_bin_and_a_number_of_points() -> None:
    """By hand: two points in one bin and one in its neighbour, which level 1 joins."""
    box = PyramidBox(n_bins=(4, 2), most=(2, 3))
    X = box.transform([[[0.5, 1.5], [1.2, 1.9], [0.9, 1.0]]])
    assert box.n_features == 8 * 2 + 2 * 3
    assert X.indices.tolist() == [2 * 1, 2 * 1 + 1, 2 * 3, 16, 17, 18]
    assert np.allclose(X.data**2, 1 / 6)
    assert box.transform(np.empty((0, 3, 2))).shape == (0, 22)


def test_all_features_are_within_the_rows() -> None:
    """The corner that is farthest away, in as many points as may be there, has the last one."""
    box = PyramidBox(n_bins=(4, 6), most=(3, 3))
    X = box.transform(np.broadcast_to(np.nextafter([4.0, 6.0], 0), (1, 3, 2)))
    assert X.indices.max() == box.n_features - 1
    assert box.transform(np.zeros((1, 3, 2))).indices.min() == 0


def test_what_is_out_of_range_is_refused() -> None:
    """In one sentence each."""
    for how, sentence in (
        ({"n_bins": (4, 6), "most": (1, 1, 1)}, r"n_bins must be positive multiples of 4 .* got \(4, 6\)"),
        ({"n_bins": (), "most": (1,)}, r"n_bins must be positive multiples of 1 .* got \(\)"),
        ({"n_bins": (4,), "most": ()}, r"most must be at least 1 for each of one or more levels, got \(\)"),
        ({"n_bins": (4,), "most": (2, 0)}, r"most must be at least 1 .* got \(2, 0\)"),
        ({"n_bins": (4096,) * 4, "most": (1,)}, "at most 2³¹ features, got 281,474,976,710,656"),
    ):
        with pytest.raises(InputError, match=sentence):
            PyramidBox(**how)  # type: ignore[arg-type]
    box = PyramidBox(n_bins=(4, 2), most=(2, 3))
    with pytest.raises(InputError, match=r"sets must be of shape \(n_sets, n_points, 2\), got \(3, 2\)"):
        box.transform(np.zeros((3, 2)))
    with pytest.raises(
        InputError, match=r"must be at least 3 for level 0, because .* that many points, got 2"
    ):
        box.transform(np.zeros((1, 3, 2)))
    for bad in (-0.1, 2.0, np.nan, np.inf):
        with pytest.raises(InputError, match=r"points must lie in the box from 0 to \(4, 2\)"):
            box.transform([[[1.0, 1.0], [1.0, bad]]])
