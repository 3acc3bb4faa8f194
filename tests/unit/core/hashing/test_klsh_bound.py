"""The retrieval bound of kernelized LSH against numpy, its worst case, and searches of planted data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import PCA

from closecall.core.errors import InputError
from closecall.core.hashing import KernelizedLSH, KernelPCALSH, NystromLSH
from closecall.core.hashing.klsh import KernelHasher
from closecall.core.hashing.klsh_bound import RetrievalBound, limit, projected_norms
from closecall.core.selection import ArrayPool
from closecall.core.similar import HashedSimilarity


def unit(X: np.ndarray) -> np.ndarray:
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def points(n: int, seed: int = 0) -> np.ndarray:
    """Unit vectors of 6 dimensions, whose spread differs between directions."""
    rng = np.random.default_rng(seed)
    return unit(rng.normal([1, 0, 0, 1, 0, 0], [1, 0.9, 0.5, 0.4, 0.2, 0.1], (n, 6))).astype(np.float32)


def fitted(family: type[KernelHasher] = KernelPCALSH, **changed: Any) -> KernelHasher:
    params = {"kernel": "cosine", "n_landmarks": 60, "centred": False, "n_functions": 8, **changed}
    return family(**params).fit(points(200))


@pytest.mark.parametrize("family", [KernelizedLSH, KernelPCALSH])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_a_fitted_family_has_the_eigenvalues_of_the_covariance(family: type[KernelHasher], k: int) -> None:
    """Of the cosine kernel, whose feature space is the unit vectors' own; of N(x) likewise."""
    more = {"n_sampled": 20} if family is KernelizedLSH else {}
    hasher = fitted(family, rank=k, **more)
    pca = PCA().fit(hasher.landmarks_.astype(np.float64))
    covariance = np.cov(hasher.landmarks_.astype(np.float64), rowvar=False, ddof=0)
    lambdas = np.linalg.eigvalsh(covariance)[::-1]
    bound = RetrievalBound.of(hasher, xi=0.7)
    assert [bound.eigenvalue, bound.next_eigenvalue] == pytest.approx(lambdas[k - 1 : k + 1], rel=1e-4)
    eta = 2 / ((lambdas[k - 1] - lambdas[k]) / 2 * np.sqrt(60)) * (1 + np.sqrt(0.7 / 2))
    assert bound.eta == pytest.approx(eta, rel=1e-3)
    assert bound.error == pytest.approx(np.sqrt(lambdas[k - 1]) + eta, rel=1e-3)
    X = points(50, 1)
    norms = np.linalg.norm(X.astype(np.float64) @ pca.components_[:k].T, axis=1)
    np.testing.assert_allclose(projected_norms(hasher, X), norms, atol=1e-4)
    assert norms.max() < 1


def test_after_the_last_component_comes_zero() -> None:
    """Six dimensions have six, however many landmarks there are."""
    bound = RetrievalBound.of(fitted())
    assert bound.eigenvalue > 0
    assert bound.next_eigenvalue == 0


def found_by_lsh(q: np.ndarray, Y: np.ndarray, k: int, epsilon: float) -> tuple[np.ndarray, float]:
    """κ(q, ŷ) of all ŷ that (1 + ε)-approximate search by κ̂_n may return, and κ(q, y*)."""
    projected = unit(Y[:, :k]) @ (q[:k] / np.linalg.norm(q[:k]))
    allowed = 1 - projected <= (1 + epsilon) * (1 - projected.max()) + 1e-12
    return Y[allowed] @ q, float((Y @ q).max())


def with_error(e: float) -> RetrievalBound:
    """A bound with this e."""
    eigenvalue = (e / 2) ** 2
    m = (4 / (eigenvalue / 2 * e)) ** 2 * (1 + np.sqrt(0.5)) ** 2
    bound = RetrievalBound(round(m), eigenvalue, 0.0)
    assert bound.error == pytest.approx(e, rel=1e-3)
    return bound


def near_components(n: int, k: int, most: float, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors at a distance of `most` at most from the span of the first k of their 6 dimensions."""
    residual = most * rng.choice([0.2, 1.0], (n, 1)) * unit(rng.normal(size=(n, 6 - k)))
    lengths = np.sqrt(1 - (residual**2).sum(axis=1, keepdims=True))
    return np.hstack([lengths * unit(rng.normal(size=(n, k))), residual])


@pytest.mark.parametrize("e", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_it_holds_for_whatever_lsh_may_find(e: float, epsilon: float) -> None:
    """Brute force, if N(x) ≥ √(1 − e²), with no randomness left but that of the points."""
    bound = with_error(e)
    rng = np.random.default_rng(3)
    n_checked, e = 0, bound.error
    for _ in range(200):
        q, *Y = near_components(40, 3, e, rng)
        assert np.linalg.norm(np.array(Y)[:, :3], axis=1).min() >= bound.sufficient_norm - 1e-12
        similarities, nearest = found_by_lsh(q, np.array(Y), 3, epsilon)
        if nearest >= e**2:
            n_checked += 1
            assert (similarities >= bound.similarity(nearest, epsilon)).all()
    assert n_checked > 100


def test_its_worst_case_is_this_near() -> None:
    """Residuals of length e that agree for y* and oppose for ŷ: (1 + ε) e κ* + ε e² above the bound."""
    bound, epsilon, c = with_error(0.2), 0.1, 0.3
    e = bound.error
    side = np.sqrt(1 - e**2)
    d = (1 + epsilon) * c - epsilon
    q = np.array([side, 0, e])
    nearest = q @ [side * c, side * np.sqrt(1 - c**2), e]
    result = q @ [side * d, side * np.sqrt(1 - d**2), -e]
    above = (1 + epsilon) * e * nearest + epsilon * e**2
    assert result - bound.similarity(nearest, epsilon) == pytest.approx(above, abs=1e-12)


def test_the_filter_alone_is_not_enough() -> None:
    """Points that it keeps may break eq. 16: y* and ŷ look the same, their residuals oppose."""
    bound = with_error(0.1)
    length = bound.least_norm + 1e-3
    residual = np.sqrt(1 - length**2)
    q, nearest, result = np.array([[length, residual], [length, residual], [length, -residual]])
    norms = [length] * 3
    assert bound.kept(norms).all()
    assert length < bound.sufficient_norm
    assert q @ result < bound.similarity(q @ nearest, 0.01) - 0.2


def test_lemma_2_is_not_true_of_all_distributions() -> None:
    """Of two points near each other every N(x) is √λ₁, which the filter leaves out for large m."""
    b = 0.1
    X = np.tile(np.array([[np.sqrt(1 - b**2), b], [np.sqrt(1 - b**2), -b]], dtype=np.float32), (30, 1))
    hasher = KernelPCALSH(kernel="cosine", n_landmarks=60, rank=1, centred=False).fit(X)
    estimated = RetrievalBound.of(hasher)
    assert estimated.eigenvalue == pytest.approx(b**2, rel=1e-3)
    bound = RetrievalBound(10**8, estimated.eigenvalue, estimated.next_eigenvalue, xi=10.0)
    assert bound.applies
    norms = projected_norms(hasher, X)
    np.testing.assert_allclose(norms, b, rtol=1e-3)
    assert not bound.kept(norms).any()


def test_few_landmarks_are_never_enough() -> None:
    """Whatever the eigenvalues: 729 (1 + √(ξ/2))² for the theorem, 64 times as many for a positive bound."""
    lambdas = np.geomspace(1e-4, 1, 4000)
    for xi in (1e-6, 1.0):
        for share, most in ((1, 1.0), (64, 0.5)):
            least = 729 * share * (1 + np.sqrt(xi / 2)) ** 2
            for factor in (0.99, 1.01):
                errors = [RetrievalBound(round(factor * least), x, 0.0, xi).error for x in lambdas]
                assert (min(errors) < most) == (factor > 1)
    for e in (0.5, 0.7):
        assert max(with_error(e).similarity(1.0, epsilon) for epsilon in (1e-6, 0.1, 2)) <= 1e-2
    assert with_error(0.49).similarity(1.0, 1e-6) > 0


def planted(n: int, seed: int, near: np.ndarray | None = None) -> np.ndarray:
    """Unit vectors with the mean 1/3 and the covariance 1/9 in each of eight directions, or near others."""
    rng = np.random.default_rng(seed)
    around = rng.normal(size=(n, 8)) if near is None else near[:, 1:] + rng.normal(0, 0.05, (n, 8))
    return np.hstack([np.full((n, 1), 1 / 3), np.sqrt(8 / 9) * unit(around)]).astype(np.float32)


@pytest.mark.parametrize("family", [KernelizedLSH, KernelPCALSH])
def test_searches_succeed_at_least_as_often(family: type[KernelHasher]) -> None:
    """With planted neighbours and fewer landmarks than the theorem asks for; random items don't."""
    epsilon, n = 0.1, 3000
    X = planted(n, 0)
    Q = planted(300, 1, near=X[:300])
    hasher = family(kernel="cosine", n_landmarks=300, rank=8, centred=False, n_functions=64).fit(X)
    estimated = RetrievalBound.of(hasher)
    assert estimated.eigenvalue == pytest.approx(1 / 9, rel=0.3)
    assert not estimated.applies
    bound = RetrievalBound(10**7, 1 / 9, 0.0, xi=2.0)
    assert bound.kept(projected_norms(hasher, np.vstack([X, Q]))).all()
    least = bound.similarity(hasher.between(Q, X).max(axis=1), epsilon)
    search = HashedSimilarity.built(
        ArrayPool(X), hasher, structure="tables", n_compared=int(n ** (1 / (1 + epsilon))), n_candidates=1
    )
    found = np.array([search.neighbours(q[None], 1).values[0] for q in Q])
    assert stats.binomtest(int((found >= least).sum()), 300).proportion_ci().low > bound.success
    by_chance = np.random.default_rng(2).integers(0, n, 300)
    alike = (Q * X[by_chance]).sum(axis=1) >= least
    assert stats.binomtest(int(alike.sum()), 300).proportion_ci().high < bound.success


def test_its_limit_is_equation_17() -> None:
    """By hand; the bound approaches it as the error vanishes, and the probability is that of the theorem."""
    assert limit([1.0, 0.5], 0.5) == pytest.approx([1.0, 0.25])
    bound = RetrievalBound(10**18, 1e-6, 0.0, xi=3.0)
    assert bound.similarity([1.0, 0.5], 0.5) == pytest.approx(limit([1.0, 0.5], 0.5), abs=0.02)
    assert bound.success == pytest.approx((1 - np.exp(-3)) / 2)
    no_gap = RetrievalBound(100, 0.2, 0.2)
    assert no_gap.error == np.inf
    assert no_gap.sufficient_norm == 1


@pytest.mark.parametrize("hasher", [fitted(centred=True), fitted(NystromLSH)], ids=["mean", "nystrom"])
def test_other_forms_are_refused(hasher: KernelHasher) -> None:
    """The theorem is not about them."""
    message = f"angles from the origin.*, got {hasher.name} with centred={hasher.centred}"
    with pytest.raises(InputError, match=message):
        RetrievalBound.of(hasher)
    with pytest.raises(InputError, match=message):
        projected_norms(hasher, points(3))


def test_numbers_out_of_range_are_refused() -> None:
    """In one sentence."""
    with pytest.raises(InputError, match="n_landmarks must be at least 1, got 0"):
        RetrievalBound(0, 0.2, 0.1)
    for pair in ((0.1, 0.2), (0.0, 0.0), (0.1, -0.1), (np.nan, 0.0), (np.inf, 0.0)):
        with pytest.raises(InputError, match="must be positive and finite, and next_eigenvalue from 0 to"):
            RetrievalBound(10, *pair)
    for xi in (0.0, np.inf):
        with pytest.raises(InputError, match=f"xi must be positive and finite, got {xi:g}"):
            RetrievalBound(10, 0.2, 0.1, xi=xi)
    with pytest.raises(InputError, match=r"η < 1 − √λ_k, got η = .*: it takes more landmarks than 60"):
        RetrievalBound.of(fitted()).similarity(1.0, 0.1)
    for epsilon in (0.0, np.inf):
        with pytest.raises(InputError, match=f"epsilon must be positive and finite, got {epsilon:g}"):
            with_error(0.1).similarity(1.0, epsilon)
