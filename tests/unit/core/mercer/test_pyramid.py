"""The pyramid match, held against its definition by plain counting, and hashed."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import stats

from closecall.core.errors import InputError
from closecall.core.experiment.neighbours import voted
from closecall.core.hashing import MetricLSH, RandomHyperplaneLSH, SimilarityHasher
from closecall.core.mercer import PyramidMatch, pyramid
from closecall.core.metric import ITML, Constraints
from closecall.core.selection import ArrayPool
from closecall.core.similar import ExactSearch, HashedSimilarity, nearness_of
from tests.scale import scaled, thorough

ALPHA = 1e-3


def clouds(n: int, *, d: int = 2, seed: int = 0) -> list[np.ndarray]:
    """Sets of 0 to 30 points about a few places, some of them equal."""
    rng = np.random.default_rng(seed)
    places = rng.normal(0, 3, (6, d))
    sets = [places[rng.integers(0, 6, rng.integers(0, 31))] for _ in range(n)]
    return [np.round(own + rng.normal(0, 0.5, own.shape), 1) for own in sets]


def matched(embedding: PyramidMatch, a: np.ndarray, b: np.ndarray) -> float:
    """K by its definition: pairs at each level, the new ones among them, and their weights."""
    total = 0.0
    for origin in embedding.origins_:
        before = 0
        for level in range(embedding.n_levels):
            side = embedding.side_ * 2**level
            A, B = (Counter(tuple(p) for p in np.floor((own - origin) / side).tolist()) for own in (a, b))
            pairs = sum((A & B).values())
            total += (pairs - before) / 2**level
            assert pairs >= before
            before = pairs
    return total / len(embedding.origins_)


def kernel(embedding: PyramidMatch, A: list[np.ndarray], B: list[np.ndarray]) -> np.ndarray:
    """K̃ or K of all pairs, of shape (len(A), len(B)); 0 with a set of no points."""
    K = np.array([[matched(embedding, a, b) if len(a) and len(b) else 0.0 for b in B] for a in A])
    if not embedding.normalised:
        return K
    own = [[matched(embedding, x, x) if len(x) else 1.0 for x in sets] for sets in (A, B)]
    return K / np.sqrt(np.outer(*own))


PARAMS = [
    {},
    {"normalised": False},
    {"n_shifts": 1},
    {"n_shifts": 3},
    {"side": 0.25, "n_levels": 4},
    {"n_levels": 1},
]


@pytest.mark.parametrize(
    ("params", "d"),
    [
        (params, d) if d == 2 or params == {} else thorough(params, d)
        for params, d in product(PARAMS, [1, 2, 5])
    ],
)
def test_the_inner_product_is_the_kernel(d, params, monkeypatch):
    """Of all fitted sets, and of these with new ones, which lie partly elsewhere; however many at once."""
    monkeypatch.setattr(pyramid, "_POINTS_AT_ONCE", 50)
    fitted, new = clouds(14, d=d), clouds(9, d=d, seed=1)
    embedding = PyramidMatch(**params).fit(fitted)
    X, Q = embedding.transform(fitted), embedding.transform(new)
    assert X.shape == (14, embedding.n_features_)
    assert np.allclose((X @ X.T).toarray(), kernel(embedding, fitted, fitted), atol=1e-5)
    assert np.allclose((Q @ X.T).toarray(), kernel(embedding, new, fitted), atol=1e-5)
    assert np.ptp(kernel(embedding, fitted, fitted)[np.triu_indices(14, 1)]) > 0.02


def test_a_set_is_like_itself():
    """K̃ is 1; K the number of points; a point has one feature at each level, and empty sets have none."""
    sets = [own for own in clouds(30) if len(own)]
    X = PyramidMatch(n_levels=5).fit_transform(sets)
    sizes = np.array([len(own) for own in sets])
    assert np.allclose((X @ X.T).diagonal(), 1)
    assert np.array_equal(np.diff(X.indptr), 5 * sizes)
    plain = PyramidMatch(n_levels=5, normalised=False).fit(sets)
    assert np.allclose((plain.transform(sets) @ plain.transform(sets).T).diagonal(), sizes)
    assert plain.transform([np.empty((0, 2)), []]).nnz == 0
    assert plain.transform([]).shape == (0, plain.n_features_)


def test_the_last_level_takes_in_all_that_was_fitted():
    """So of any two sets at least every pair counts there."""
    sets = [own for own in clouds(20) if len(own)]
    embedding = PyramidMatch(n_levels=6, normalised=False)
    X = embedding.fit_transform(sets)
    sizes = [len(own) for own in sets]
    assert ((X @ X.T).toarray() >= np.minimum.outer(sizes, sizes) / 2**5 - 1e-5).all()


def test_the_order_of_the_points_does_not_matter():
    """Nor that of the sets."""
    sets = clouds(12)
    embedding = PyramidMatch(n_shifts=2, random_state=3).fit(sets)
    again = PyramidMatch(n_shifts=2, random_state=3).fit([own[::-1] for own in sets[::-1]])
    assert np.array_equal(
        embedding.transform(sets).toarray(), again.transform([own[::-1] for own in sets]).toarray()
    )
    other = PyramidMatch(n_shifts=2, random_state=4).fit(sets)
    assert not np.array_equal(embedding.origins_, other.origins_)


def test_shifts_pair_what_a_wall_divides():
    """Two near points on two sides of the middle: nearly apart unshifted, near on average."""
    sets = [np.array([[0.0]]), np.array([[0.999]]), np.array([[1.001]]), np.array([[2.0]])]
    K = [PyramidMatch(n_levels=8, n_shifts=n).fit_transform(sets) for n in (0, 400)]
    plain, shifted = ((X[[1]] @ X[[2]].T).toarray().item() for X in K)
    assert plain == pytest.approx(2.0**-7)
    assert shifted > 0.6


def test_collisions_follow_the_kernel():
    """Random hyperplanes over the embedding agree with probability 1 − arccos(K̃)/π."""
    sets, k = [own for own in clouds(8) if len(own)], scaled(quick=8_000, all=20_000)
    sets += [np.concatenate(sets)[::step] for step in (1, 2, 3, 7)]
    embedding = PyramidMatch()
    X = embedding.fit_transform(sets)
    hasher = RandomHyperplaneLSH(centred=False, n_functions=k).fit(X)
    K = kernel(embedding, sets, sets)[np.triu_indices(len(sets), 1)]
    bits = hasher.hash_points(X).unpacked()
    agree = (bits[:, None] == bits[None]).sum(axis=2)[np.triu_indices(len(sets), 1)]
    expected = 1 - np.arccos(np.clip(K, -1, 1)) / np.pi
    low, high = stats.binom.interval(1 - ALPHA / len(K), k, expected)
    assert ((low <= agree) & (agree <= high)).all()
    assert np.ptp(expected) > 0.1


def scenes(n: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Sets of three classes: one point where the class has it, and twenty about places that all have."""
    rng = np.random.default_rng(seed)
    own, common = np.split(np.random.default_rng(99).uniform(0, 16, (13, 2)), [3])
    y = np.arange(n) % 3
    sets = []
    for label in y:
        others = common[rng.integers(0, 10, 20)] + rng.normal(0, 0.4, (20, 2))
        sets.append(np.vstack([own[label] + rng.normal(0, 0.2, 2), others]))
    return sets, y


def test_a_metric_learned_on_top_tells_groups_apart():
    """From sets to sparse rows, an implicit metric, codes that carry it, and k-nn: better than unlearned."""
    (known, y), (asked, wanted) = scenes(scaled(quick=300, all=600), 0), scenes(150, 1)
    embedding = PyramidMatch(n_levels=6)
    pool = ArrayPool(embedding.fit_transform(known))
    Q, some = embedding.transform(asked), pool.rows(np.arange(90))
    pairs = Constraints.from_labels(some, y[:90], n_pairs=400)
    metric = ITML(max_passes=50).fit(some, pairs).metric_
    families: dict[str, SimilarityHasher] = {
        "plain": RandomHyperplaneLSH(),
        "learned": MetricLSH(metric=metric),
    }
    right = {}
    for name, family in families.items():
        family.fit(pool.rows(np.arange(len(known))))
        exact = ExactSearch(nearness_of(pool, family))
        hashed = HashedSimilarity.built(pool, family, structure="tables", n_compared=60, n_candidates=50)
        for search in (exact, hashed):
            votes = [voted(y[search.neighbours(Q[[i]], 5).ids]) for i in range(150)]
            right[name, search is hashed] = np.mean(np.array(votes) == wanted)
    for by_codes in (False, True):
        assert right["learned", by_codes] > right["plain", by_codes] + 0.05


@pytest.mark.parametrize(
    ("params", "sets", "message"),
    [
        ({"n_levels": 0}, [np.ones((2, 2))], "n_levels must be from 1 to 31, got 0"),
        ({"side": 0.0}, [np.ones((2, 2))], "side must be positive and finite, got 0"),
        ({"side": np.inf}, [np.ones((2, 2))], "side must be positive and finite, got inf"),
        ({"n_shifts": -1}, [np.ones((2, 2))], "n_shifts must be at least 0, got -1"),
        ({"random_state": -1}, [np.ones((2, 2))], "random_state must be at least 0, got -1"),
        ({}, [], "needs at least one point to fit, got none in 0 sets"),
        ({}, [np.empty((0, 2))], "got none in 1 sets"),
        ({}, [np.ones((2, 2)), np.ones((2, 3))], r"shape \(n_points, 2\), got \(2, 3\) for set 1"),
        ({}, [np.ones(3)], r"shape \(n_points, 3\), got \(3,\) for set 0"),
        ({}, [np.ones((2, 2)), np.array([[1, np.nan]])], "points must be finite, but set 1 has NaN"),
        ({"side": 1e-9}, [np.array([[0.0], [1e3]])], "at most 2,147,483,648 bins .* got 1e-09"),
    ],
)
def test_what_cannot_be_embedded_is_refused(params, sets, message):
    """In one sentence."""
    with pytest.raises(InputError, match=message):
        PyramidMatch(**params).fit(sets)
