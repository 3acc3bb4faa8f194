"""Metrics learned from triples, held against an independent solver and against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.metric import ITML, ImplicitMetric, KernelLearning, RelativeConstraints
from closecall.core.metric.kernel_learning import root_of
from closecall.core.metric.metrics import weights_of
from tests.scale import thorough
from tests.yardsticks import nearest_metric

D = 3
FORMS = ("explicit", "implicit")


def rows(n=30, d=D, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def drawn(X, n, seed=0, scale=None):
    """Triples that hold if features are scaled; by default, the first counts and the others don't."""
    rng = np.random.default_rng([seed, 1])
    scaled = X * (np.eye(X.shape[1])[0] + 0.1 if scale is None else scale)
    triples = np.array([rng.choice(len(X), 3, replace=False) for _ in range(n)])
    far = distances(scaled, triples, 2) < distances(scaled, triples, 1)
    triples[far] = triples[far][:, [0, 2, 1]]
    return triples


def distances(X, triples, place):
    return ((X[triples[:, 0]] - X[triples[:, place]]) ** 2).sum(axis=1)


def short(X, triples, margin):
    """Which triples don't hold by the margin in the original space."""
    return distances(X, triples, 2) - distances(X, triples, 1) < margin


def forms_of(X, triples):
    """The vvᵀ − wwᵀ of each triple."""
    V, W = X[triples[:, 0]] - X[triples[:, 1]], X[triples[:, 0]] - X[triples[:, 2]]
    return np.einsum("ij,ik->ijk", V, V) - np.einsum("ij,ik->ijk", W, W)


def gaps(metric, X, triples):
    """d_A(i, k) − d_A(i, j)."""
    return -np.einsum("ijk,jk->i", forms_of(X, triples), full(metric))


def full(metric):
    return metric.inner(np.eye(metric.n_features), np.eye(metric.n_features))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gamma", [thorough(0.3), 5.0, np.inf])
def test_the_metric_is_the_one_that_another_solver_finds(form, gamma):
    """The optimum is unique: both must arrive at it, for any price of slack and without."""
    X = rows()
    triples = drawn(X, 30)
    given = RelativeConstraints.from_triples(X, triples[short(X, triples, 0.5)][:3], margin=0.5)
    learned = ITML(gamma=gamma, form=form, tol=1e-10, max_passes=20_000).fit(X, given)
    solved = nearest_metric(
        np.eye(D), forms_of(X, given.triples), np.ones(len(given)), given.targets, gamma, offset=1.0
    )
    assert learned.projections_.converged
    assert np.allclose(full(learned.metric_), solved, atol=2e-4)
    assert np.abs(solved - np.eye(D)).max() > 0.05
    if np.isinf(gamma):
        assert (gaps(learned.metric_, X, given.triples) >= 0.5 - 1e-7).all()


@pytest.mark.parametrize("margin", [0.01, 1.0, 30.0])
def test_one_projection_meets_its_constraint_exactly(margin):
    """Without slack, by μ(vvᵀ − wwᵀ) in A⁻¹ alone; in all forms the same."""
    X = rows()
    triples = drawn(X, 10)
    for triple in triples[short(X, triples, margin)]:
        given = RelativeConstraints.from_triples(X, [triple], margin=margin)
        (M,) = forms_of(X, given.triples)
        once = {"gamma": np.inf, "max_passes": 1, "tol": 1e300}
        for form in FORMS:
            learned = ITML(form=form, **once).fit(X, given)
            A, mu = full(learned.metric_), learned.projections_.multipliers[0]
            assert gaps(learned.metric_, X, given.triples) == pytest.approx(margin, rel=1e-8)
            assert mu > 0
            assert np.allclose(A, np.linalg.inv(np.eye(D) + mu * M), rtol=1e-8)
            assert np.linalg.eigvalsh(A)[0] > 0
        kernel = KernelLearning(**once).fit(X @ X.T, given)
        assert np.allclose(kernel.kernel_, X @ A @ X.T, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("gamma", [0.2, 1.0, np.inf])
def test_what_must_hold_at_the_optimum_does(gamma):
    """In kernel form, too: the Lagrangian is stationary, and multipliers are zero where there is room."""
    X = rows(12)
    K0 = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    F = root_of(K0)
    given = RelativeConstraints.from_triples(F, drawn(X, 4 if np.isinf(gamma) else 12), margin=0.2)
    learned = KernelLearning(gamma=gamma, tol=1e-12, max_passes=50_000).fit(K0, given)
    ended, K = learned.projections_, learned.kernel_
    M = forms_of(np.eye(12), given.triples)
    assert ended.converged
    inverse = np.linalg.inv(K0) + np.einsum("i,ijk->jk", ended.multipliers, M)
    assert np.allclose(K @ inverse, np.eye(12), atol=1e-6)
    assert np.allclose(1 / ended.bounds, 1 / 0.2 - ended.multipliers / gamma)
    room = ended.bounds - 0.4 - np.einsum("ijk,jk->i", M, K)
    assert (ended.multipliers >= 0).all()
    assert (ended.multipliers > 0).any()
    assert (room > -1e-7).all()
    assert (ended.multipliers * room < 1e-7).all()
    assert np.linalg.eigvalsh(K)[0] > 0
    assert np.allclose(learned.kernel_, K0 + K0 @ learned.weights_ @ K0, atol=1e-9)


@pytest.mark.parametrize("passes", [1, 3])
def test_all_forms_agree_on_the_way(passes):
    """After each pass, when multipliers go down again as well as up."""
    X = rows()
    given = RelativeConstraints.from_triples(X, drawn(X, 60))
    how = {"max_passes": passes, "tol": 1e-15, "random_state": 2}
    learned = [ITML(form=form, **how).fit(X, given) for form in FORMS]
    kernel = KernelLearning(**how).fit(X @ X.T, given)
    for other in learned:
        assert np.allclose(other.metric_.inner(X, X), kernel.kernel_, rtol=1e-9, atol=1e-9)
        assert np.allclose(other.projections_.multipliers, kernel.projections_.multipliers)
        assert np.allclose(other.projections_.bounds, kernel.projections_.bounds)


def test_sparse_rows_get_the_same_metric():
    """As for pairs, in implicit form."""
    X = np.where(np.abs(rows(20, 30)) < 1, 0, rows(20, 30)).astype(np.float32)
    given = RelativeConstraints.from_triples(csr_array(X), drawn(X, 10, scale=np.ones(30)))
    sparse, dense = ITML().fit(csr_array(X), given).metric_, ITML(form="explicit").fit(X, given).metric_
    assert isinstance(sparse, ImplicitMetric)
    assert np.allclose(sparse.inner(csr_array(X), csr_array(X)), dense.inner(X, X), atol=1e-6)


def test_a_kernel_alone_is_enough():
    """With the triples as rows of K₀."""
    X = rows(12)
    given = RelativeConstraints.from_triples(X, drawn(X, 10))
    learner = ITML(tol=1e-9)
    S = learner.learn_kernel(X @ X.T, given, given.triples)
    K0 = X @ X.T
    assert np.allclose(K0 + K0 @ weights_of(S, K0) @ K0, learner.fit(X, given).metric_.inner(X, X), atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_triples_that_contradict_each_other_need_slack(form):
    """With slack, a positive definite metric between them; without, an error, also for rows on one line."""
    X = rows()
    both = RelativeConstraints.from_triples(X, [(0, 1, 2), (0, 2, 1)], margin=1.0)
    learned = ITML(form=form, tol=1e-8).fit(X, both)
    assert learned.projections_.converged
    assert np.linalg.eigvalsh(full(learned.metric_))[0] > 0
    line = np.array([[0.0, 0], [2, 0], [1, 0]])
    ahead = RelativeConstraints.from_triples(line, [(0, 1, 2)], margin=0.1)
    assert np.isfinite(full(ITML(form=form).fit(line, ahead).metric_)).all()
    for rows_of, given in ((X, both), (line, ahead)):
        with pytest.raises(InputError, match=r"constraints contradict each other: after .* allow slack"):
            ITML(form=form, gamma=np.inf, max_passes=200).fit(rows_of, given)


def test_held_out_triples_hold_more_often():
    """What it is for: comparisons that nobody has made yet are told better than by Euclidean distance."""
    X = rows(200, 10)
    learn, held_out = drawn(X[:100], 300), drawn(X[100:], 1000, seed=1)
    metric = ITML().fit(X[:100], RelativeConstraints.from_triples(X[:100], learn)).metric_
    before = (distances(X[100:], held_out, 1) < distances(X[100:], held_out, 2)).mean()
    after = (gaps(metric, X[100:], held_out) > 0).mean()
    assert after > before + 0.1


def test_bad_triples_get_one_clear_sentence():
    """Unknown, repeated and equal rows, and margins that are none."""
    X = rows(8)
    X[7] = X[3]
    with pytest.raises(InputError, match="needs at least one triple, got none"):
        RelativeConstraints.from_triples(X, [])
    with pytest.raises(InputError, match=r"triples must be of rows from 0 to 7, got \(0, 1, 8\)"):
        RelativeConstraints.from_triples(X, [(0, 1, 8)])
    with pytest.raises(InputError, match=r"three different rows, got \(5, 1, 5\)"):
        RelativeConstraints.from_triples(X, [(5, 1, 5)])
    with pytest.raises(InputError, match=r"rows 3 and 7 are equal, .* row 3 cannot be nearer to row 0"):
        RelativeConstraints.from_triples(X, [(1, 3, 7), (3, 0, 7)])
    with pytest.raises(InputError, match="margin must be positive and finite, got 0"):
        RelativeConstraints.from_triples(X, [(0, 1, 2)], margin=0)
