"""Collision probabilities against their formulas, and candidate rates through the real tables.

One point at each of 20 angles from one hyperplane is hashed by many functions. Functions are independent,
so the collisions at an angle are binomial, and each count must lie in its interval; the intervals together
hold with probability 1 − ALPHA for right code. The seeds are fixed. Whether the check can fail is tested,
too: with formulas and with hashing that are wrong on purpose.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from closecall.core.hashing import BHHash, Codes, EHHash, HHash
from closecall.core.hashing.collision import dense_agrees, pair_agrees, product_agrees, rank_agrees
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.search import HashTable
from tests.scale import scaled, thorough

ALPHA = 1e-3
N_FUNCTIONS = scaled(quick=10_000, all=20_000)
D = 7
ANGLES = np.linspace(0.03, 0.97, 20) * np.pi

FAMILIES = {
    "H": HHash(n_functions=N_FUNCTIONS),
    "BH": BHHash(n_functions=N_FUNCTIONS),
    "EH, dense": EHHash(n_functions=N_FUNCTIONS, rank="dense"),
    "EH, rank 1": EHHash(n_functions=N_FUNCTIONS, rank=1),
    "EH, rank 2": EHHash(n_functions=N_FUNCTIONS, rank=2),
    "EH, rank 4": EHHash(n_functions=N_FUNCTIONS, rank=4),
    "H, few directions": HHash(n_functions=N_FUNCTIONS, n_directions=3),
}
every_family = pytest.mark.parametrize("family", FAMILIES)


def within(counts, n, probabilities) -> bool:
    """Whether all of these counts out of n are what such probabilities give."""
    low, high = stats.binom.interval(1 - ALPHA / len(counts), n, probabilities)
    return bool(((low <= counts) & (counts <= high)).all())


def setting(hasher, seed=0):
    """A fitted hasher, a hyperplane, and the points at `ANGLES` from it, once both are augmented.

    The augmentation is written out here once more: [x − μ, c] and [w, (b + wᵀμ)/c], by directions P if
    there are.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((500, D)).astype(np.float32) + 2
    hasher.fit(X)
    mu, c = X.mean(axis=0, dtype=np.float64), hasher.augmentation_.constant
    P = np.eye(D) if hasher.n_directions is None else hasher.augmentation_.directions.astype(np.float64)
    normal = rng.standard_normal(D)
    # Nearly through the mean: points, whose last coordinate is c > 0, can then be at any angle.
    plane = Hyperplane(normal, 0.03 * c * np.linalg.norm(P.T @ normal) - normal @ mu)
    q = np.append(P.T @ plane.normal, (plane.bias + plane.normal @ mu) / c)
    points = [mu + P @ vector_at(angle, q, rng, last=c)[:-1] for angle in ANGLES]
    return hasher, plane, np.array(points, dtype=np.float32)


def vector_at(angle, q, rng, last):
    """A random vector that encloses `angle` with q and whose last coordinate is `last`."""
    while True:
        aside = rng.standard_normal(len(q))
        aside -= aside @ q / (q @ q) * q
        z = np.cos(angle) * q / np.linalg.norm(q) + np.sin(angle) * aside / np.linalg.norm(aside)
        if z[-1] > 0.02:
            return z * last / z[-1]


def agreements(points: Codes, query: Codes) -> np.ndarray:
    """In how many functions, pairs of bits as wholes, each point agrees with the query."""
    same = points.unpacked() == query.unpacked()
    return same.reshape(len(points), points.n_functions, points.bits).all(axis=2).sum(axis=1)


@cache
def hashed(family):
    """The hasher, the hyperplane, and the codes of the points."""
    hasher, plane, points = setting(FAMILIES[family])
    return hasher, plane, hasher.hash_points(points)


@cache
def counted(family):
    """The hasher and its agreements at each angle."""
    hasher, plane, codes = hashed(family)
    return hasher, agreements(codes, hasher.hash_hyperplane(plane))


@every_family
def test_collisions_are_as_frequent_as_the_formula_says(family):
    """At 20 angles, by the family's own formula."""
    hasher, counts = counted(family)
    assert within(counts, N_FUNCTIONS, hasher.collision_probability(ANGLES))


def test_the_families_formulas_are_those_of_the_papers():
    """Written out once more, and at the angles where they are plain."""
    t = ANGLES / np.pi
    assert np.allclose(HHash().collision_probability(ANGLES), 1 / 4 - (t - 1 / 2) ** 2)
    dense = EHHash(rank="dense", n_directions=1).fit(np.eye(3, dtype=np.float32))
    assert np.allclose(dense.collision_probability(ANGLES), np.arccos(np.cos(ANGLES) ** 2) / np.pi)
    bh = BHHash().fit(np.eye(3, dtype=np.float32))
    assert np.allclose(bh.collision_probability(ANGLES), 1 / 2 - 2 * (t - 1 / 2) ** 2)
    for rank in (1, 2, 3, 8, 100):
        at = rank_agrees([0.0, np.pi / 2, np.pi], rank)
        assert np.allclose(at, [0, 0.5, 0], atol=1e-9)


@pytest.mark.parametrize("rank", [2, thorough(3), thorough(4), 8])
def test_the_rank_r_formula_agrees_with_simulated_quadratic_forms(rank):
    """Pr[sign aᵀb ≠ sign a'ᵀb'] for correlated Gaussian vectors, by simulation that knows no formula."""
    rng = np.random.default_rng(rank)
    n = 40_000
    counts = []
    for angle in ANGLES:
        a, b, e, f = rng.standard_normal((4, n, rank))
        turned_a = np.cos(angle) * a + np.sin(angle) * e
        turned_b = np.cos(angle) * b + np.sin(angle) * f
        counts.append((((a * b).sum(axis=1) >= 0) != ((turned_a * turned_b).sum(axis=1) >= 0)).sum())
    assert within(np.array(counts), n, rank_agrees(ANGLES, rank))


def test_the_rank_r_formula_lies_between_bh_and_dense_and_tends_to_dense():
    """Rank 1 is BH-Hash; the higher the rank, the nearer to the dense form."""
    assert np.allclose(rank_agrees(ANGLES, 1), product_agrees(ANGLES))
    by_rank = np.array([rank_agrees(ANGLES, rank) for rank in (1, 2, 4, 8, 32, 2000)])
    assert (np.diff(by_rank, axis=0) < 1e-9).all()
    assert np.allclose(by_rank[-1], dense_agrees(ANGLES), atol=2e-4)
    # Near π/2 the loss is c_r·δ²/π: the share of the dense form's signal that the documentation states.
    delta = 1e-2
    kept = [
        (0.5 - float(rank_agrees(np.pi / 2 + delta, rank))) * np.pi / delta**2 for rank in (1, 2, 4, 8, 16)
    ]
    assert np.round(kept, 2).tolist() == [0.64, 0.79, 0.88, 0.94, 0.97]


WRONG = {
    "1/4 − θ/π": lambda angles: np.clip(1 / 4 - angles / np.pi, 0, 1),
    "the square forgotten": lambda angles: 1 / 4 - np.abs(angles / np.pi - 1 / 2) / 2,
    "BH's for H": product_agrees,
    "the point's collision with a point": lambda angles: (1 - angles / np.pi) ** 2,
    "cos instead of cos²": lambda angles: np.arccos(np.abs(np.cos(angles))) / np.pi,
    "H's for BH and EH": pair_agrees,
    "BH's for EH": product_agrees,
    "dense for rank 2": dense_agrees,
}


@pytest.mark.parametrize(
    ("family", "wrong"),
    [
        ("H", "1/4 − θ/π"),
        ("H", "the square forgotten"),
        ("H", "BH's for H"),
        ("H", "the point's collision with a point"),
        ("BH", "H's for BH and EH"),
        ("BH", "dense for rank 2"),
        ("EH, dense", "cos instead of cos²"),
        ("EH, dense", "BH's for EH"),
        ("EH, rank 2", "dense for rank 2"),
        ("EH, rank 2", "BH's for EH"),
    ],
)
def test_a_wrong_formula_fails_the_check(family, wrong):
    """The check above tells the right formula from each of these."""
    _, counts = counted(family)
    assert not within(counts, N_FUNCTIONS, WRONG[wrong](ANGLES))


@pytest.mark.parametrize("family", ["H", "BH", "EH, dense", "EH, rank 4"])
def test_a_query_hashed_like_a_point_fails_the_check(family):
    """Leaving out the turned sign, the essence of hyperplane hashing, does not go unnoticed."""
    hasher, plane, codes = hashed(family)
    query = hasher.hash_hyperplane(plane).unpacked()[0].astype(bool)
    forgotten = query ^ (np.arange(len(query)) % hasher.bits == hasher.bits - 1)
    counts = agreements(codes, Codes.from_bits(forgotten[None], hasher.bits))
    assert not within(counts, N_FUNCTIONS, hasher.collision_probability(ANGLES))


def test_centring_forgotten_for_the_query_fails_the_check():
    """A bias that misses wᵀμ gives other angles than the points have."""
    hasher, plane, codes = hashed("H")
    mu = hasher.augmentation_.centre.astype(np.float64)
    shifted = Hyperplane(plane.normal, plane.bias - float(plane.normal @ mu))
    counts = agreements(codes, hasher.hash_hyperplane(shifted))
    assert not within(counts, N_FUNCTIONS, hasher.collision_probability(ANGLES))


@pytest.mark.parametrize(
    ("family", "width"),
    [("H", 2), thorough("H", 3), ("BH", 3), thorough("EH, dense", 3), ("EH, rank 4", 4)],
)
def test_candidates_come_out_of_the_real_tables_at_the_rate_p_to_the_width(family, width):
    """A point is in the query's bucket with probability p^width, and not with p^(width ± 1)."""
    hasher, plane, codes = hashed(family)
    n_tables, query = N_FUNCTIONS // width, hasher.query(plane)
    counts = np.zeros(len(ANGLES))
    # No function is in two tables, so they are independent.
    for functions in np.arange(n_tables * width).reshape(n_tables, width):
        counts[HashTable.of_functions(codes, functions).bucket(query)] += 1
    p = hasher.collision_probability(ANGLES)
    assert within(counts, n_tables, p**width)
    assert not within(counts, n_tables, p ** (width - 1))
    assert not within(counts, n_tables, p ** (width + 1))


@pytest.mark.thorough
def test_a_sampled_query_keeps_the_stated_share_of_the_signal():
    """By Lemma 3.4 with the rescaling, about (1 + d²/(2t))^(−1/2) of what a whole query would give."""
    t, d, n_functions, n_planes = 800, 40, 400, 20
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, d - 1)).astype(np.float32)
    angle = 0.35 * np.pi
    shares = []
    for seed in range(10):
        hasher = EHHash(
            rank="dense", query_samples=t, n_functions=n_functions, centred=False, random_state=seed
        ).fit(X)
        c = hasher.augmentation_.constant
        for _ in range(n_planes):
            q = rng.standard_normal(d)
            point = vector_at(angle, q, rng, last=c)[None, :-1].astype(np.float32)
            code = hasher.hash_hyperplane(Hyperplane(q[:-1], q[-1] * c))
            shares.append(agreements(hasher.hash_points(point), code)[0] / n_functions)
    kept = (0.5 - np.array(shares)) / (0.5 - float(dense_agrees(angle)))
    error = kept.std(ddof=1) / np.sqrt(len(kept))
    expected = (1 + d**2 / (2 * t)) ** -0.5
    assert kept.mean() == pytest.approx(expected, abs=4 * error)
    assert expected + 8 * error < 1
