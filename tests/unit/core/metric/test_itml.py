"""Learned metrics, held against an independent solver and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.metric import ITML, Constraints, ExplicitMetric, ImplicitMetric, metric_from_arrays
from closecall.core.metric.itml import positive_kernel
from closecall.core.metric.metrics import weights_of
from tests.yardsticks import explicit as in_full
from tests.yardsticks import nearest_metric

D = 3


def rows(n=30, d=D, seed=0):
    """Two classes that differ in the first feature, of which the others tell nothing."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 0] = 0.3 * X[:, 0] + np.arange(n) % 2
    return X, np.arange(n) % 2


def constraints(X, y, n_pairs=10, seed=0):
    return Constraints.from_labels(X, y, n_pairs=n_pairs, percentiles=(20, 80), random_state=seed)


def solved(X, given: Constraints, gamma: float, A0: np.ndarray) -> np.ndarray:
    """Eq. 2 by another solver."""
    V = X[given.pairs[:, 0]] - X[given.pairs[:, 1]]
    signs = np.where(given.similar, 1.0, -1.0)
    return nearest_metric(A0, np.einsum("ij,ik->ijk", V, V), signs, given.targets, gamma)


@pytest.mark.parametrize("form", ["explicit", "implicit"])
@pytest.mark.parametrize("gamma", [0.2, 1.0, 20.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_metric_is_the_one_that_another_solver_finds(form, gamma, seed):
    """The optimum of eq. 2 is unique: both must arrive at it, for any price of slack."""
    X, y = rows(seed=seed)
    given = constraints(X, y, seed=seed)
    learned = ITML(gamma=gamma, form=form, tol=1e-10).fit(X, given)
    assert learned.projections_.converged
    A = learned.metric_.inner(np.eye(D), np.eye(D))
    assert np.allclose(A, solved(X, given, gamma, np.eye(D)), atol=2e-4)
    assert np.abs(A - np.eye(D)).max() > 0.05


def test_another_prior_leads_to_the_metric_nearest_to_that():
    """A₀ need not be the identity, in the explicit form."""
    X, y = rows()
    given = constraints(X, y)
    A0 = np.diag([0.5, 2.0, 1.0]) + 0.1
    learned = ITML(form="explicit", tol=1e-10).fit(X, given, prior=A0)
    assert np.allclose(learned.metric_.A, solved(X, given, 1.0, A0), atol=2e-4)


def test_without_slack_the_constraints_are_met_exactly():
    """And by the same metric as the other solver's."""
    X, _ = rows()
    given = Constraints.from_pairs(X, [(0, 2), (1, 5)], [(0, 1), (4, 7)], percentiles=(25, 75))
    learned = ITML(gamma=np.inf, tol=1e-10, max_passes=5000).fit(X, given)
    assert np.allclose(
        learned.metric_.inner(np.eye(D), np.eye(D)), solved(X, given, np.inf, np.eye(D)), atol=2e-4
    )
    distances = paired_distances(learned.metric_, X, given)
    assert (distances[given.similar] <= given.upper * (1 + 1e-6)).all()
    assert (distances[~given.similar] >= given.lower * (1 - 1e-6)).all()


def paired_distances(metric, X, given):
    all_distances = metric.squared_distances(X, X)
    return all_distances[given.pairs[:, 0], given.pairs[:, 1]]


@pytest.mark.parametrize("form", ["explicit", "implicit"])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 100.0])
def test_constraints_are_met_up_to_their_slack_by_a_positive_definite_metric(form, gamma):
    """Multipliers are not negative, and those of constraints with room to spare are zero."""
    X, y = rows(60, 8)
    given = constraints(X, y, 200)
    learned = ITML(gamma=gamma, form=form, tol=1e-8, max_passes=20_000).fit(X, given)
    assert np.linalg.eigvalsh(learned.metric_.inner(np.eye(8), np.eye(8)))[0] > 0
    ended = learned.projections_
    assert ended.converged
    assert (ended.multipliers >= 0).all()
    sign = np.where(given.similar, 1, -1)
    room = sign * (ended.bounds - paired_distances(learned.metric_, X, given)) / ended.bounds
    assert (room > -1e-3).all()
    assert (ended.multipliers * np.maximum(room, 0) < 1e-3 * ended.multipliers.max()).all()


def test_the_dearer_the_slack_the_less_of_it():
    """γ trades the change of the metric against that of the bounds."""
    X, y = rows(60, 8)
    given = constraints(X, y, 200)
    slack = []
    for gamma in (0.01, 0.1, 1.0, 10.0):
        bounds = ITML(gamma=gamma).fit(X, given).projections_.bounds
        slack.append(np.abs(np.log(bounds / given.targets)).sum())
    assert slack == sorted(slack, reverse=True)
    assert slack[0] > 2 * slack[-1]


@pytest.mark.parametrize("sparse", [False, True])
def test_implicitly_the_same_metric_is_learned(sparse):
    """Inner products, norms, directions and distances, of rows that it has not seen; sparse ones too."""
    X, y = rows(40, 6)
    X[np.abs(X) < 0.5] = 0
    X[:, 0] += 0.1
    new = rows(9, 6, seed=5)[0]
    given = constraints(X, y, 60)
    A = ITML(form="explicit", tol=1e-9).fit(X, given).metric_.A
    as_given = csr_array(X) if sparse else X
    metric = ITML(form="auto" if sparse else "implicit", tol=1e-9).fit(as_given, given).metric_
    assert isinstance(metric, ImplicitMetric)
    Q = csr_array(new) if sparse else new
    assert np.allclose(metric.inner(Q, as_given), new @ A @ X.T, atol=1e-4)
    assert np.allclose(metric.squared_norms(Q), np.diag(new @ A @ new.T), atol=1e-4)
    assert np.allclose(metric.directions(Q), new @ A, atol=1e-4)
    difference = new[2] - X[3]
    assert np.isclose(metric.squared_distances(Q, as_given)[2, 3], difference @ A @ difference, atol=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", [ExplicitMetric, ImplicitMetric])
def test_rows_of_another_width_get_one_clear_sentence(kind, sparse):
    """On either side, with either number of features, in every computation."""
    as_given = csr_array if sparse else np.asarray
    X, other = as_given(rows(9, 6)[0]), as_given(rows(9, 5)[0])
    metric = ImplicitMetric(X, np.eye(9)) if kind is ImplicitMetric else ExplicitMetric(np.eye(6))
    for compute, given in (
        (metric.inner, (X, other)),
        (metric.inner, (other, X)),
        (metric.inner, (other, other)),
        (metric.squared_distances, (X, other)),
        (metric.squared_norms, (other,)),
        (metric.directions, (other,)),
    ):
        with pytest.raises(InputError, match="the metric has 6 features, got rows of 5"):
            compute(*given)


def test_with_enough_features_for_the_constrained_rows_kernels_agree_too():
    """Where there are more features than rows: K = K₀ + K₀MK₀ is XAXᵀ (eq. 4)."""
    X, y = rows(12, 40)
    given = constraints(X, y, 30)
    explicit = ITML(form="explicit", tol=1e-9).fit(X, given).metric_
    implicit = ITML(form="auto", tol=1e-9).fit(X, given).metric_
    assert isinstance(implicit, ImplicitMetric)
    used = np.unique(given.pairs)
    K0 = X[used] @ X[used].T
    K = K0 + K0 @ weights_of(implicit.S, K0) @ K0
    assert np.allclose(K, X[used] @ explicit.A @ X[used].T, atol=1e-4)
    assert np.allclose(in_full(implicit).A, explicit.A, atol=1e-4)


def test_a_kernel_alone_is_enough():
    """Nothing but K₀ is needed to learn; the learned distances keep to the bounds."""
    X, y = rows(12, 5)
    given = constraints(X, y, 40)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K0 = np.exp(-squares / 4)
    distances = 2 - 2 * K0[tuple(given.pairs.T)]
    upper, lower = np.percentile(distances, [20, 80])
    by_kernel = Constraints(given.pairs, given.similar, upper, lower)
    learner = ITML(gamma=10, tol=1e-9, max_passes=20_000)
    S = learner.learn_kernel(K0, by_kernel, given.pairs)
    K = K0 + K0 @ weights_of(S, K0) @ K0
    i, j = given.pairs.T
    after = K[i, i] + K[j, j] - 2 * K[i, j]
    sign = np.where(given.similar, 1, -1)
    assert (sign * (learner.projections_.bounds - after) > -1e-4).all()
    assert np.linalg.eigvalsh(K)[0] > -1e-9


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("form", ["explicit", "implicit"])
def test_a_metric_is_saved_by_its_arrays(form, sparse):
    """Whole, and of any kind."""
    X, y = rows(20, 5)
    given = constraints(X, y)
    if sparse and form == "explicit":
        with pytest.raises(InputError, match="form='explicit' needs dense rows"):
            ITML(form=form).fit(csr_array(X), given)
        return
    metric = ITML(form=form).fit(csr_array(X) if sparse else X, given).metric_
    again = metric_from_arrays(metric.arrays())
    assert np.array_equal(again.inner(X, X), metric.inner(X, X))


def test_a_learned_metric_puts_classes_further_apart():
    """What it is for: a nearest neighbour is more often of one's own class than before."""
    X, y = rows(300, 10)
    train, test = X[:150], X[150:]
    metric = ITML(gamma=1).fit(train, Constraints.from_labels(train, y[:150])).metric_
    before = (y[((test[:, None] - train[None]) ** 2).sum(axis=2).argmin(axis=1)] == y[150:]).mean()
    after = (y[metric.squared_distances(test, train).argmin(axis=1)] == y[150:]).mean()
    assert after > before + 0.05


def test_pairs_from_labels_are_of_known_classes():
    """Similar in one class, dissimilar in two, none of an unknown one; all there are, where there are few."""
    X, y = rows(200)
    y = np.where(np.arange(200) % 3 == 0, -1, y)
    given = Constraints.from_labels(X, y, n_pairs=80)
    alike = y[given.pairs[:, 0]] == y[given.pairs[:, 1]]
    assert np.array_equal(alike, given.similar)
    assert (y[given.pairs] >= 0).all()
    assert (given.similar.sum(), len(given)) == (40, 80)
    few = Constraints.from_labels(X[:3], [0, 0, 1])
    assert sorted(map(tuple, few.pairs.tolist())) == [(0, 1), (0, 2), (1, 2)]
    many = Constraints.from_labels(X, np.arange(200) // 2, n_pairs=100)
    assert many.similar.sum() > 20


def test_thresholds_are_percentiles_of_squared_distances():
    """Of all pairs, where they are few."""
    X, _ = rows(20)
    given = Constraints.from_pairs(X, [(0, 1)], [(2, 3)], percentiles=(10, 90))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)[np.triu_indices(20, 1)]
    assert np.allclose([given.upper, given.lower], np.percentile(squares, [10, 90]))


def test_bad_constraints_get_one_clear_sentence():
    """Contradictions, too few labels, pairs of nothing."""
    X, _ = rows(20)
    X[7] = X[3]
    with pytest.raises(InputError, match="rows 1 and 4 are both similar and dissimilar"):
        Constraints.from_pairs(X, [(0, 2), (4, 1)], [(1, 4)])
    with pytest.raises(InputError, match="rows 3 and 7 are equal, at distance 0 under every metric"):
        Constraints.from_pairs(X, [], [(7, 3)])
    with pytest.raises(InputError, match="needs at least one pair, got none"):
        Constraints.from_pairs(X, [], [])
    with pytest.raises(InputError, match=r"rows from 0 to 19, got \(3, 20\)"):
        Constraints.from_pairs(X, [(3, 20)], [])
    with pytest.raises(InputError, match="got row 5 twice"):
        Constraints.from_pairs(X, [(5, 5)], [])
    with pytest.raises(InputError, match="0 < upper < lower, got 0 and 0"):
        Constraints.from_pairs(np.ones((4, 2)), [(0, 1)], [])
    with pytest.raises(InputError, match="percentiles must ascend"):
        Constraints.from_pairs(X, [(0, 1)], [], percentiles=(90, 10))
    with pytest.raises(InputError, match="got 2 labels of 1 class"):
        Constraints.from_labels(X[:3], [0, 0, -1])
    with pytest.raises(InputError, match="two of one class, got 2 labels of 2 classes"):
        Constraints.from_labels(X[:3], [0, -1, 1])
    with pytest.raises(InputError, match="one class for each of 20 rows"):
        Constraints.from_labels(X, [0, 1])


def test_bad_learning_gets_one_clear_sentence():
    """Parameters, priors and kernels that are not positive, contradictions without slack."""
    X, y = rows(20)
    given = constraints(X, y)
    with pytest.raises(InputError, match="gamma must be positive, got 0"):
        ITML(gamma=0).fit(X, given)
    with pytest.raises(InputError, match="form must be one of auto, explicit, implicit, got 'both'"):
        ITML(form="both").fit(X, given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="prior is not positive definite: its smallest eigenvalue is -1"):
        ITML().fit(X, given, prior=np.diag([1.0, 1, -1]))
    with pytest.raises(
        InputError, match="kernel is not positive semidefinite: its smallest eigenvalue is -1, its largest 3"
    ):
        positive_kernel([[1.0, 2], [2, 1]])
    with pytest.raises(InputError, match=r"finite symmetric matrix, got one of shape \(2, 2\)"):
        positive_kernel([[1.0, 2], [3, 1]])
    line = np.array([[0.0, 0], [1, 0], [2, 0], [0, 0.1]])
    impossible = Constraints(np.array([(0, 1), (1, 2), (0, 2)]), np.array([True, True, False]), 0.01, 9.0)
    with pytest.raises(InputError, match=r"constraints contradict each other: after .* allow slack"):
        ITML(gamma=np.inf, max_passes=50).fit(line, impossible)
    assert np.isfinite(ITML(gamma=1).fit(line, impossible).metric_.inner(line, line)).all()
