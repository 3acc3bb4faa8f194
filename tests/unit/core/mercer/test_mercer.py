"""Mercer kernels: their values against the equations and against scikit-learn, and what they refuse."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    chi2_kernel,
    cosine_similarity,
    laplacian_kernel,
    rbf_kernel,
)

from closecall.core.errors import InputError
from closecall.core.mercer import (
    ChiSquared,
    Cosine,
    Intersection,
    Kernel,
    Learned,
    Transformed,
    kernel_from,
    rbf,
)
from tests.precision import rounding


def histograms(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows of which a third of the entries are zero, none of them adding to 1."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.7, size=(n, d)) * (rng.random((n, d)) < 0.67)
    X[:, 0] += 0.01
    return X.astype(np.float32)


def sums_to_1(X: np.ndarray) -> np.ndarray:
    X = X.astype(np.float64)
    return X / X.sum(axis=1, keepdims=True)


X, Y = histograms(30, 17), histograms(20, 17, seed=1)

WRONG = 3 * (2 * rounding(2 * 17) + rounding(4))
"""How far a value in float32 may be off: each row's sum and scaling, the sum over 17 features of at most four
operations each, and a transformation, exp(s(κ − 1)), that makes it at most s = 3 times as much."""


def test_chi_squared_is_equation_20() -> None:
    """In exact fractions, with entries that are zero on one side and on both."""
    x, y = [3, 0, 1, 0], [1, 0, 0, 4]
    a, b = [Fraction(f, sum(x)) for f in x], [Fraction(f, sum(y)) for f in y]
    exact = sum(2 * p * q / (p + q) for p, q in zip(a, b, strict=True) if p + q)
    (value,) = ChiSquared().matrix(np.array([x]), np.array([y])).ravel()
    assert value == pytest.approx(float(exact), abs=WRONG)


def test_intersection_is_equation_21() -> None:
    """In exact fractions."""
    x, y = [3, 0, 1, 0], [1, 0, 1, 2]
    exact = sum(min(Fraction(p, 4), Fraction(q, 4)) for p, q in zip(x, y, strict=True))
    (value,) = Intersection().matrix(np.array([x]), np.array([y])).ravel()
    assert value == pytest.approx(float(exact), abs=WRONG)


@pytest.mark.parametrize("d", [1, 2, 17, 150])
def test_chi_squared_agrees_with_scikit_learn(d: int) -> None:
    """Its additive kernel is −Σ(x − y)²/(x + y), which is 2κ − 2 for histograms."""
    A, B = histograms(9, d), histograms(7, d, seed=1)
    expected = 1 + additive_chi2_kernel(sums_to_1(A), sums_to_1(B)) / 2
    np.testing.assert_allclose(ChiSquared().matrix(A, B), expected, atol=WRONG)


def test_cosine_agrees_with_scikit_learn() -> None:
    """For rows of any norm."""
    np.testing.assert_allclose(Cosine().matrix(X, Y), cosine_similarity(X, Y), atol=WRONG)


def test_transformed_kernels_are_the_well_known_ones() -> None:
    """exp(s(κ − 1)) of χ², intersection and cosine: exponential χ², Laplacian and Gaussian."""
    A, B = sums_to_1(X), sums_to_1(Y)
    np.testing.assert_allclose(
        Transformed(ChiSquared(), 3.0).matrix(X, Y), chi2_kernel(A, B, gamma=1.5), atol=WRONG
    )
    np.testing.assert_allclose(
        Transformed(Intersection(), 3.0).matrix(X, Y), laplacian_kernel(A, B, gamma=1.5), atol=WRONG
    )
    units = [Z / np.linalg.norm(Z.astype(np.float64), axis=1, keepdims=True) for Z in (X, Y)]
    np.testing.assert_allclose(rbf(0.7).matrix(X, Y), rbf_kernel(*units, gamma=0.7), atol=WRONG)


def test_learned_kernel_is_the_cosine_under_the_metric() -> None:
    """xᵀAy / √(xᵀAx · yᵀAy), for a metric of full rank and for one of rank 3."""
    rng = np.random.default_rng(5)
    for rank in (17, 3):
        G = rng.standard_normal((rank, 17))
        A = G.T @ G
        inner = X @ A @ Y.T
        norms = np.sqrt(np.outer((X @ A * X).sum(1), (Y @ A * Y).sum(1)))
        np.testing.assert_allclose(Learned(A).matrix(X, Y), inner / norms, atol=WRONG)


ALL = [
    Cosine(),
    ChiSquared(),
    Intersection(),
    rbf(2),
    Transformed(rbf(1), 3),
    Transformed(ChiSquared(), 5),
    Learned(np.eye(17)),
]


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.word)
class TestEvery:
    """What every kernel promises."""

    def test_is_1_at_home_and_nowhere_more(self, kernel: Kernel) -> None:
        """κ(x, x) = 1, and κ(x, y) ≤ 1, whatever the rows' norms."""
        K = kernel.matrix(X, X)
        np.testing.assert_allclose(np.diag(K), 1, atol=WRONG)
        assert K.max() <= 1 + WRONG

    def test_does_not_look_at_norms(self, kernel: Kernel) -> None:
        """A row and 7 times the row are the same."""
        np.testing.assert_allclose(kernel.matrix(7 * X, Y), kernel.matrix(X, Y), atol=WRONG)

    def test_is_symmetric_and_positive(self, kernel: Kernel) -> None:
        """Its Gram matrix has no negative eigenvalue."""
        K = kernel.matrix(X, X).astype(np.float64)
        np.testing.assert_allclose(K, K.T, atol=WRONG)
        assert np.linalg.eigvalsh((K + K.T) / 2).min() > -WRONG

    def test_does_not_depend_on_the_block(self, kernel: Kernel) -> None:
        """Rows compared a few at a time give what they give all at once."""
        whole = kernel.matrix(X, Y)
        parts = np.vstack([kernel.matrix(X[first : first + 7], Y) for first in range(0, 30, 7)])
        np.testing.assert_allclose(parts, whole, atol=WRONG)

    def test_is_made_again_from_its_word(self, kernel: Kernel) -> None:
        """And from its arrays."""
        again = kernel_from(kernel.word, kernel.arrays())
        np.testing.assert_array_equal(again.matrix(X, Y), kernel.matrix(X, Y))

    def test_leaves_the_ranking_to_the_transformation(self, kernel: Kernel) -> None:
        """exp(s(κ − 1)) grows with κ (eq. 19)."""
        flat = kernel.matrix(X[:1], Y)[0]
        steep = Transformed(kernel, 4).matrix(X[:1], Y)[0]
        np.testing.assert_array_equal(np.argsort(flat, kind="stable"), np.argsort(steep, kind="stable"))

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_refuses_what_is_no_number(self, kernel: Kernel, bad: float) -> None:
        """And names the row."""
        Z = X.copy()
        Z[3, 2] = bad
        with pytest.raises(InputError, match=r"features must be finite for the kernel .*, but row 3 has NaN"):
            kernel.prepared(Z)

    def test_refuses_rows_of_nothing(self, kernel: Kernel) -> None:
        """They are like nothing."""
        Z = X.copy()
        Z[4] = 0
        with pytest.raises(InputError, match="cannot compare row 4, because it is all zeros"):
            kernel.prepared(Z)

    def test_refuses_sparse_rows(self, kernel: Kernel) -> None:
        """Those of texts."""
        with pytest.raises(InputError, match="needs dense rows, got sparse ones"):
            kernel.prepared(csr_array(X))

    def test_refuses_a_single_row_that_is_no_matrix(self, kernel: Kernel) -> None:
        """And says which shape is needed."""
        with pytest.raises(InputError, match=r"needs rows of shape \(n_samples, n_features\), got \(17,\)"):
            kernel.prepared(X[0])


@pytest.mark.parametrize("scale", [2.0, 1 / 3, 1234567.0, 1e-9 / 7, 1e300, np.float32(0.1)])
def test_a_word_has_the_exact_scale(scale: float) -> None:
    """Of a transformation, of one of a transformation, and of the RBF kernel."""
    for kernel in (
        Transformed(ChiSquared(), scale),
        Transformed(Transformed(Cosine(), 3), scale),
        rbf(scale),
    ):
        assert kernel_from(kernel.word) == kernel


def test_words_are_short() -> None:
    """Those of whole scales, and others as they were written before; both can be read."""
    assert Transformed(ChiSquared(), 5.0).word == "chi2:scale=5"
    assert rbf(0.05).word == "cosine:scale=0.1"
    assert kernel_from("chi2:scale=1e+06") == Transformed(ChiSquared(), 1e6)


@pytest.mark.parametrize("kernel", [ChiSquared(), Intersection(), Transformed(ChiSquared(), 2)])
def test_histograms_are_not_negative(kernel: Kernel) -> None:
    """The kernels on histograms refuse centred features and say so."""
    with pytest.raises(InputError, match=r"row 0 has the negative feature -.*use the kernel cosine"):
        kernel.prepared(X - X.mean(axis=0))


@pytest.mark.parametrize(
    ("A", "message"),
    [
        (np.diag([1.0, -0.5]), "the metric is not positive semidefinite: its smallest eigenvalue is -0.5"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), "must be symmetric"),
        (np.ones((2, 3)), r"square matrix of finite numbers, got shape \(2, 3\)"),
        (np.full((2, 2), np.nan), "finite numbers"),
    ],
)
def test_metrics_that_are_none(A: np.ndarray, message: str) -> None:
    """A learned kernel needs a metric."""
    with pytest.raises(InputError, match=message):
        Learned(A)


def test_a_metric_of_other_features() -> None:
    """Both numbers are named."""
    with pytest.raises(InputError, match="the metric has 3 features, but the rows have 17"):
        Learned(np.eye(3)).prepared(X)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "hellinger",
            "kernel must be one of cosine, chi2, intersection, rbf:gamma=…, got 'hellinger'",
        ),
        ("rbf", "needs a bandwidth, as in rbf:gamma=2, got 'rbf'"),
        ("rbf:gamma=wide", "'wide' in 'rbf:gamma=wide' is not a number"),
        ("chi2:scale=0", "the scale of a transformed kernel must be positive and finite, got 0.0"),
        ("chi2:scale=nan", "must be positive and finite, got nan"),
        ("chi2:scale=inf", "must be positive and finite, got inf"),
        ("chi2:gamma=2", "the kernel chi2 only takes a scale, as in chi2:scale=5"),
        ("learned", "kernel must be one of cosine, chi2, intersection, rbf:gamma=…, got 'learned'"),
    ],
)
def test_words_that_name_no_kernel(word: str, message: str) -> None:
    """One sentence, with what is allowed."""
    with pytest.raises(InputError, match=message):
        kernel_from(word)
