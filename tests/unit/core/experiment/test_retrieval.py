"""What codes retrieve, against brute force over many orders of equal codes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import average_precision_score

from closecall.core.errors import InputError
from closecall.core.experiment.retrieval import among_first, retrieve
from closecall.core.hashing import Codes
from tests.scale import scaled, thorough

N, N_QUERIES, N_NEAR = 300, 12, 6
RETRIEVED = [1, 2, 7, 40, 150, N]


def drawn(n_bits: int, per_function: int = 1, seed: int = 0):
    """Bits of rows and queries, each query's neighbours, the rows' classes and the queries'."""
    rng = np.random.default_rng(seed)
    points, queries = (rng.random((n, n_bits * per_function)) < 0.5 for n in (N, N_QUERIES))
    near = np.array([rng.choice(N, N_NEAR, replace=False) for _ in range(N_QUERIES)])
    classes, own = (rng.integers(-1, 3, n).astype(np.int16) for n in (N, N_QUERIES))
    return points, queries, near, classes, own


def retrieved(points, queries, *others, per_function: int = 1):
    codes = (Codes.from_bits(bits, per_function) for bits in (points, queries))
    return retrieve(*codes, *others)


@pytest.mark.parametrize("n_bits", [4, thorough(64), 200])
def test_curves_are_means_over_all_orders_of_equal_codes(n_bits):
    """In many random orders of the rows: the nearest, all neighbours, and the class."""
    points, queries, near, classes, own = drawn(n_bits)
    found = retrieved(points, queries, near, classes, own)
    distances = np.rint(cdist(queries, points, "hamming") * n_bits)
    rng = np.random.default_rng(1)
    counted = {"nearest": np.zeros((N_QUERIES, N)), "near": np.zeros((N_QUERIES, N)), "alike": None}
    counted["alike"] = np.zeros((N_QUERIES, N))
    orders = scaled(quick=1_000, all=3_000)
    for _ in range(orders):
        order = np.lexsort((rng.random((N_QUERIES, N)), distances), axis=1)
        counted["nearest"] += order == near[:, :1]
        counted["near"] += (order[:, :, None] == near[:, None, :]).any(axis=2)
        counted["alike"] += (classes[order] == own[:, None]) & (own[:, None] >= 0)
    places = np.array(RETRIEVED) - 1
    by_hand = {name: counts.cumsum(axis=1)[:, places] / orders for name, counts in counted.items()}
    np.testing.assert_allclose(found.nearest_found(RETRIEVED), by_hand["nearest"], atol=0.05)
    np.testing.assert_allclose(found.neighbours_found(RETRIEVED), by_hand["near"] / N_NEAR, atol=0.05)
    np.testing.assert_allclose(found.precision(RETRIEVED), by_hand["alike"] / RETRIEVED, atol=0.05)


def test_all_rows_are_at_some_distance():
    """Each once; among all of them are all neighbours, and whoever is alike."""
    points, queries, near, classes, own = drawn(20)
    found = retrieved(points, queries, near, classes, own)
    assert (found.rows.sum(axis=1) == N).all()
    assert (found.neighbours_found([N]) == 1).all()
    assert found.alike.sum(axis=1).tolist() == [int((classes == c).sum()) if c >= 0 else 0 for c in own]


@pytest.mark.parametrize("n_bits", [3, thorough(12), 64])
def test_average_precision_is_the_mean_over_all_orders_of_equal_codes(n_bits):
    """In many random orders of the rows, by scikit-learn; 0 for queries of unknown class."""
    points, queries, near, classes, own = drawn(n_bits)
    found = retrieved(points, queries, near, classes, own).average_precision()
    distances = np.rint(cdist(queries, points, "hamming") * n_bits)
    rng, orders = np.random.default_rng(1), scaled(quick=60, all=200)
    assert (found[own < 0] == 0).all()
    for query in np.flatnonzero(own >= 0)[: scaled(quick=5, all=N_QUERIES)]:
        alike = classes == own[query]
        by_hand = [
            average_precision_score(alike, -(distances[query] + 0.9 * rng.random(N))) for _ in range(orders)
        ]
        assert found[query] == pytest.approx(np.mean(by_hand), abs=4 * np.std(by_hand) / orders**0.5 + 1e-12)


@pytest.mark.parametrize("per_function", [2, 4, 8])
def test_functions_of_several_bits_count_as_a_whole(per_function):
    """They differ in one bit or in all of them: that is the same."""
    points, queries, *others = drawn(21, per_function)
    found = retrieved(points, queries, *others, per_function=per_function)
    values = (bits.reshape(len(bits), 21, per_function) for bits in (points, queries))
    p, q = values
    distances = (q[:, None] != p[None]).any(axis=3).sum(axis=2)
    assert np.array_equal(found.neighbours, np.take_along_axis(distances, others[0], axis=1))
    assert found.rows.tolist() == [np.bincount(row, minlength=22).tolist() for row in distances]


def test_three_bits_a_function_are_refused():
    """They would lie across words."""
    points, queries, *others = drawn(21, 3)
    with pytest.raises(InputError, match="must have 1, 2, 4, … bits a function to be compared, got 3"):
        retrieved(points, queries, *others, per_function=3)


def test_empty_distances_change_nothing():
    """The line goes on to the next distance at which there are rows."""
    rows, wanted = np.array([[0, 2, 0, 0, 4]]), np.array([[0, 1, 0, 0, 1]])
    assert among_first(rows, wanted, [0, 1, 2, 4, 6]).tolist() == [[0, 0.5, 1, 1.5, 2]]
