"""Spectral hashing against the Laplacian of a rectangle, analytic and of a graph."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import ortho_group

from closecall.core.errors import InputError
from closecall.core.experiment.retrieval import retrieve
from closecall.core.hashing import RandomHyperplaneLSH, SpectralHash
from closecall.core.hashing.spectral import least_modes

SIDES = np.array([1.6, 1.0])
STEPS = np.array([48, 30])
D = 5


def grid(finer: int = 1) -> np.ndarray:
    """Points spread evenly over a rectangle, in the middles of cells."""
    axes = [side * (np.arange(n) + 0.5) / n for side, n in zip(SIDES, finer * STEPS, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)


def turned(P: np.ndarray) -> np.ndarray:
    """The same points somewhere in five dimensions."""
    Q = ortho_group.rvs(D, random_state=1)
    return (P @ Q[: P.shape[1]] + np.arange(D)).astype(np.float32)


def analytic(P: np.ndarray, k: int, axis: int) -> np.ndarray:
    """Equation 22 of points of the grid, measured from where the box begins."""
    a, b = P[:, axis].min(), P[:, axis].max()
    return np.sin(np.pi / 2 + k * np.pi / (b - a) * (P[:, axis] - a))


def up_to_sign(one: np.ndarray, other: np.ndarray) -> float:
    return float(min(np.abs(one - other).max(), np.abs(one + other).max()))


def test_on_a_rectangle_they_are_the_analytic_eigenfunctions() -> None:
    """A principal direction may point either way, which turns the sign of odd modes; eigenvalues ascend."""
    P, n = grid(), 9
    family = SpectralHash(n_functions=n).fit(turned(P))
    edges = np.ptp(P, axis=0)
    expected = sorted(((k * np.pi / edges[axis]) ** 2, k, axis) for k in range(1, n + 1) for axis in (0, 1))
    np.testing.assert_allclose(family.eigenvalues, [value for value, _, _ in expected[:n]], rtol=1e-5)
    found = family.eigenfunctions(turned(P))
    for own, (_, k, axis) in zip(found.T, expected[:n], strict=True):
        assert up_to_sign(own, analytic(P, k, axis)) < 1e-4


def test_they_are_eigenvectors_of_the_graph_laplacian() -> None:
    """Of D − W, W = exp(−‖x_i − x_j‖²/ε²): cosines above 0.995, eigenvalues within 5 % of 1 − exp(−ε²ω²/4).

    The products that spectral hashing leaves out stand among them, and are told apart by their eigenvalue:
    ω² is the sum of both factors'.
    """
    P, epsilon, n = grid(), 0.05, 8
    X = turned(P)
    squares = ((P[:, None] - P[None]) ** 2).sum(axis=2)
    W = np.exp(-squares / epsilon**2)
    degrees = W.sum(axis=1)
    values, vectors = np.linalg.eigh(np.diag(degrees) - W)
    all_of_them = sorted(
        ((k * np.pi / SIDES[0]) ** 2 + (m * np.pi / SIDES[1]) ** 2, k, m) for k in range(9) for m in range(9)
    )[1 : n + 1]
    expected = 1 - np.exp(-(epsilon**2) / 4 * np.array([omega for omega, _, _ in all_of_them]))
    np.testing.assert_allclose(values[1 : n + 1] / degrees.max(), expected, rtol=0.05)
    family = SpectralHash(n_functions=n).fit(X)
    functions = family.eigenfunctions(X)
    functions /= np.linalg.norm(functions, axis=0)
    single = [place for place, (_, k, m) in enumerate(all_of_them, 1) if k == 0 or m == 0]
    assert len(single) == 5
    for own, place in zip(functions.T, single, strict=False):
        assert abs(own @ vectors[:, place]) > 0.995


def test_bits_are_signs_and_balanced() -> None:
    """Each is one for half of what is spread evenly; functions are uncorrelated, signs of odd modes are not.

    sign(cos u)·sign(cos 3u) is −1 for two thirds of a turn: modes 1 and 3 of one direction.
    """
    X = turned(grid(5))
    family = SpectralHash(n_functions=7).fit(X)
    bits = family.hash_points(X).unpacked()
    assert np.array_equal(bits, family.eigenfunctions(X) >= 0)
    signs = 2.0 * bits - 1
    assert np.abs(signs.mean(axis=0)).max() < 0.02
    functions = family.eigenfunctions(X).astype(np.float64)
    np.testing.assert_allclose(functions.T @ functions / len(X), np.eye(7) / 2, atol=0.02)
    same = family.columns_[:, None] == family.columns_
    both = np.sort([np.broadcast_to(family.modes_, same.shape), family.modes_[:, None] + 0 * same], axis=0)
    third = same & (both[0] == 1) & (both[1] == 3)
    assert third.any()
    np.testing.assert_allclose(signs.T @ signs / len(X), np.eye(7) - third / 3, atol=0.02)


def test_the_least_modes_are_those_of_a_full_sort() -> None:
    """Of all edges and modes; of equal ones that of the first edge."""
    rng = np.random.default_rng(2)
    for lengths in (rng.uniform(0.1, 3, 6), np.array([1.0, 2.0, 1.0, 4.0]), np.array([0.5])):
        for n in (1, 3, 40):
            pairs = sorted((k / length, edge, k) for edge, length in enumerate(lengths) for k in range(1, 50))
            edges, modes = least_modes(lengths, n)
            assert edges.tolist() == [edge for _, edge, _ in pairs[:n]]
            assert modes.tolist() == [k for _, _, k in pairs[:n]]


def test_a_direction_in_which_nothing_differs_has_no_bit() -> None:
    """However many functions there are; and rows that are all the same cannot be hashed."""
    X = np.random.default_rng(3).uniform(size=(500, 4)).astype(np.float32)
    X[:, 2] = 0.3
    family = SpectralHash(n_functions=300).fit(X)
    assert family.directions_.shape == (4, 3)
    np.testing.assert_allclose(family.directions_[2], 0, atol=1e-6)
    with pytest.raises(InputError, match="spectral needs rows that differ, got 20 equal rows"):
        SpectralHash().fit(np.repeat(X[:1], 20, axis=0))


def test_more_functions_than_directions_cut_ever_more_finely() -> None:
    """Mode k of a single edge changes its sign at (2j − 1)/2k of it, and nowhere else."""
    x = np.linspace(0, 1, 2001, dtype=np.float32)[:, None]
    bits = SpectralHash(n_functions=10).fit(x).hash_points(x).unpacked().astype(int)
    for k, column in enumerate(bits.T, 1):
        changes = np.flatnonzero(np.diff(column)) / 2000
        np.testing.assert_allclose(changes, (2 * np.arange(1, k + 1) - 1) / (2 * k), atol=1e-3)


def test_too_many_functions_drown_what_few_tell() -> None:
    """Of six directions 256 functions find fewer of the nearest than twelve do."""
    rng = np.random.default_rng(9)
    X, Q = rng.standard_normal((1000, 6)), rng.standard_normal((50, 6))
    assert found(SpectralHash(n_functions=256), X, Q) < found(SpectralHash(n_functions=12), X, Q) - 0.1


def found(family: SpectralHash | RandomHyperplaneLSH, X: np.ndarray, Q: np.ndarray) -> float:
    """The share of the nearest twentieth of the rows that is among the first tenth by code."""
    n = len(X) // 20
    near = np.argsort(((Q[:, None] - X[None]) ** 2).sum(axis=2), axis=1)[:, :n]
    codes, queries = family.fit(X).hash_points(X), family.hash_queries(Q)
    unknown = [np.full(len(rows), -1, np.int16) for rows in (X, Q)]
    return float(retrieve(codes, queries, near, *unknown).neighbours_found([2 * n]).mean())


def test_beyond_the_box_waves_do_not_go_on() -> None:
    """A point there has the code of the nearest one in the box."""
    X = np.random.default_rng(4).uniform(size=(400, 1)).astype(np.float32)
    family = SpectralHash(n_functions=20).fit(X)
    beyond = np.array([[-5], [X.min()], [X.max()], [7]], dtype=np.float32)
    below, least, greatest, above = family.hash_points(beyond).packed
    assert np.array_equal(below, least)
    assert np.array_equal(above, greatest)
    assert not np.array_equal(below, above)


@pytest.mark.parametrize("trim", [0.0, 0.03])
def test_edges_are_where_the_rows_are(trim: float) -> None:
    """From the least to the greatest projection, or as far as all but a share of the rows go."""
    X = np.random.default_rng(5).standard_normal((3000, 3)).astype(np.float32) * [3, 2, 1]
    family = SpectralHash(n_functions=40, trim=trim).fit(X)
    along = np.sort(X @ family.directions_, axis=0)
    least, greatest = along[round(trim * 2999)], along[round((1 - trim) * 2999)]
    np.testing.assert_allclose(family.starts_, least, atol=0.01)
    np.testing.assert_allclose(family.lengths_, greatest - least, atol=0.02)


@pytest.mark.parametrize("trim", [-0.1, 0.5, float("nan")])
def test_a_share_that_leaves_nothing_is_refused(trim: float) -> None:
    """The sentence says what is allowed."""
    with pytest.raises(InputError, match=r"trim must be at least 0 and below 0.5, got"):
        SpectralHash(trim=trim).fit(grid())


def test_sparse_rows_get_the_bits_of_dense_ones() -> None:
    """Also where only the directions of the greatest variance are looked for."""
    rng = np.random.default_rng(6)
    X = (rng.uniform(size=(1500, 12)) * 0.7 ** np.arange(12)).astype(np.float32)
    X[rng.uniform(size=X.shape) < 0.3] = 0
    for n in (5, 30):
        dense, sparse = SpectralHash(n_functions=n).fit(X), SpectralHash(n_functions=n).fit(csr_array(X))
        differing = dense.hash_points(X).unpacked() != sparse.hash_points(csr_array(X)).unpacked()
        assert differing.mean() < 1e-3
        np.testing.assert_allclose(dense.between(X[:9], X), sparse.between(csr_array(X[:9]), X), atol=1e-6)


def test_between_is_the_euclidean_distance() -> None:
    """By differences."""
    X = np.random.default_rng(7).standard_normal((30, 6)).astype(np.float32)
    expected = np.linalg.norm(X[:5, None].astype(np.float64) - X[None], axis=2)
    np.testing.assert_allclose(SpectralHash().fit(X).between(X[:5], X), expected, atol=1e-6)


def test_on_a_rectangle_few_bits_find_more_than_random_hyperplanes() -> None:
    """As the survey's figure 13 has it: of 8 bits, on average over draws of vectors."""
    rng = np.random.default_rng(8)
    X, Q = (turned(rng.uniform(size=(n, 2)) * SIDES) for n in (3000, 100))
    random = [found(RandomHyperplaneLSH(n_functions=8, random_state=seed), X, Q) for seed in range(10)]
    assert found(SpectralHash(n_functions=8), X, Q) > np.mean(random) + 0.1
