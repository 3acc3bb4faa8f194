"""What every similarity family promises, see `core.hashing.similarity`. A new one is a line in `VARIANTS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.hashing import (
    FAMILIES,
    BoostedPSH,
    Codes,
    DeepCodes,
    KernelizedLSH,
    KernelPCALSH,
    LearnedKernelHash,
    MetricLSH,
    MinHash,
    NystromLSH,
    RandomHyperplaneLSH,
    ShiftInvariantHash,
    SimilarityHasher,
    SpectralHash,
    SupervisedKernelHash,
)
from closecall.core.hashing.base import BLOCK_ROWS
from closecall.core.hashing.pool import hash_rows
from closecall.core.linear.hyperplane import unit_rows
from closecall.core.metric import ITML, Constraints, Metric
from closecall.core.numerics.rows import Rows, cut, is_sparse
from closecall.core.search import SIMILARITY_STRUCTURES, built_for_points
from closecall.core.search.tables import Guarantee
from tests.scale import scaled, thorough

D = 6
K = 70
"""Functions of a family, unless a test needs another number."""
ALPHA = 1e-3


def leaning(n: int, seed: int = 0) -> Rows:
    """Unit rows about a common direction, in three groups, as GIST rows are."""
    rng = np.random.default_rng([seed, 1])
    centres = 2 + np.random.default_rng(5).standard_normal((3, D))
    X = centres[np.arange(n) % 3] + 0.7 * rng.standard_normal((n, D))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def histograms(n: int, seed: int = 0) -> Rows:
    """Rows of non-negative numbers with the sum 1, in three groups."""
    rng = np.random.default_rng([seed, 2])
    centres = np.random.default_rng(5).dirichlet(np.ones(D), 3)
    return rng.dirichlet(np.ones(D), n).astype(np.float32) * 0.5 + 0.5 * centres[np.arange(n) % 3].astype(
        "f4"
    )


def bags(n: int, seed: int = 0) -> Rows:
    """Sparse unit rows of a few positive numbers, as texts have them, in three groups."""
    X = histograms(n, seed)
    X[X < 0.1] = 0
    return csr_array(X / np.linalg.norm(X, axis=1, keepdims=True))


@dataclass(frozen=True)
class Variant:
    """How to make a family of k functions with a seed, and rows that suit it."""

    make: Callable[[int, int], SimilarityHasher]
    data: Callable[..., Rows] = leaning
    random: bool = True
    """Whether the seed matters."""
    telling: int = scaled(quick=K, all=256)
    """How many functions tell near from far, of such rows; more may tell less."""


@cache
def metric(data: Callable[..., Rows], form: str = "auto") -> Metric:
    """Learned from labels of such rows."""
    X = data(60, 7)
    return ITML(form=form).fit(X, Constraints.from_labels(X, classes(60))).metric_  # type: ignore[arg-type]


STEPS = scaled(quick={"n_steps": 100, "n_tuning": 50}, all={"n_steps": 300, "n_tuning": 150})
"""Of learning a deep code."""

VARIANTS = {
    "lsh": Variant(lambda k, seed: RandomHyperplaneLSH(n_functions=k, random_state=seed)),
    "lsh, not centred": Variant(
        lambda k, seed: RandomHyperplaneLSH(centred=False, n_functions=k, random_state=seed)
    ),
    "klsh": Variant(
        lambda k, seed: KernelizedLSH(
            n_landmarks=50, n_sampled=20, centred=False, n_functions=k, random_state=seed
        ),
        histograms,
    ),
    "klsh, low rank, transformed": Variant(
        lambda k, seed: KernelizedLSH(
            kernel="intersection:scale=5",
            n_landmarks=50,
            n_sampled=20,
            rank=8,
            n_functions=k,
            random_state=seed,
        ),
        histograms,
    ),
    "klsh, rbf": Variant(
        lambda k, seed: KernelizedLSH(
            kernel="rbf:gamma=2", n_landmarks=50, n_sampled=20, n_functions=k, random_state=seed
        )
    ),
    "kpca-lsh": Variant(
        lambda k, seed: KernelPCALSH(n_landmarks=50, n_functions=k, random_state=seed), histograms
    ),
    "nystrom-lsh": Variant(
        lambda k, seed: NystromLSH(n_landmarks=50, n_functions=k, random_state=seed), histograms
    ),
    "ksh": Variant(
        lambda k, seed: SupervisedKernelHash(n_anchors=30, n_steps=20, n_functions=k, random_state=seed)
    ),
    "ksh, chi2": Variant(
        lambda k, seed: SupervisedKernelHash(
            kernel="chi2:scale=5", n_anchors=30, n_labels=50, n_steps=20, n_functions=k, random_state=seed
        ),
        histograms,
    ),
    "ksh-learned": Variant(
        lambda k, seed: LearnedKernelHash(
            n_anchors=30, n_steps=20, n_constrained=40, n_pairs=100, n_functions=k, random_state=seed
        )
    ),
    "lsh, sparse": Variant(lambda k, seed: RandomHyperplaneLSH(n_functions=k, random_state=seed), bags),
    "metric-lsh": Variant(
        lambda k, seed: MetricLSH(metric=metric(leaning, "explicit"), n_functions=k, random_state=seed)
    ),
    "metric-lsh, implicit": Variant(
        lambda k, seed: MetricLSH(
            metric=metric(leaning, "implicit"), centred=False, n_functions=k, random_state=seed
        )
    ),
    "metric-lsh, sparse": Variant(
        lambda k, seed: MetricLSH(metric=metric(bags), n_functions=k, random_state=seed), bags
    ),
    "spectral": Variant(
        lambda k, seed: SpectralHash(n_functions=k, random_state=seed), random=False, telling=12
    ),
    "spectral, trimmed": Variant(
        lambda k, seed: SpectralHash(trim=0.05, n_functions=k, random_state=seed), random=False, telling=12
    ),
    "spectral, sparse": Variant(
        lambda k, seed: SpectralHash(n_functions=k, random_state=seed), bags, random=False, telling=12
    ),
    "shift-invariant": Variant(lambda k, seed: ShiftInvariantHash(n_functions=k, random_state=seed)),
    "shift-invariant, given gamma": Variant(
        lambda k, seed: ShiftInvariantHash(gamma=3.0, n_functions=k, random_state=seed)
    ),
    "shift-invariant, sparse": Variant(
        lambda k, seed: ShiftInvariantHash(n_functions=k, random_state=seed), bags
    ),
    "min-hash": Variant(lambda k, seed: MinHash(n_functions=k, random_state=seed), bags),
    "min-hash, one bit": Variant(lambda k, seed: MinHash(bits=1, n_functions=k, random_state=seed), bags),
    "min-hash, weighted": Variant(
        lambda k, seed: MinHash(weighted=True, bits=8, n_functions=k, random_state=seed), bags
    ),
    "boosted": Variant(lambda k, seed: BoostedPSH(n_pairs=1000, n_functions=k, random_state=seed)),
    "boosted, by class": Variant(
        lambda k, seed: BoostedPSH(neighbours="class", n_pairs=1000, n_functions=k, random_state=seed)
    ),
    "rbm": Variant(
        lambda k, seed: DeepCodes(layers=(60,), **STEPS, most_passes=150, n_functions=k, random_state=seed)
    ),
    "rbm, by class": Variant(
        lambda k, seed: DeepCodes(
            layers=(60,),
            neighbours="class",
            **STEPS,
            most_passes=150,
            n_functions=k,
            random_state=seed,
        )
    ),
}
OF_EACH_KIND = {
    *(name for name in VARIANTS if "," not in name),
    "klsh, low rank, transformed",
    "lsh, sparse",
    "metric-lsh, sparse",
    "min-hash, one bit",
    "boosted, by class",
}
"""Every family, and what others have besides; the other variants combine what these have."""


def of(names: Iterable[str]) -> list:
    """Parameters: of some variants all, but for the scale `quick` those of each kind."""
    return [name if name in OF_EACH_KIND else thorough(name) for name in names]


every_family = pytest.mark.parametrize("name", of(VARIANTS))


def classes(n: int) -> np.ndarray:
    """The groups of the rows above; those of every fourth row are unknown."""
    return np.where(np.arange(n) % 4 == 0, -1, np.arange(n) % 3)


@cache
def fitted(name: str, k: int = K, seed: int = 0) -> SimilarityHasher:
    variant = VARIANTS[name]
    return variant.make(k, seed).fit(variant.data(300), classes(300))


def shares(points: Codes, queries: Codes) -> np.ndarray:
    """The share of functions that agree as a whole, of shape (n_queries, n_points)."""
    k, bits = points.n_functions, points.bits
    P, Q = (codes.unpacked().reshape(-1, 1, k, bits) for codes in (points, queries))
    return np.array([(q == P).all(axis=3).mean(axis=2)[:, 0] for q in Q])


def same_rows(A: Rows, B: Rows) -> bool:
    return bool(np.array_equal(A.toarray(), B.toarray()) if is_sparse(A) else np.array_equal(A, B))


def test_every_family_is_in_the_suite():
    """And listed under its own name."""
    made = {variant.make(5, 0).name for variant in VARIANTS.values()}
    assert made == {VARIANTS[name].make(5, 0).name for name in OF_EACH_KIND} == set(FAMILIES)
    assert all(cls.name == name for name, cls in FAMILIES.items())


@every_family
def test_rows_that_a_family_is_not_for_are_refused(name):
    """`takes` says which: they never make codes, and the sentence names dense or sparse rows."""
    variant = VARIANTS[name]
    family, own = variant.make(8, 0), "sparse" if is_sparse(variant.data(2)) else "dense"
    assert family.takes in ("all", own)
    if family.takes != "all":
        with pytest.raises(InputError, match=f"{family.takes} rows"):
            family.fit(histograms(100) if own == "sparse" else bags(100), classes(100))


@every_family
def test_codes_have_the_shape_that_was_asked_for(name):
    """For points and queries, and for no points at all."""
    family, X = fitted(name), VARIANTS[name].data(9)
    for codes in (family.hash_points(X), family.hash_queries(X)):
        assert (len(codes), codes.n_functions, codes.bits) == (9, K, family.bits)
    assert len(family.hash_points(cut(X, 0, 0))) == 0
    assert len(family.queries(cut(X, 0, 2))) == 2


@every_family
def test_a_code_is_a_function_of_the_row_alone(name):
    """Whatever follows it, and however the pool is cut into segments; in another place but for rounding."""
    family, X = fitted(name), VARIANTS[name].data(BLOCK_ROWS + 300)
    codes = family.hash_points(X)
    whole = codes.packed
    for first, end in ((0, 1), (0, 700), (0, BLOCK_ROWS + 200), (BLOCK_ROWS, BLOCK_ROWS + 300)):
        assert np.array_equal(family.hash_points(cut(X, first, end)).packed, whole[first:end])
    shifted = family.hash_points(cut(X, 100, BLOCK_ROWS + 200)).unpacked()
    assert (shifted != codes.unpacked()[100 : BLOCK_ROWS + 200]).mean() < 1e-4
    blocks = [(first, cut(X, first, first + 700)) for first in range(0, BLOCK_ROWS + 300, 700)]
    assert np.array_equal(hash_rows(family, blocks, X.shape[0], lambda _: None).packed, whole)


@every_family
def test_the_seed_decides(name):
    """The same seed gives the same codes, and another one others, where anything is random."""
    variant, X = VARIANTS[name], VARIANTS[name].data(100, 3)
    again, other = (variant.make(K, seed).fit(variant.data(300), classes(300)) for seed in (0, 1))
    first, again, other = (family.hash_points(X).packed for family in (fitted(name), again, other))
    assert np.array_equal(first, again)
    assert np.array_equal(first, other) is not variant.random


@every_family
def test_what_is_saved_is_loaded(name):
    """By plain arrays and parameters, with nothing left out."""
    family, X = fitted(name), VARIANTS[name].data(50, 3)
    arrays = family.arrays()
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in arrays.values())
    again = FAMILIES[family.name](**family.params()).restored(arrays)
    assert np.array_equal(again.hash_points(X).packed, family.hash_points(X).packed)
    assert np.array_equal(again.hash_queries(X).packed, family.hash_queries(X).packed)
    assert np.array_equal(again.between(X, X), family.between(X, X))
    for mine, theirs in zip(family.queries(X), again.queries(X), strict=True):
        assert np.array_equal(mine.weights, theirs.weights)
        assert np.array_equal(mine.code.packed, theirs.code.packed)


@every_family
def test_fitting_and_hashing_leave_the_rows_alone(name):
    """No array that is passed in is changed."""
    variant = VARIANTS[name]
    X, untouched = variant.data(100), variant.data(100)
    variant.make(20, 0).fit(X, classes(100)).queries(X)
    assert same_rows(X, untouched)


@every_family
def test_a_query_is_the_code_of_its_row(name):
    """One by one or many together; and no code is less unlike the query than its own."""
    family, X = fitted(name), VARIANTS[name].data(60, 3)
    points, hashed = family.hash_points(X).unpacked(), family.hash_queries(X)
    for i, query in enumerate(family.queries(X)):
        assert np.array_equal(query.code.packed, hashed.packed[i : i + 1])
        alone = family.queries(cut(X, i, i + 1))[0]
        assert np.allclose(alone.weights, query.weights, rtol=1e-4, atol=1e-4)
        unlike = query.offset + (2.0 * points - 1) @ query.weights
        own = query.offset + (2.0 * query.code.unpacked()[0] - 1) @ query.weights
        assert unlike.min() >= own - 1e-3


@every_family
@pytest.mark.parametrize("structure", SIMILARITY_STRUCTURES)
def test_structures_find_a_point_by_itself(name, structure):
    """Any family with any structure, asked by weights and by disagreements; but balls are of single bits."""
    family, X = fitted(name, K if structure != "ball" else 30), VARIANTS[name].data(200, 3)
    codes = family.hash_points(X)
    if structure == "ball" and family.bits > 1:
        with pytest.raises(InputError, match=f"functions of 1 bit, got 30 functions of {family.bits}"):
            SIMILARITY_STRUCTURES[structure].build(codes, None, n_compared=60, n_bytes=10**5, seed=0)
        return
    built = SIMILARITY_STRUCTURES[structure].build(codes, None, n_compared=60, n_bytes=10**5, seed=0)
    for i, query in enumerate(family.queries(cut(X, 0, 20))):
        for measure in ("weights", "disagreements"):
            found = built.candidates(query, 5, n_compared=60, measure=measure)
            assert np.array_equal(codes.packed[found[0]], codes.packed[i])


@every_family
def test_the_nearer_the_more_functions_agree(name):
    """For every query the points that agree most are nearer than the median, on average over queries."""
    variant = VARIANTS[name]
    family = fitted(name, variant.telling)
    X, Q = variant.data(200, 3), variant.data(20, 4)
    agree = shares(family.hash_points(X), family.hash_queries(Q))
    far = family.between(Q, X) * (1 if family.estimates in ("angle", "distance") else -1)
    ranks = far.argsort(axis=1).argsort(axis=1)
    likest = np.argsort(-agree, axis=1, kind="stable")[:, :20]
    assert np.take_along_axis(ranks, likest, axis=1).mean() < 50


@pytest.mark.parametrize("name", of(name for name, its in VARIANTS.items() if its.make(5, 0).by_angle))
def test_an_order_that_is_said_to_be_the_angles_is(name):
    """Of unit rows, by what the family estimates and by the cosine."""
    family, variant = fitted(name), VARIANTS[name]
    X, Q = unit_rows(variant.data(50, 3)), unit_rows(variant.data(5, 4))
    far = family.between(Q, X) * (1 if family.estimates in ("angle", "distance") else -1)
    cosines = Q.astype(np.float64) @ X.astype(np.float64).T
    cosines = cosines.toarray() if is_sparse(cosines) else cosines
    assert np.array_equal(far.argsort(axis=1), (-cosines).argsort(axis=1))


def has_formula(family: SimilarityHasher) -> bool:
    return type(family).collision_probability is not SimilarityHasher.collision_probability


@pytest.mark.parametrize("name", of(name for name, its in VARIANTS.items() if has_formula(its.make(5, 0))))
def test_collisions_are_as_frequent_as_the_formula_says(name):
    """For pairs near and far; each count in its binomial interval, all together with 1 − ALPHA."""
    k, variant = 8_000, VARIANTS[name]
    X, Q = variant.data(12, 3), variant.data(3, 4)
    family = fitted(name, k)
    expected = family.collision_probability(family.between(Q, X))
    assert expected is not None
    counts = shares(family.hash_points(X), family.hash_queries(Q)) * k
    low, high = stats.binom.interval(1 - ALPHA / counts.size, k, np.clip(expected, 0, 1))
    assert ((low <= counts) & (counts <= high)).all()
    assert np.ptp(expected) > 0.05


def distances(family: SimilarityHasher, Q: Rows, X: Rows) -> np.ndarray:
    """By the quantity in which the family takes a radius: angles, or what two rows don't share."""
    if family.radius_of == "overlap":
        return 1 - family.between(Q, X)
    if family.estimates == "angle":
        return family.between(Q, X)
    cosines = unit_rows(Q).astype(np.float64) @ unit_rows(X).astype(np.float64).T
    return np.arccos(np.clip(cosines.toarray() if is_sparse(cosines) else cosines, -1, 1))


def takes_radius(variant: Variant) -> bool:
    return variant.make(5, 0).radius_of is not None


def test_families_with_a_formula_take_a_radius():
    """And no others: their bits follow something else than what neighbours are ranked by."""
    both = {name: (has_formula(its.make(5, 0)), takes_radius(its)) for name, its in VARIANTS.items()}
    assert {name for name, (formula, radius) in both.items() if formula is not radius} == set()
    assert {VARIANTS[name].make(5, 0).name for name, (_, radius) in both.items() if radius} == {
        "lsh",
        "metric-lsh",
        "shift-invariant",
        "min-hash",
    }
    with pytest.raises(InputError, match="klsh guarantees no agreement within the radius"):
        KernelizedLSH().agreement_within(0.5)
    with pytest.raises(InputError, match="shift-invariant must be fitted or have a gamma"):
        ShiftInvariantHash().agreement_within(0.5)


@pytest.mark.parametrize("name", of(name for name, its in VARIANTS.items() if takes_radius(its)))
def test_within_a_radius_functions_agree_at_least_as_often_as_at_it(name):
    """As often as the formula says of rows at this distance, and less often the larger it is."""
    family, variant = fitted(name), VARIANTS[name]
    X, Q = (unit_rows(variant.data(n, seed)) for n, seed in ((20, 3), (3, 4)))
    own = distances(family, Q, X).ravel()
    expected = family.collision_probability(family.between(Q, X)).ravel()
    found = np.array([family.agreement_within(float(radius)) for radius in own])
    assert np.allclose(found, expected, atol=1e-5)
    assert (np.diff(found[np.argsort(own)]) <= 1e-12).all()


@pytest.mark.parametrize("name", of(name for name, its in VARIANTS.items() if takes_radius(its)))
def test_tables_for_a_radius_find_a_row_at_it_as_often_as_they_promise(name):
    """In their own buckets, over draws of the functions; the count is in its binomial interval."""
    variant, n_draws = VARIANTS[name], scaled(quick=150, all=600)
    X, q = variant.data(200, 3), variant.data(1, 4)
    family = variant.make(5, 0).fit(X)
    own = distances(family, q, X)[0]
    row = int(np.argsort(own)[12])
    r = float(own[row])
    near, far = family.agreement_within(r), family.agreement_within(1.2 * r)
    found, rule = 0, Guarantee.by_rule(len(own), near, far).of_width(32 // family.bits)
    n_tables = min(rule.n_tables, 6)
    for seed in range(n_draws):
        drawn = variant.make(rule.width * n_tables, seed).fit(X)
        tables = built_for_points(
            "tables", drawn.hash_points(X), n_compared=0, n_bytes=12 * 200 * 6, seed=0, near=near, far=far
        )
        promised = tables.guarantee(rule)
        assert (promised.width, promised.n_tables) == (rule.width, n_tables)
        rows, _ = tables.probed(drawn.queries(q)[0], 10**6, most_probes=n_tables)
        found += row in rows
    low, high = stats.binom.interval(1 - ALPHA / 10, n_draws, promised.success)
    assert low <= found <= high


@every_family
def test_bad_input_gets_one_clear_sentence(name):
    """Parameters, rows that are not finite or none, another number of features."""
    variant = VARIANTS[name]
    X = variant.data(60)
    with pytest.raises(InputError, match="n_functions must be at least 1, got 0"):
        variant.make(0, 0).fit(X, classes(60))
    with pytest.raises(InputError, match="random_state must be at least 0, got -1"):
        variant.make(5, -1).fit(X, classes(60))
    with pytest.raises(InputError, match="needs at least one row to fit, got none"):
        variant.make(5, 0).fit(cut(X, 0, 0), classes(0))
    with pytest.raises(InputError, match="one class for each of the 60 rows"):
        variant.make(5, 0).fit(X, classes(59))
    broken = X.copy()
    (broken.data if is_sparse(broken) else broken[:, 0])[:] = np.nan
    with pytest.raises(InputError, match="must be finite"):
        variant.make(5, 0).fit(broken, classes(60))
    with pytest.raises(InputError, match="must be finite"):
        fitted(name).queries(broken)
    wide = np.ones((2, D + 1), dtype=np.float32)
    for method in (fitted(name).hash_points, fitted(name).hash_queries, fitted(name).queries):
        with pytest.raises(InputError, match=rf"rows of {D} features, got shape \(2, {D + 1}\)"):
            method(wide)
    if getattr(variant.make(5, 0), "neighbours", None) == "class":
        with pytest.raises(InputError, match="with neighbours='class' learns from classes: y must be given"):
            variant.make(5, 0).fit(X)
    if variant.make(5, 0).needs_labels:
        with pytest.raises(InputError, match="learns from labels: y must be given"):
            variant.make(5, 0).fit(X)
