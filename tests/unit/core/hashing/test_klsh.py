"""Kernelized LSH against its equations, against kernel PCA, and against the theory of random hyperplanes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import sqrtm
from sklearn.decomposition import KernelPCA

from closecall.core.errors import InputError
from closecall.core.hashing import KernelizedLSH, KernelPCALSH, NystromLSH
from closecall.core.hashing.klsh import KernelHasher, clt_vectors, spectrum
from closecall.core.mercer import Kernel, Learned, kernel_from
from closecall.core.metric import ITML, Constraints, ExplicitMetric
from closecall.core.pool.build import build
from closecall.core.similar import HashedSimilarity
from closecall.core.sources import Digits

D, M, T = 12, 40, 15


def histograms(n: int, seed: int = 0) -> np.ndarray:
    """Of three kinds."""
    rng = np.random.default_rng([seed, 7])
    centres = np.random.default_rng(5).dirichlet(np.ones(D), 3)
    return (0.5 * rng.dirichlet(np.ones(D), n) + 0.5 * centres[np.arange(n) % 3]).astype(np.float32)


X, Q = histograms(200), histograms(30, 1)


def klsh(**changed: Any) -> KernelizedLSH:
    params = {"n_landmarks": M, "n_sampled": T, "n_functions": 60, "centred": False, **changed}
    return KernelizedLSH(**params).fit(X)


def kernel_values(family: KernelHasher, rows: np.ndarray | None = None) -> np.ndarray:
    """κ of rows, or of the landmarks, and the landmarks, in float64."""
    kernel = kernel_from(str(family.kernel))
    prepared = family.landmarks_ if rows is None else kernel.prepared(rows)
    return kernel.values(prepared, family.landmarks_).astype(np.float64)


def centred(K: np.ndarray) -> np.ndarray:
    H = np.eye(len(K)) - 1 / len(K)
    return np.asarray(H @ K @ H)


def ones_at_sampled(family: KernelizedLSH) -> np.ndarray:
    """E of each function, of shape (n_landmarks, n_functions)."""
    E = np.zeros((M, family.n_functions))
    for function, landmarks in enumerate(family.sampled_):
        E[landmarks, function] = 1
    return E


def assert_signs(family: KernelHasher, rows: np.ndarray, values: np.ndarray) -> None:
    """The codes are the signs of `values`, where these are larger than rounding in float32."""
    sure = np.abs(values) > 1e-3 * np.abs(values).std()
    assert sure.mean() > 0.95
    assert np.array_equal(family.hash_points(rows).unpacked()[sure], (values >= 0)[sure])


every_kernel = pytest.mark.parametrize("kernel", ["chi2", "intersection", "chi2:scale=4"])


@every_kernel
def test_it_is_equation_4(kernel: str) -> None:
    """sign(Σ w(i)·κ(x, x̂_i)) with w = K̄^{−1/2} e, the root by scipy's Schur method."""
    family = klsh(kernel=kernel)
    root = np.real(sqrtm(centred(kernel_values(family)) + 1e-13 * np.eye(M)))
    W = np.linalg.pinv(root, rcond=1e-4) @ ones_at_sampled(family)
    assert_signs(family, Q, kernel_values(family, Q) @ W)


@every_kernel
@pytest.mark.parametrize("rank", [1, 8, 30])
def test_its_low_rank_form_is_equation_18(kernel: str, rank: int) -> None:
    """W = K̄_r^{−1/2} e, K̄_r the best approximation of rank r, by a singular value decomposition."""
    family = klsh(kernel=kernel, rank=rank)
    U, s, Vt = np.linalg.svd(centred(kernel_values(family)))
    W = (U[:, :rank] / np.sqrt(s[:rank])) @ Vt[:rank] @ ones_at_sampled(family)
    assert_signs(family, Q, kernel_values(family, Q) @ W)


@every_kernel
@pytest.mark.parametrize("rank", [1, 8, 30])
def test_it_is_kernel_pca_and_lsh_up_to_the_random_vectors(kernel: str, rank: int) -> None:
    """By scikit-learn's kernel PCA: hyperplanes normal to whitened sums of projected landmarks (eq. 8).

    scikit-learn centres x too, hence `centred`.
    """
    family = klsh(kernel=kernel, rank=rank, centred=True)
    K = kernel_values(family)
    pca = KernelPCA(n_components=rank, kernel="precomputed", eigen_solver="dense").fit(K)
    sums = pca.transform(K).T @ ones_at_sampled(family)
    vectors = sums / np.sqrt(pca.eigenvalues_)[:, None]
    assert_signs(family, Q, pca.transform(kernel_values(family, Q)) @ vectors)


def test_kernel_pca_and_lsh_with_its_vectors_is_kernelized_lsh() -> None:
    """The two families differ in the random vectors and in nothing else."""
    one = klsh(rank=8, n_functions=200)
    other = KernelPCALSH(n_landmarks=M, rank=8, n_functions=200, centred=False).fit(X)
    assert not np.array_equal(one.hash_points(Q).packed, other.hash_points(Q).packed)
    exchanged = other.restored({**other.arrays(), **{k: one.arrays()[k] for k in SHARED}})
    assert np.array_equal(one.hash_points(Q).packed, exchanged.hash_points(Q).packed)


SHARED = ("landmarks_", "means_", "basis_", "vectors_")


def test_its_vectors_are_white() -> None:
    """Over all choices of t of m landmarks the covariance of v is exactly I, and its mean 0."""
    m, t = 9, 3
    K = centred(np.cov(np.random.default_rng(0).standard_normal((m, 50))))
    U = spectrum(K, "K").vectors
    V = clt_vectors(np.array(list(combinations(range(m), t))), U)
    np.testing.assert_allclose(V @ V.T / V.shape[1], np.eye(m - 1), atol=1e-12)
    np.testing.assert_allclose(V.mean(axis=1), 0, atol=1e-12)


def test_its_vectors_are_about_gaussian() -> None:
    """At t = 50 of 1,000: Kolmogorov and Smirnov see no difference in 2,000 draws of each of 3 components."""
    rng = np.random.default_rng(1)
    U = np.linalg.qr(np.column_stack([np.ones(1000), rng.standard_normal((1000, 3))]))[0][:, 1:]
    sampled = np.array([rng.choice(1000, 50, replace=False) for _ in range(2000)])
    for component in clt_vectors(sampled, U):
        assert stats.kstest(component, "norm").pvalue > 1e-4


@pytest.mark.parametrize("family", [KernelizedLSH, KernelPCALSH, NystromLSH])
@pytest.mark.parametrize("centred", [False, True])
def test_bits_agree_as_angles_say(family: type[KernelHasher], centred: bool) -> None:
    """1 − θ/π at the angle of what is projected; exactly so for Gaussian vectors, about so for sums of 50."""
    n, gaussian = 6_000, family is not KernelizedLSH
    fitted = family(n_landmarks=150, rank=10, centred=centred, n_functions=n, random_state=3).fit(X)
    bits = fitted.hash_points(Q[:12]).unpacked()
    counts = (bits[:, None] == bits[None]).sum(axis=2)[np.triu_indices(12, 1)]
    theta = fitted.angles(Q[:12], Q[:12])[np.triu_indices(12, 1)]
    expected = 1 - theta / np.pi
    assert np.ptp(expected) > 0.05
    slack = 0 if gaussian else 0.01 * n
    low, high = stats.binom.interval(1 - 1e-3 / counts.size, n, expected)
    assert ((low - slack <= counts) & (counts <= high + slack)).all()


def test_projections_keep_inner_products() -> None:
    """Among landmarks, those of K̄'s best approximation of rank r; of all ranks, K̄ itself."""
    for rank in (8, None):
        family = klsh(rank=rank, centred=True)
        K = centred(kernel_values(family))
        values, vectors = np.linalg.eigh(K)
        kept = slice(None) if rank is None else slice(-rank, None)
        best = (vectors[:, kept] * values[kept]) @ vectors[:, kept].T
        projected = family.embedded(family.landmarks_)
        np.testing.assert_allclose(projected @ projected.T, best, atol=1e-4)


def test_nystrom_is_equation_10() -> None:
    """φ(x)ᵀφ(y) = k(x)ᵀ K_r⁺ k(y), K_r the best approximation of rank r of the landmarks' kernel matrix."""
    family = NystromLSH(n_landmarks=M, rank=8, n_functions=5, centred=False).fit(X)
    U, s, Vt = np.linalg.svd(kernel_values(family))
    inverse = np.linalg.pinv((U[:, :8] * s[:8]) @ Vt[:8], rcond=1e-9)
    k = kernel_values(family, Q)
    projected = family.embedded(Q)
    np.testing.assert_allclose(projected @ projected.T, k @ inverse @ k.T, atol=1e-4)


def test_centring_matters_to_the_components() -> None:
    """The first component about the origin is the mean's: it hardly tells points apart, the others do."""
    about_origin = NystromLSH(n_landmarks=M, rank=2, n_functions=5, centred=False).fit(X).embedded(Q)
    first, second = about_origin.std(axis=0) / np.abs(about_origin).mean(axis=0)
    assert first < 0.2 < second


def test_between_is_the_kernel_itself() -> None:
    """Not its approximation by landmarks."""
    family = klsh(kernel="intersection", rank=2)
    expected = np.minimum(
        Q[:, None] / Q[:, None].sum(-1, keepdims=True), X[None] / X[None].sum(-1, keepdims=True)
    )
    np.testing.assert_allclose(family.between(Q, X), expected.sum(axis=2), atol=1e-5)


def test_a_learned_kernel_goes_with_the_family() -> None:
    """The metric is saved among its arrays."""
    G = np.random.default_rng(2).standard_normal((4, D))
    family = klsh(kernel=Learned(G.T @ G), rank=3)
    again = KernelizedLSH(**family.params()).restored(family.arrays())
    assert family.params()["kernel"] == "learned"
    assert np.array_equal(again.hash_points(Q).packed, family.hash_points(Q).packed)
    np.testing.assert_allclose(again.between(Q, X), Learned(G.T @ G).matrix(Q, X), atol=1e-6)


def test_the_metric_may_come_from_itml() -> None:
    """κ is the cosine of the angle under the metric."""
    metric = ITML(form="explicit").fit(X, Constraints.from_labels(X, np.arange(200) % 3)).metric_
    assert isinstance(metric, ExplicitMetric)
    family = klsh(kernel=Learned(metric.A), rank=8)
    lengths = np.sqrt(np.outer(metric.squared_norms(Q), metric.squared_norms(X)))
    np.testing.assert_allclose(family.between(Q, X), metric.inner(Q, X) / lengths, atol=1e-4)


def test_similar_items_are_found_by_the_kernel(tmp_path: Path) -> None:
    """Candidates by codes are ranked by κ: with all rows as candidates it is the exact scan."""
    pool = build(Digits(400), tmp_path / "pool", threads=1)
    rows = pool.rows(np.arange(len(pool)))
    family = KernelizedLSH(kernel="chi2:scale=3", n_landmarks=60, rank=16, n_functions=64).fit(rows)
    search = HashedSimilarity.built(pool, family, n_candidates=len(pool))
    K = family.between(rows[:5], rows)
    for query, values in zip(rows[:5], K, strict=True):
        found = search.neighbours(query, 7)
        assert found.measure == "kernel"
        assert np.array_equal(found.ids, pool.ids[np.argsort(-values, kind="stable")[:7]])
        np.testing.assert_allclose(found.values, np.sort(values)[:-8:-1], atol=1e-6)


def test_a_kernel_of_few_dimensions_has_few_components() -> None:
    """The cosine of rows of 12 features gives 12, however many landmarks there are."""
    assert klsh(kernel="cosine").embedded(Q).shape == (30, D)


@dataclass(frozen=True)
class Sigmoid(Kernel):
    """tanh(5·xᵀy − 3): used as a kernel, and none."""

    word: ClassVar[str] = "sigmoid"

    def prepared(self, X: Any) -> np.ndarray:
        return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float32)

    def values(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.tanh(5 * A @ B.T - 3)


def test_a_kernel_that_is_not_positive_is_refused() -> None:
    """And the sentence says what shows it."""
    with pytest.raises(
        InputError, match="the kernel sigmoid on 40 landmarks is not positive semidefinite: its smallest"
    ):
        klsh(kernel=Sigmoid())


def test_rows_that_are_all_the_same() -> None:
    """No plane lies between them."""
    with pytest.raises(InputError, match="the same value for all of them, so no bit can separate points"):
        KernelizedLSH(n_landmarks=M, n_sampled=T).fit(np.repeat(X[:1], 50, axis=0))


@pytest.mark.parametrize("family", [KernelizedLSH, KernelPCALSH, NystromLSH])
def test_fewer_rows_than_landmarks(family: type[KernelHasher]) -> None:
    """Both numbers are named."""
    with pytest.raises(
        InputError, match=f"{family.name} needs at least as many rows as landmarks, 1000, got 200"
    ):
        family().fit(X)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rank": 0}, "rank must be None or from 1 to 39, one less than the number of landmarks, got 0"),
        ({"rank": 40}, "rank must be None or from 1 to 39"),
        ({"n_landmarks": 1}, "n_landmarks must be at least 2, got 1"),
        ({"n_sampled": 0}, "n_sampled must be from 1 to 39"),
        ({"n_sampled": 40}, "n_sampled must be from 1 to 39.*, got 40"),
        ({"kernel": "hellinger"}, "kernel must be one of cosine, chi2"),
        (
            {"kernel": "learned"},
            "kernel must be one of cosine, chi2, intersection, rbf:gamma=…, got 'learned'",
        ),
    ],
)
def test_parameters_out_of_range(changed: dict[str, Any], message: str) -> None:
    """One sentence, with what is allowed."""
    with pytest.raises(InputError, match=message):
        klsh(**changed)


@pytest.mark.parametrize("method", ["hash_points", "hash_queries", "queries", "embedded"])
def test_rows_that_the_kernel_does_not_apply_to(method: str) -> None:
    """Centred ones, with a kernel on histograms: in fitting, and of points and queries."""
    wrong = Q - Q.mean(axis=0)
    with pytest.raises(InputError, match="the kernel chi2 compares histograms, and row 0 has the negative"):
        getattr(klsh(), method)(wrong)
    with pytest.raises(InputError, match="the kernel chi2 compares histograms"):
        KernelizedLSH(n_landmarks=20, n_sampled=5).fit(wrong)
