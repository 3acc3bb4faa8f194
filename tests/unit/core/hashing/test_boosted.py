"""Boosted parameter-sensitive hashing: its stumps against brute force, its weights and loss, its pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.hashing.boosted import BoostedPSH, Stumps, between_values, boosted
from closecall.core.hashing.pairs import Pairs, nearest_others
from closecall.core.linear.hyperplane import euclidean

D = 5
ALPHA = 0.3


def rows(n=60, seed=0):
    """Of features that matter unequally, one of them in few values."""
    X = np.random.default_rng(seed).standard_normal((n, D)) * [3, 2, 1, 0.3, 1]
    X[:, 4] = X[:, 4].round()
    return X.astype(np.float32)


def pairs(X, n=120, seed=1):
    return Pairs.by_distance(X, n, 6, np.random.default_rng(seed))


def by_hand(X, given, weights, alpha):
    """All features and thresholds one by one: the error of each, with the β that makes it least."""
    z = np.where(given.near, 1.0, -1.0)
    found = {}
    for e in range(X.shape[1]):
        for T in np.unique(X[given.rows, e])[1:]:
            agree = (X[given.rows[:, 0], e] >= T) == (X[given.rows[:, 1], e] >= T)
            beta = (weights * (z - alpha * agree)).sum() / weights.sum()
            found[e, T] = (weights * (z - alpha * agree - beta) ** 2).sum(), beta, agree
    return found


@pytest.mark.parametrize("alpha", [0.02, ALPHA, 1.0])
def test_a_stump_is_that_of_the_least_error(alpha):
    """Over all features and thresholds, by brute force, under weights of all sizes."""
    X = rows()
    given = pairs(X)
    stumps = Stumps.of(X, given, 10_000)
    for seed in range(8):
        weights = np.random.default_rng(seed).exponential(size=len(given.near)) ** 3
        weights /= weights.sum()
        found, every = stumps.best(weights, alpha), by_hand(X, given, weights, alpha)
        least = min(error for error, _, _ in every.values())
        z = np.where(given.near, 1.0, -1.0)
        own = (weights * (z - alpha * found.agreeing - found.beta) ** 2).sum()
        assert own == pytest.approx(least, rel=1e-9)
        bits = X[given.rows, found.feature] >= np.float32(found.threshold)
        assert np.array_equal(found.agreeing, bits[:, 0] == bits[:, 1])
        _, beta, agreeing = min(every.values(), key=lambda one: one[0])
        assert np.array_equal(found.agreeing, agreeing)
        assert found.beta == pytest.approx(beta, abs=1e-9)


def test_rounds_follow_each_other_as_gentleboost_has_them():
    """Each stump is the best for w = exp(−z·Σ f) of those before, and the loss is the mean of these w."""
    X = rows()
    given = pairs(X)
    stumps = Stumps.of(X, given, 10_000)
    found, losses = boosted(stumps, 12, ALPHA)
    z, total = np.where(given.near, 1.0, -1.0), np.zeros(len(given.near))
    for stump, before in zip(found, losses[:-1], strict=True):
        weights = np.exp(-z * total)
        assert weights.mean() == pytest.approx(before)
        error, beta, agreeing = min(by_hand(X, given, weights, ALPHA).values(), key=lambda one: one[0])
        f = ALPHA * stump.agreeing + stump.beta
        assert (weights * (z - f) ** 2).sum() == pytest.approx(error)
        assert np.array_equal(stump.agreeing, agreeing)
        assert stump.beta == pytest.approx(beta)
        total += f
    assert np.exp(-z * total).mean() == pytest.approx(losses[-1])


def test_the_loss_falls():
    """With every stump, at the α that is the default."""
    losses = BoostedPSH(n_functions=60, n_near=6).fit(rows(300)).losses_
    assert losses[0] == 1
    assert (np.diff(losses) < 0).all()
    assert losses[-1] < 0.7


def test_bits_are_features_above_thresholds():
    """Of the stumps of the same rounds; and a code's Hamming distance counts the stumps that disagree."""
    X = rows(300)
    family = BoostedPSH(n_functions=40, n_near=6).fit(X)
    bits = family.hash_points(X).unpacked().astype(bool)
    assert np.array_equal(bits, X[:, family.features_] >= family.thresholds_)
    assert set(family.features_) > {0, 1}
    shares = bits.mean(axis=0)
    assert ((shares > 0) & (shares < 1)).all()


@pytest.mark.parametrize("neighbours", ["distance", "class"])
def test_it_finds_more_neighbours_than_features_and_medians_by_chance(neighbours):
    """Nearest rows, or those of the same class, which only two features of sixteen tell."""
    rng = np.random.default_rng(2)
    y = np.arange(1500) % 4
    X = rng.standard_normal((1500, 16)).astype(np.float32)
    X[:, :2] *= 4
    if neighbours == "class":
        X[:, 6] += 3 * (y % 2)
        X[:, 9] += 3 * (y // 2)
    Q, own, X, y = X[:100], y[:100], X[100:], y[100:]
    if neighbours == "class":
        wanted = own[:, None] == y
    else:
        wanted = np.zeros((100, len(X)), dtype=bool)
        np.put_along_axis(wanted, np.argsort(euclidean(Q, X), axis=1)[:, :50], True, axis=1)
    family = BoostedPSH(neighbours=neighbours, n_functions=16).fit(X, y)
    bits = [family.hash_points(some).unpacked().astype(int) for some in (X, Q)]
    learned = precision(*bits, wanted)
    chance = []
    for seed in range(10):
        features = np.random.default_rng(seed).integers(16, size=16)
        bits = [(some[:, features] >= np.median(X[:, features], axis=0)).astype(int) for some in (X, Q)]
        chance.append(precision(*bits, wanted))
    assert learned > max(chance)
    assert learned > 1.3 * np.mean(chance)


def precision(points, queries, wanted, k=50):
    """The share of wanted rows among the first k by Hamming distance."""
    unlike = (queries[:, None] != points).sum(axis=2)
    first = np.argsort(unlike, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(wanted, first, axis=1).mean()


def test_pairs_by_distance_are_neighbours_and_others():
    """One of the n_near nearest rows, by brute force, or none of them; half and half."""
    X = rows(200)
    given = Pairs.by_distance(X, 2_000, 7, np.random.default_rng(0))
    far = np.linalg.norm(X[:, None].astype(float) - X, axis=2)
    np.fill_diagonal(far, np.inf)
    rank = far.argsort(axis=1).argsort(axis=1)[given.rows[:, 0], given.rows[:, 1]]
    assert len(given.rows) == 2_000
    assert given.near.sum() == 1_000
    assert np.array_equal(given.near, rank < 7)
    assert (given.rows[:, 0] != given.rows[:, 1]).all()
    assert set(rank[given.near]) == set(range(7))


def test_pairs_by_class_are_of_one_class_and_of_two():
    """Never a row with itself, and none of an unknown class; a class of one row has only others."""
    y = np.array([3, -1, 3, 5, 5, 5, -1, 7, 3])
    given = Pairs.by_class(y, 1_000, np.random.default_rng(0))
    first, second = y[given.rows].T
    assert (first >= 0).all()
    assert (second >= 0).all()
    assert np.array_equal(given.near, first == second)
    assert (given.rows[:, 0] != given.rows[:, 1]).all()
    assert set(second[~given.near]) == {3, 5, 7}
    assert 7 not in first
    assert len(np.unique(given.rows[given.near], axis=0)) == 6 + 6


def test_nearest_others_are_the_nearest():
    """Against sorting all distances."""
    X = rows(100)
    some = np.array([5, 0, 77])
    far = euclidean(X[some], X)
    far[np.arange(3), some] = np.inf
    assert np.array_equal(np.sort(nearest_others(X, some, 9)), np.sort(np.argsort(far, axis=1)[:, :9]))


def test_thresholds_part_values():
    """All of them where they are few, at quantiles where they are many; none of a constant."""
    values = np.array([4, 1, 1, 2, 4, 9], dtype=np.float32)
    assert between_values(values, 3).tolist() == [1.5, 3.0, 6.5]
    assert len(between_values(np.ones(9, dtype=np.float32), 5)) == 0
    many = np.random.default_rng(0).standard_normal(10_001).astype(np.float32)
    shares = (many < between_values(many, 9)[:, None]).mean(axis=1)
    assert shares == pytest.approx(np.arange(1, 10) / 10, abs=2e-4)
    near = np.nextafter(np.float32(1), np.float32([0, 1, 2])).astype(np.float32)
    assert ((near >= between_values(near, 5)[:, None]).sum(axis=1) == [2, 1]).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"neighbours": "colour"}, "neighbours must be one of distance, class, got 'colour'"),
        ({"alpha": 0.0}, "alpha must be positive and finite, got 0.0"),
        ({"alpha": np.inf}, "alpha must be positive and finite, got inf"),
        ({"n_near": 0}, "n_near must be at least 1, got 0"),
        ({"n_pairs": 1}, "n_pairs must be at least 2, got 1"),
        ({"n_thresholds": 0}, "n_thresholds must be from 1 to 10000, got 0"),
    ],
)
def test_parameters_are_checked(words, message):
    """One sentence each."""
    with pytest.raises(InputError, match=message):
        BoostedPSH(**words).fit(rows())


def test_rows_that_tell_nothing_are_refused():
    """Too few, all equal, sparse, or without the classes that were asked for."""
    with pytest.raises(InputError, match=r"at least 3 rows are needed .*, got 2"):
        BoostedPSH().fit(rows(2))
    with pytest.raises(InputError, match="all equal, so no threshold can separate them"):
        BoostedPSH().fit(np.ones((9, 3), dtype=np.float32))
    with pytest.raises(InputError, match="boosted needs dense rows, got sparse ones"):
        BoostedPSH().fit(csr_array(rows()))
    with pytest.raises(InputError, match="boosted needs dense rows, got sparse ones"):
        BoostedPSH(n_functions=5).fit(rows()).queries(csr_array(rows()))
    with pytest.raises(InputError, match="y must be given, got None"):
        BoostedPSH(neighbours="class").fit(rows())
    with pytest.raises(InputError, match="got 30 labels of 1 class"):
        BoostedPSH(neighbours="class").fit(rows(30), np.zeros(30))
