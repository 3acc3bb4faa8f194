"""Near-duplicates, held against the definition row by row and against theory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betainc

from closecall.core.duplicates import Groups, WithHeldOut, near_duplicates, straddling
from closecall.core.duplicates.boxes import LEAF_ROWS, BoxTree
from closecall.core.duplicates.coordinates import SLACK, coordinates
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import ArrayPool
from closecall.core.sources import source_from
from tests.contract.kit import bags, dense_rows
from tests.pools import small_pool


def blobs(n: int, d: int = 24, seed: int = 0) -> ArrayPool:
    """Rows around a quarter as many centers, at all distances from them."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n // 4, d))
    noise = 0.3 * rng.random((n, 1)) * rng.normal(size=(n, d))
    return ArrayPool((centers[rng.integers(0, len(centers), n)] + noise).astype(np.float32))


def by_definition(pool, angle: float) -> Groups:
    """Each row joins the nearest leader before it, or becomes one."""
    X = dense_rows(pool).astype(np.float64)
    limit = (2 * np.sin(angle / 2)) ** 2
    leaders: list[int] = []
    found, squares = np.arange(len(X)), np.zeros(len(X))
    for row, x in enumerate(X):
        apart = ((X[leaders] - x) ** 2).sum(axis=1)
        if len(apart) and apart.min() <= limit:
            found[row], squares[row] = leaders[int(apart.argmin())], apart.min()
        else:
            leaders.append(row)
    return Groups(found, (2 * np.arcsin(np.sqrt(squares) / 2)).astype(np.float32))


@pytest.mark.parametrize("angle", [0.0, 0.1, 0.3, 0.8, 3.0])
def test_groups_are_those_of_the_definition(angle):
    """For angles that join nothing, some or all rows of 3,000."""
    pool = blobs(3000)
    groups, expected = near_duplicates(pool, angle), by_definition(pool, angle)
    assert np.array_equal(groups.leaders, expected.leaders)
    assert np.allclose(groups.angles, expected.angles, atol=1e-6)


def test_sparse_rows_have_groups_too():
    """As texts do."""
    pool = bags(400)
    angle = 0.9
    groups, expected = near_duplicates(pool, angle), by_definition(pool, angle)
    assert groups.n_repeated
    assert np.array_equal(groups.leaders, expected.leaders)


def test_members_are_near_their_leader_and_leaders_are_apart():
    """Groups don't chain: on a circle, where each point has a near neighbour, they stay small."""
    turns = np.linspace(0, 2 * np.pi, 1000, endpoint=False)
    X = np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)
    groups = near_duplicates(ArrayPool(X), 0.1)
    leaders = np.unique(groups.leaders)
    cosines = X[leaders].astype(np.float64) @ X[leaders].T
    assert groups.angles.max() <= 0.1
    assert np.arccos(np.clip(cosines[np.triu_indices(len(leaders), 1)], -1, 1)).min() > 0.1
    assert 2 * np.pi / 0.2 <= len(leaders) <= 2 * np.pi / 0.1


@pytest.mark.parametrize("n_before", [0, 1, 700, 1000])
def test_a_grown_pool_keeps_its_groups(n_before):
    """Going on from the first rows gives the groups of all rows at once."""
    pool = blobs(1000, seed=1)
    whole = near_duplicates(pool, 0.3)
    first = near_duplicates(pool.prefix(n_before), 0.3)
    grown = near_duplicates(pool, 0.3, earlier=first)
    assert np.array_equal(first.leaders, whole.leaders[:n_before])
    assert np.array_equal(grown.leaders, whole.leaders)
    assert np.array_equal(grown.angles, whole.angles)


def test_equal_rows_are_one_group():
    """Even if all are: the number of pairs would be quadratic."""
    pool = ArrayPool(np.tile(np.float32([[3, 4, 0, 1]]), (5000, 1)))
    for angle in (0.0, 0.2):
        groups = near_duplicates(pool, angle)
        assert (groups.leaders == 0).all()
        assert (groups.n_groups, groups.n_repeated) == (1, 4999)


@pytest.mark.parametrize("room", [1, 7])
def test_little_room_for_candidates_loses_none(monkeypatch, room):
    """Buffers that are too small grow, or the rest is done in another pass."""
    pool = blobs(600)
    expected = near_duplicates(pool, 0.5)
    monkeypatch.setattr("closecall.core.duplicates.leaders._ROOM", room)
    assert np.array_equal(near_duplicates(pool, 0.5).leaders, expected.leaders)


def test_planted_copies_are_found_up_to_the_angle():
    """Copies turned by a known angle join their original if and only if it is small enough."""
    rng = np.random.default_rng(2)
    n, d, angle = 1500, 64, 0.2
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    across = rng.normal(size=(n, d))
    across -= (across * X).sum(axis=1, keepdims=True) * X
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    turned = np.linspace(0, 2 * angle, n)[:, None]
    groups = near_duplicates(
        ArrayPool(np.concatenate([X, np.cos(turned) * X + np.sin(turned) * across]).astype(np.float32)), angle
    )
    certain = np.abs(turned[:, 0] - angle) > 1e-5
    assert np.array_equal((groups.leaders[n:] == np.arange(n))[certain], (turned[:, 0] < angle)[certain])
    assert np.allclose(groups.angles[n:][groups.leaders[n:] < n], turned[turned < angle], atol=1e-4)


def test_as_many_random_pairs_as_theory_says():
    """Directions at random on a sphere in d dimensions: P(angle ≤ a) = I(sin² a; (d − 1)/2, 1/2) / 2."""
    n, d, angle = 3000, 6, 0.2
    pool = ArrayPool(np.random.default_rng(3).normal(size=(n, d)).astype(np.float32))
    expected = n * (n - 1) / 2 * betainc((d - 1) / 2, 0.5, np.sin(angle) ** 2) / 2
    assert expected > 50
    found = near_duplicates(pool, angle).n_repeated
    # A row near two leaders is repeated once, so a few pairs are lost beside the Poisson deviation.
    in_two = expected**2 / n
    assert abs(found - expected) < 5 * np.sqrt(expected) + in_two


def test_coordinates_bound_distances_from_below():
    """So that no pair is left out wrongly; the largest are those of the rows' leading directions."""
    pool = blobs(500, d=100)
    P, X = coordinates(pool).astype(np.float64), dense_rows(pool).astype(np.float64)
    exact = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    bounds = np.sqrt(((P[:, None] - P) ** 2).sum(axis=2))
    assert P.shape[1] < X.shape[1]
    assert (bounds <= exact + SLACK).all()
    assert np.median(bounds / (exact + np.eye(len(X)))) > 0.7


@pytest.mark.parametrize("n", [1, 2, LEAF_ROWS, LEAF_ROWS + 1, 1000])
def test_boxes_hold_their_rows(n):
    """Each row is in one leaf, and inside the boxes of all nodes above it."""
    points = np.random.default_rng(4).normal(size=(n, 16)).astype(np.float32)
    tree = BoxTree.of(points)
    n_leaves = len(tree.starts) - 1
    assert np.array_equal(np.sort(tree.order), np.arange(n))
    assert np.array_equal(tree.points, points[tree.order])
    assert np.array_equal(tree.order[tree.slots], np.arange(n))
    for leaf in range(n_leaves):
        inside = tree.points[tree.starts[leaf] : tree.starts[leaf + 1]]
        assert 0 < len(inside) <= LEAF_ROWS
        node = n_leaves + leaf
        while node:
            assert (tree.lower[node] <= inside).all()
            assert (inside <= tree.upper[node]).all()
            node //= 2


@pytest.mark.parametrize("angle", [-0.1, 4.0, float("nan")])
def test_an_impossible_angle(angle):
    """The sentence says what is allowed."""
    with pytest.raises(InputError, match="angle must be from 0 to π"):
        near_duplicates(blobs(40), angle)


def test_groups_of_a_larger_pool_do_not_fit():
    """They are not the groups of the pool's first rows."""
    groups = near_duplicates(blobs(40), 0.1)
    with pytest.raises(InputError, match="earlier has 40 rows, but the pool has only 10"):
        near_duplicates(blobs(40).prefix(10), 0.1, earlier=groups)


def test_groups_list_their_rows():
    """The leader first, then the nearest; groups of one are none."""
    groups = Groups(np.array([0, 1, 0, 0, 4, 1]), np.float32([0, 0, 0.2, 0.1, 0, 0.3]))
    assert [group.tolist() for group in groups.listed()] == [[0, 3, 2], [1, 5]]
    assert groups.members(3).tolist() == [0, 2, 3]
    assert groups.members(4).tolist() == [4]
    assert (groups.n_groups, groups.n_repeated) == (2, 3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_held_out_items_come_after_the_rows_of_a_pool_on_disk(tmp_path, dtype):
    """In several segments; the pool's own groups are the same with and without them."""
    pool: Pool = small_pool(tmp_path / "pool", source_from("digits:300"), dtype=dtype)
    both = WithHeldOut(pool)
    X = np.concatenate([pool.rows(np.arange(len(pool))), pool.held_out.X])
    assert np.array_equal(np.concatenate([block for _, block in both.blocks()]), X)
    some = np.array([len(both) - 1, 3, 250, len(pool)])
    assert np.array_equal(both.rows(some), X[some])
    angle = 0.45
    expected = by_definition(both, angle)
    found = near_duplicates(both, angle)
    assert np.array_equal(found.leaders, expected.leaders)
    assert np.array_equal(found.leaders[: len(pool)], near_duplicates(pool, angle).leaders)
    crossing = straddling(found, len(pool))
    held_out = range(len(pool), len(both))
    assert set(crossing) == {expected.leaders[row] for row in held_out if expected.leaders[row] < len(pool)}
    assert len(crossing)
