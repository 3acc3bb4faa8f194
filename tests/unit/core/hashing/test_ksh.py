"""Supervised hashing with kernels against its definition, brute force and finite differences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.linalg import eig

from closecall.core.errors import InputError
from closecall.core.hashing import LearnedKernelHash, SupervisedKernelHash
from closecall.core.hashing.descent import descended
from closecall.core.hashing.ksh import Residue, agreement, leading, learn, signs, smoothed, whitening
from closecall.core.mercer import kernel_from
from closecall.core.metric.kernel_learning import root_of
from closecall.core.selection import ArrayPool
from closecall.core.similar import HashedSimilarity
from tests.precision import rounding

D = 8


def grouped(n: int = 150, n_classes: int = 4, seed: int = 0, spread: float = 0.5):
    """Unit rows in overlapping groups, and which is where; of every fifth row that is not known."""
    rng = np.random.default_rng([seed, 1])
    centres = np.random.default_rng(3).standard_normal((n_classes, D))
    y = np.arange(n) % n_classes
    X = centres[y] + spread * rng.standard_normal((n, D)) * 2
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    return X, np.where(np.arange(n) % 5 == 4, -1, y)


def centred_values(n: int = 60, m: int = 15, seed: int = 0):
    """Some K̄ of labelled rows, their classes, and S."""
    X, _ = grouped(n, seed=seed)
    y = np.arange(n) % 4
    K = kernel_from("rbf:gamma=1").matrix(X, X[:m]).astype(np.float64)
    return K - K.mean(axis=0), y, np.where(y[:, None] == y, 1.0, -1.0)


def test_what_is_left_is_the_matrix_that_is_never_formed():
    """R = rS − Σ bbᵀ: its products, its form under K̄, and its size, bit for bit."""
    K, y, S = centred_values()
    R, matrix = Residue(y, 6), 6 * S
    assert np.allclose(R.under(K), K.T @ matrix @ K)
    rng = np.random.default_rng(0)
    for _ in range(4):
        v, b = rng.standard_normal(len(y)), signs(rng.standard_normal(len(y)))
        assert np.allclose(R.times(v), matrix @ v)
        assert agreement(R, b) == pytest.approx(b @ matrix @ b)
        assert R.size == pytest.approx((matrix**2).sum())
        R.take_off(b)
        matrix = matrix - np.outer(b, b)


def test_the_spectral_start_is_the_first_generalised_eigenvector():
    """By a solver for any two matrices; and no other direction makes the quotient greater."""
    K, y, S = centred_values()
    R = Residue(y, 5)
    W = whitening(K)
    a = W @ leading(R.under(K @ W))
    left, right = K.T @ (5 * S) @ K, K.T @ K
    values, vectors = eig(left, right)
    first = np.real(vectors[:, np.real(values).argmax()])
    cosine = (K @ a) @ (K @ first) / np.linalg.norm(K @ a) / np.linalg.norm(K @ first)
    assert abs(cosine) == pytest.approx(1, abs=1e-6)
    assert (K @ a) @ (K @ a) == pytest.approx(len(K))
    quotient = a @ left @ a / (a @ right @ a)
    assert quotient == pytest.approx(np.real(values).max(), rel=1e-6)
    for other in np.random.default_rng(0).standard_normal((200, K.shape[1])):
        assert other @ left @ other / (other @ right @ other) <= quotient


def test_a_start_there_is_also_with_more_anchors_than_rows():
    """Where K̄ᵀK̄ is singular the quotient is taken where it is defined."""
    K, y, _ = centred_values(20, 20)
    K = np.hstack([K, K])
    W = whitening(K)
    assert W.shape[1] < len(K)
    assert np.allclose(W.T @ K.T @ K @ W, len(K) * np.eye(W.shape[1]), atol=1e-6)
    assert np.isfinite(learn(K, y, 3, 20)[0]).all()


def test_the_gradient_is_that_of_the_objective():
    """Against central differences, and the objective against its definition; also when bits are taken off."""
    K, y, S = centred_values()
    R, matrix = Residue(y, 5), 5 * S
    b = signs(np.random.default_rng(2).standard_normal(len(y)))
    R.take_off(b)
    matrix = matrix - np.outer(b, b)

    def g(a):
        smooth = 2 / (1 + np.exp(-K @ a)) - 1
        return -smooth @ matrix @ smooth

    a = 3 * np.random.default_rng(1).standard_normal(K.shape[1])
    value, slope = smoothed(K, R)(a)
    assert value == pytest.approx(g(a))
    steps = 1e-5 * np.eye(len(a))
    differences = [(g(a + step) - g(a - step)) / 2e-5 for step in steps]
    assert np.allclose(slope(), differences, rtol=1e-5, atol=1e-6 * np.abs(differences).max())


def test_the_smoothed_objective_falls_with_each_step():
    """Nowhere does a longer descent end higher, and it falls by much."""
    K, y, _ = centred_values(200, 40)
    R = Residue(y, 8)
    W = whitening(K)
    start = W @ leading(R.under(K @ W))
    g = smoothed(K, R)
    values = [
        g(descended(g, start, steps=steps, least_gain=0))[0] for steps in (0, 1, 2, 3, 5, 8, 13, 21, 50, 100)
    ]
    assert values[0] == g(start)[0]
    assert (np.diff(values) <= 0).all()
    assert values[-1] < 1.2 * values[0] < 0


@pytest.mark.parametrize("n_steps", [0, 100])
def test_the_objective_falls_from_bit_to_bit(n_steps):
    """‖BBᵀ − rS‖² of the codes themselves, of the first t bits, which `left_` tells."""
    X, y = grouped()
    family = SupervisedKernelHash(n_anchors=40, n_functions=20, n_steps=n_steps).fit(X, y)
    known = y >= 0
    B = 2.0 * family.hash_points(X[known]).unpacked() - 1
    S = np.where(y[known][:, None] == y[known], 1.0, -1.0)
    by_hand = [((B[:, :t] @ B[:, :t].T - 20 * S) ** 2).sum() / (20 * S**2 * 20).sum() for t in range(21)]
    assert np.allclose(family.left_, by_hand, rtol=1e-3)
    assert (np.diff(by_hand) < 0).all()


def test_the_descent_makes_the_true_objective_smaller():
    """Over several draws; and a first bit is never worse than its start, since the better one is kept."""
    gained = []
    for seed in range(5):
        X, y = grouped(seed=seed)
        start, moved = (
            SupervisedKernelHash(n_anchors=40, n_functions=12, n_steps=n, random_state=seed).fit(X, y).left_
            for n in (0, 200)
        )
        assert moved[1] <= start[1]
        gained.append(start[-1] - moved[-1])
    assert min(gained) > 0


def test_one_bit_comes_near_the_best_there_is():
    """Of all 4,096 codes of twelve rows, any of which the anchors can express."""
    for seed in range(6):
        X, _ = grouped(12, seed=seed)
        y = np.random.default_rng(seed).integers(0, 3, 12)
        K = kernel_from("rbf:gamma=4").matrix(X, X).astype(np.float64)
        R = Residue(y, 4)
        best = max(agreement(R, np.array(b)) for b in product((-1.0, 1.0), repeat=12))
        a = learn(K, y, 4, 200)[0][:, 0]
        assert agreement(R, signs(K @ a)) >= 0.9 * best


def test_two_classes_that_lie_apart_get_opposite_codes():
    """Then nothing is left: after t of r bits (1 − t/r)²."""
    X, _ = grouped(80, 2, spread=0.05)
    y = np.arange(80) % 2
    family = SupervisedKernelHash(n_anchors=20, n_functions=5).fit(X, y)
    assert np.allclose(family.left_, (1 - np.arange(6) / 5) ** 2, atol=1e-12)
    bits = family.hash_points(X).unpacked()
    assert (bits[y == 0] == bits[0]).all()
    assert (bits[y == 1] == 1 - bits[0]).all()


def test_bits_are_the_signs_of_the_centred_kernel():
    """Eqs. 19 and 20 by hand, the kernel as wide as rows and anchors are apart, and the mean of all rows."""
    X, y = grouped()
    family = SupervisedKernelHash(n_anchors=40, n_functions=30).fit(X, y)
    anchors = family.points_.astype(np.float64)
    assert all((np.abs(X - anchor).max(axis=1) < 1e-6).any() for anchor in anchors)
    squares = ((X.astype(np.float64)[:, None] - anchors) ** 2).sum(axis=2)
    assert family.bandwidth_ == pytest.approx(1 / (2 * squares.mean()), rel=1e-5)
    K = np.exp(-squares / (2 * squares.mean()))
    values = (K - K.mean(axis=0)) @ family.weights_
    sure = np.abs(values) > 1e-3 * values.std()
    assert sure.mean() > 0.95
    assert np.array_equal(family.hash_points(X).unpacked()[sure], (values >= 0)[sure])


@pytest.mark.parametrize("family", [SupervisedKernelHash, LearnedKernelHash])
def test_all_labels_are_used_unless_fewer_are_asked_for(family):
    """However many there are: no limit that nobody set."""
    X, y = grouped(2600)
    small = {"n_anchors": 20, "n_steps": 2, "n_functions": 3}
    if family is LearnedKernelHash:
        small |= {"n_constrained": 40, "n_pairs": 100}
    known = int(np.count_nonzero(y >= 0))
    assert known > 2000
    default = family(**small).fit(X, y)
    assert np.array_equal(default.weights_, family(n_labels=known, **small).fit(X, y).weights_)
    assert not np.array_equal(default.weights_, family(n_labels=1000, **small).fit(X, y).weights_)


def test_rows_of_unknown_class_are_anchors_but_teach_nothing():
    """All rows are anchors; what is left is counted over rows of known class, of so many as are asked for."""
    X, y = grouped()
    wide = {"n_anchors": len(X), "n_functions": 8}
    few = SupervisedKernelHash(n_labels=40, **wide).fit(X, y)
    assert np.allclose(np.sort(few.points_, axis=0), np.sort(X, axis=0), atol=1e-6)
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(y >= 0))[:40]
    only = np.where(np.isin(np.arange(len(X)), chosen), y, -1)
    again = SupervisedKernelHash(n_labels=100, **wide).fit(X, only)
    assert np.array_equal(few.left_, again.left_)
    assert not np.array_equal(few.left_, SupervisedKernelHash(n_labels=100, **wide).fit(X, y).left_)


@pytest.mark.parametrize("kernel", [None, "chi2:scale=5"])
def test_a_learned_kernel_is_that_of_algorithm_1(kernel):
    """κ₀(x, y) + k_c(x)ᵀMk_c(y) in float64: for the bits as it is, for neighbours its cosine."""
    X, y = grouped(spread=0.3)
    X = np.abs(X)
    family = LearnedKernelHash(
        kernel=kernel, n_anchors=30, n_constrained=50, n_pairs=200, n_functions=40, gamma=1.0
    ).fit(X, y)
    used = kernel_from(kernel or f"rbf:gamma={float(family.bandwidth_)!r}")
    prepared = used.prepared(X)
    anchors, constrained = family.points_[:30], family.points_[30:]
    assert len(constrained) == 50

    def kappa(A, B):
        to_a, to_b = (used.values(Z, constrained).astype(np.float64) for Z in (A, B))
        return used.values(A, B) + to_a @ family.metric_ @ to_b.T

    K = kappa(prepared, anchors)
    solved = np.linalg.lstsq(
        np.concatenate([np.eye(30), family.metric_ @ used.values(constrained, anchors)]),
        family.weights_.astype(np.float64),
        rcond=None,
    )[0]
    values = (K - K.mean(axis=0)) @ solved
    sure = np.abs(values) > 1e-2 * values.std()
    assert sure.mean() > 0.9
    assert np.array_equal(family.hash_points(X).unpacked()[sure], (values >= 0)[sure])
    whole = kappa(prepared, prepared)
    norms = np.sqrt(np.diag(whole))
    assert np.allclose(family.between(X, X), whole / np.outer(norms, norms), atol=1e-4)
    assert np.abs(whole - used.values(prepared, prepared)).max() > 0.05


def test_a_learned_kernel_brings_classes_together():
    """Also rows that it has not seen: those of one class are nearer, beside those of two, than before."""
    X, y = grouped()
    new, _ = grouped(80, seed=9)
    own = np.arange(80) % 4
    alike = own[:, None] == own
    plain = SupervisedKernelHash(n_anchors=30, n_functions=2).fit(X, y).between(new, new)
    learned = LearnedKernelHash(n_anchors=30, gamma=1.0, n_functions=2).fit(X, y).between(new, new)

    def apart(K):
        return (K[alike].mean() - K[~alike].mean()) / K.std()

    assert apart(learned) > 1.1 * apart(plain)


def test_a_matrix_on_the_kernel_values_does_not_change_the_spectral_start():
    """So a kernel learned from anchors alone would add nothing to it."""
    K, y, _ = centred_values()
    T = np.random.default_rng(0).standard_normal((K.shape[1], K.shape[1]))
    one, other = (signs(L @ learn(L, y, 4, 0)[0]) for L in (K, K @ T))
    turned = (one * other).mean(axis=0)
    assert np.allclose(np.abs(turned), 1)


def test_equal_rows_of_two_classes_do_no_harm():
    """Twins that were labelled differently, too, leave a kernel and codes that are finite."""
    X, y = grouped()
    X[1::2] = X[::2]
    family = LearnedKernelHash(n_anchors=30, n_functions=8, gamma=1.0).fit(X, y)
    assert np.isfinite(family.weights_).all()
    assert np.isfinite(family.between(X, X)).all()
    assert 0 < family.left_[-1] < 1


@pytest.mark.parametrize("family", [SupervisedKernelHash, LearnedKernelHash])
def test_a_search_by_it_finds_the_query_itself(family):
    """In a pool whose rows have codes of their own."""
    X, y = grouped()
    pool = ArrayPool(X, ids=5 + 3 * np.arange(len(X)))
    hasher = family(n_anchors=50, n_functions=24, n_steps=20).fit(X, y)
    search = HashedSimilarity.built(pool, hasher, structure="scan")
    for row in (3, 40):
        found = search.neighbours(pool.rows([row]), 5)
        assert found.ids[0] == pool.ids[row]
        assert found.values[0] == pytest.approx(1, abs=1e-5)


BAD = [
    ({"n_anchors": 0}, "n_anchors must be at least 1, got 0"),
    ({"n_labels": 1}, "n_labels must be at least 2 or None, got 1"),
    ({"n_steps": -1}, "n_steps must be at least 0, got -1"),
    ({"n_anchors": 151}, "needs at least as many rows as anchors, 151, got 150"),
    ({"kernel": "hellinger", "n_anchors": 9}, "kernel must be one of cosine, chi2"),
    ({"kernel": "chi2", "n_anchors": 9}, "the kernel chi2 compares histograms"),
]
BAD_OF_LEARNED = [
    ({"gamma": 0}, "gamma must be positive, got 0"),
    ({"n_constrained": 1}, "n_constrained must be at least 2, got 1"),
    ({"n_pairs": 1}, "n_pairs must be at least 2, got 1"),
]


@pytest.mark.parametrize(
    ("family", "params", "message"),
    [(SupervisedKernelHash, *bad) for bad in BAD]
    + [(LearnedKernelHash, *bad) for bad in BAD + BAD_OF_LEARNED],
)
def test_bad_parameters_get_one_clear_sentence(family, params, message):
    """That names the parameter and what is allowed."""
    X, y = grouped()
    with pytest.raises(InputError, match=message):
        family(**params).fit(X, y)


@pytest.mark.parametrize("family", [SupervisedKernelHash, LearnedKernelHash])
def test_labels_must_tell_something(family):
    """None, unknown ones, those of one class, and rows that are all the same."""
    X, y = grouped()
    hasher = family(n_anchors=20)
    with pytest.raises(InputError, match="learns from labels: y must be given, got None"):
        hasher.fit(X)
    with pytest.raises(InputError, match="labels of at least two classes, got 0 labels of 0 classes"):
        hasher.fit(X, np.full(len(X), -1))
    with pytest.raises(InputError, match=r"labels of at least two classes, got 120 labels of 1 class$"):
        hasher.fit(X, np.where(y >= 0, 7, -1))
    with pytest.raises(InputError, match="kernel cannot be estimated, because all rows are equal"):
        hasher.fit(np.tile(X[:1], (50, 1)), np.arange(50) % 2)


def test_rows_that_the_kernel_cannot_tell_apart_are_refused():
    """Whether the rows are equal or the kernel is too narrow, the message names both."""
    X, _ = grouped()
    same, alternating = np.tile(X[:1], (50, 1)), np.arange(50) % 2
    message = "gives all 50 labeled rows the same values, .*: choose another kernel, or label rows that are"
    with pytest.raises(InputError, match=message):
        SupervisedKernelHash(kernel="rbf:gamma=1", n_anchors=20).fit(same, alternating)
    y = np.append(alternating, np.full(len(X) - 50, -1))
    with pytest.raises(InputError, match=message):
        SupervisedKernelHash(kernel="rbf:gamma=1e6", n_anchors=1, random_state=1).fit(X, y)


def test_constraints_see_the_distances_of_the_kernel():
    """The rows of a root are as far apart as the kernel says, to the precision in which it is computed."""
    X, _ = grouped(30)
    K = kernel_from("rbf:gamma=2").matrix(X, X).astype(np.float64)
    K = (K + K.T) / 2
    F = root_of(K)
    squares = ((F[:, None] - F) ** 2).sum(axis=2)
    assert np.linalg.eigvalsh(K)[0] > 0
    length = np.diag(K)
    wrong_root = 4 * len(X) * rounding(len(X), np.float64)  # of K_ii + K_jj − 2K_ij, with ‖K‖ ≤ n
    assert np.allclose(squares, length[:, None] + length - 2 * K, rtol=0, atol=wrong_root)
    rows = X.astype(np.float64) / np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    wrong_cosine = rounding(2 * D + 4)  # a row's norm and scaling, twice half a sum; then the product
    wrong_value = 4 * wrong_cosine + rounding(2)  # κ = exp(4(cos − 1)) in float32
    assert np.allclose(squares, 2 - 2 * np.exp(4 * (rows @ rows.T - 1)), rtol=0, atol=4 * wrong_value)
