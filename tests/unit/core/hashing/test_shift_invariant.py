"""Random Fourier features and the codes of Raginsky and Lazebnik against their theory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.hashing import ShiftInvariantHash
from closecall.core.hashing.fourier import Waves, bandwidth, gaussian, variance
from closecall.core.hashing.shift_invariant import disagreement
from tests.scale import scaled
from tests.yardsticks import least_disagreement, most_disagreement

D, GAMMA = 6, 0.8
KAPPAS = np.concatenate([np.linspace(0, 1, 101), 1 - np.logspace(-9, -3, 7), np.exp([-0.2501, -0.2499])])


def rows(n: int, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng([seed, 3]).standard_normal((n, D)) * 0.6
    X[np.abs(X) < 0.2] = 0
    return X.astype(np.float32)


def squared(Q: np.ndarray, X: np.ndarray) -> np.ndarray:
    return np.asarray(((Q[:, None].astype(np.float64) - X[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("sparse", [False, True])
def test_products_of_features_are_the_kernel_with_the_variance_of_theory(sparse: bool) -> None:
    """Each wave's own product 2cos·cos: 400,000 of them, for pairs near and far, by 4.5 standard errors."""
    n = 400_000
    X = rows(5)
    waves = Waves.drawn(np.random.default_rng(1), D, n, GAMMA, as_bytes=sparse)
    z = waves.features(csr_array(X) if sparse else X).astype(np.float64)
    kappa = np.exp(-GAMMA * squared(X, X))
    assert np.ptp(kappa) > 0.7
    for i in range(5):
        for j in range(i):
            products = n * z[i] * z[j]
            assert abs(products.mean() - kappa[i, j]) < 4.5 * products.std() / np.sqrt(n) + sparse * 1e-4
            spread = (products - products.mean()) ** 2
            expected = n * variance(kappa[i, j], n)
            assert abs(spread.mean() - expected) < 4.5 * spread.std() / np.sqrt(n)
    np.testing.assert_allclose((z**2).sum(axis=1), 1, atol=0.01)


def test_features_are_the_cosines_of_waves() -> None:
    """√(2/D) cos(√(2γ) gᵀx + b), also of one row alone, and of bytes as 32nds."""
    X = rows(20)
    for sparse in (False, True):
        waves = Waves.drawn(np.random.default_rng(2), D, 300, GAMMA, as_bytes=sparse)
        vectors = waves.vectors.astype(np.float64) / (32 if sparse else 1)
        by_hand = np.sqrt(2 / 300) * np.cos(np.sqrt(2 * GAMMA) * X @ vectors + waves.phases)
        np.testing.assert_allclose(waves.features(csr_array(X) if sparse else X), by_hand, atol=1e-5)
        np.testing.assert_allclose(waves.features(X[:1]), by_hand[:1], atol=1e-5)


def test_the_kernel_is_gaussian() -> None:
    """Of dense and of sparse rows."""
    X, Q = rows(30), rows(4, 1)
    expected = np.exp(-GAMMA * squared(Q, X))
    np.testing.assert_allclose(gaussian(Q, X, GAMMA), expected, atol=1e-12)
    np.testing.assert_allclose(gaussian(csr_array(Q), csr_array(X), GAMMA), expected, atol=1e-12)


@pytest.mark.parametrize("n", [300, 51, 7])
def test_the_bandwidth_is_the_mean_distance_of_fiftieth_neighbours(n: int) -> None:
    """γ = 1/(2r²); of the last neighbour where there are fewer."""
    X = rows(n)
    far = np.sqrt(np.sort(squared(X, X), axis=1)[:, min(50, n - 1)])
    assert bandwidth(X, np.random.default_rng(0)) == pytest.approx(1 / (2 * far.mean() ** 2))
    assert bandwidth(csr_array(X), np.random.default_rng(0)) == pytest.approx(1 / (2 * far.mean() ** 2))


@pytest.mark.thorough
def test_of_many_rows_some_tell_the_bandwidth() -> None:
    """A thousand of three: within 3 % of what all would tell."""
    X = rows(3000)
    r = np.sqrt(np.sort(squared(X, X), axis=1)[:, 50]).mean()
    family = ShiftInvariantHash(n_functions=5).fit(X)
    assert float(family.gamma_) == pytest.approx(1 / (2 * r**2), rel=0.03)


def test_bits_are_cut_at_their_thresholds() -> None:
    """½(1 + sgn(cos(wᵀx + b) + t)), by hand."""
    X = rows(100)
    family = ShiftInvariantHash(gamma=GAMMA, n_functions=500).fit(X)
    waves = np.cos(np.sqrt(2 * GAMMA) * X.astype(np.float64) @ family.vectors_ + family.phases_)
    values = waves + family.thresholds_
    sure = np.abs(values) > 1e-5
    assert sure.mean() > 0.999
    assert np.array_equal(family.hash_points(X).unpacked()[sure], (values > 0)[sure])
    assert stats.kstest(family.thresholds_, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert stats.kstest(family.phases_, stats.uniform(0, 2 * np.pi).cdf).pvalue > 1e-3


def test_the_formula_is_the_series() -> None:
    """Summed up to n terms; the rest is less than 2/(π²n)."""
    n = scaled(quick=30_000, all=100_000)
    m = np.arange(1, n + 1, dtype=np.float64)
    series = [8 / np.pi**2 * ((1 - kappa ** (m**2)) / (4 * m**2 - 1)).sum() for kappa in KAPPAS]
    np.testing.assert_allclose(disagreement(KAPPAS), series, atol=2.1 / 10 / n)


def test_the_formula_is_the_mean_over_all_waves() -> None:
    """(2/π) E|sin(Δ/2)| with Δ/2 ~ N(0, −½ ln κ), by numerical integration."""
    for kappa in KAPPAS[(KAPPAS > 1e-3) & (KAPPAS < 1)]:
        sigma = np.sqrt(-np.log(kappa) / 2)
        kinks = [j * np.pi / sigma for j in range(1, 7) if j * np.pi / sigma < 9]
        half, _ = quad(
            lambda z, sigma=sigma: abs(np.sin(sigma * z)) * stats.norm.pdf(z), 0, 9, points=kinks, limit=200
        )
        assert disagreement(kappa) == pytest.approx(2 / np.pi * 2 * half, rel=1e-7)


def test_the_formula_has_no_seam() -> None:
    """Where the series ends and the integral begins, and at both ends."""
    below, above = disagreement(np.exp(-0.25) + np.array([-1e-12, 1e-12]))
    assert below == pytest.approx(above, abs=1e-11)
    assert below > above
    assert disagreement([0, 1]).tolist() == [pytest.approx(4 / np.pi**2), 0]
    assert (np.diff(disagreement(np.sort(KAPPAS))) < 0).all()


def test_it_is_within_the_bounds_of_raginsky_and_lazebnik() -> None:
    """H₁ ≤ Pr ≤ h₂ everywhere; they meet at κ = 0 and at κ = 1."""
    low, high, found = least_disagreement(KAPPAS), most_disagreement(KAPPAS), disagreement(KAPPAS)
    assert (low <= found + 1e-15).all()
    assert (found <= high + 1e-15).all()
    assert low[0] == pytest.approx(high[0])
    assert low[100] == high[100] == 0
    inside = (KAPPAS > 0.05) & (KAPPAS < 0.95)
    assert (low[inside] < found[inside] - 1e-3).all()
    assert (found[inside] < high[inside]).all()


def test_codes_differ_within_the_bounds() -> None:
    """The measured share of bits, for many pairs; by the binomial deviations that 10,000 bits have."""
    n = 10_000
    X, Q = rows(40), rows(10, 1)
    family = ShiftInvariantHash(gamma=GAMMA, n_functions=n, random_state=4).fit(X)
    points, queries = family.hash_points(X).unpacked(), family.hash_queries(Q).unpacked()
    share = (queries[:, None] != points[None]).mean(axis=2)
    kappa = family.between(Q, X)
    slack = stats.norm.ppf(1 - 1e-3 / share.size) * np.sqrt(share * (1 - share) / n)
    assert np.ptp(kappa) > 0.5
    assert (least_disagreement(kappa) <= share + slack).all()
    assert (share <= most_disagreement(kappa) + slack).all()


@pytest.mark.parametrize("gamma", [0, -1.0, float("inf"), float("nan")])
def test_a_kernel_needs_a_bandwidth(gamma: float) -> None:
    """The sentence says which."""
    with pytest.raises(InputError, match="gamma must be positive and finite, got"):
        ShiftInvariantHash(gamma=gamma).fit(rows(60))


def test_rows_without_neighbours_ask_for_a_bandwidth() -> None:
    """Of rows that are all the same none follows; one that is given serves them."""
    same = np.repeat(rows(1), 60, axis=0)
    with pytest.raises(InputError, match="gamma must be given: it cannot be estimated"):
        ShiftInvariantHash().fit(same)
    assert len(ShiftInvariantHash(gamma=1.0).fit(same).hash_points(same)) == 60
