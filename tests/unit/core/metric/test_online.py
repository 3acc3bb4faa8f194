"""Metrics learned one constraint at a time, held against the printed update and against one pass of ITML."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.hashing import MetricLSH
from closecall.core.metric import (
    ITML,
    Constraints,
    ExplicitMetric,
    ImplicitMetric,
    OnlineITML,
    RelativeConstraints,
)
from tests.scale import scaled

N, D = 40, 6
KINDS = ("pairs", "triples")


def rows(seed=0):
    """Rows of single precision, some of whose numbers are 0, so that they can be sparse."""
    X = np.random.default_rng(seed).standard_normal((N, D)).astype(np.float32)
    return np.where(np.abs(X) < 0.4, 0, X)


def constraints(kind, X, n=30):
    if kind == "pairs":
        return Constraints.from_labels(X, np.arange(N) % 2, n_pairs=n, percentiles=(20, 80))
    rng = np.random.default_rng(1)
    triples = [rng.choice(N, 3, replace=False) for _ in range(n)]
    return RelativeConstraints.from_triples(X, triples, margin=1.0)


def picked(given, numbers):
    if isinstance(given, Constraints):
        return replace(given, pairs=given.pairs[numbers], similar=given.similar[numbers])
    return replace(given, triples=given.triples[numbers])


def full(metric):
    return metric.inner(np.eye(D), np.eye(D))


def printed(A, X, given, gamma):
    """Eq. 3 for a pair; for a triple, the μ at which the Lagrangian is stationary, by another root finder."""
    items, X = given.items[0], X.astype(np.float64)
    V = X[items[0]] - X[items[1:]]
    target = given.targets[0]
    if isinstance(given, Constraints):
        delta, p = given.terms[0], V[0] @ A @ V[0]
        a = min(0, delta * gamma / (gamma + 1) * (1 / p - 1 / target))
        return A + delta * a / (1 - delta * a * p) * np.outer(A @ V[0], A @ V[0])
    M = np.outer(V[0], V[0]) - np.outer(V[1], V[1])

    def after(mu):
        return np.linalg.inv(np.linalg.inv(A) + mu * M)

    def excess(mu):
        return np.trace(after(mu) @ M) + 2 * target - 1 / (1 / target - mu / gamma)

    if excess(0) <= 0:
        return A
    edge = 1 / np.linalg.eigvals(-A @ M).real.max()
    return after(brentq(excess, 0, min(edge, gamma / target) * (1 - 1e-9), xtol=1e-14))


@pytest.mark.parametrize("form", ["explicit", "implicit", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_update_is_the_printed_one(kind, form):
    """After each, GᵀG is A, positive definite, and G has changed to G(I + vwᵀ)."""
    X = rows()
    given = constraints(kind, X)
    start = ImplicitMetric(X[:0], np.zeros((0, 0))) if form == "implicit" else None
    learner, G, A = OnlineITML(gamma=2.0, start=start), np.eye(D), np.eye(D)
    changed = 0
    for number in range(len(given)):
        one = picked(given, [number])
        changes = learner.update(csr_array(X) if form == "sparse" else X, one)
        for v, w in changes:
            G = G + np.outer(G @ v, w)
        A = printed(A, X, one, 2.0)
        assert np.allclose(full(learner.metric_), A, rtol=1e-9, atol=1e-9)
        assert np.allclose(G.T @ G, A, rtol=1e-9, atol=1e-9)
        changed += bool(changes)
    assert 5 < changed < len(given)
    assert np.linalg.eigvalsh(A)[0] > 0


@pytest.mark.parametrize("form", ["explicit", "implicit"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_the_metric_of_one_pass(kind, form):
    """Of the same constraints in the same order, one at a time or some together."""
    X = rows()
    given = constraints(kind, X)
    batch = ITML(form=form, max_passes=1, random_state=3).fit(X, given).metric_
    order = np.random.default_rng(3).permutation(len(given))
    for size in (1, 7):
        learner = OnlineITML()
        for first in range(0, len(given), size):
            learner.update(X, picked(given, order[first : first + size]))
        assert np.allclose(full(learner.metric_), full(batch), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_hash_functions_follow(kind, sparse):
    """After every update, they are those of a family that is fitted with the new metric."""
    X = csr_array(rows()) if sparse else rows()
    learner = OnlineITML(start=ITML(max_passes=2).fit(X, constraints("pairs", X, 8)).metric_)
    hasher = MetricLSH(metric=learner.metric_, n_functions=400).fit(X)
    before = hasher.hash_points(X).unpacked()
    given = constraints(kind, X)
    for number in range(0, len(given), 3):
        changes = learner.update(X, picked(given, slice(number, number + 3)))
        hasher = hasher.updated(learner.metric_, changes)
        fitted = MetricLSH(metric=learner.metric_, n_functions=400).fit(X)
        assert np.allclose(
            hasher.vectors_, fitted.vectors_, rtol=1e-4, atol=1e-4 * np.abs(fitted.vectors_).max()
        )
        differing = hasher.hash_points(X).unpacked() != fitted.hash_points(X).unpacked()
        assert differing.mean() < 5e-4
    assert (before != hasher.hash_points(X).unpacked()).mean() > 0.01
    assert np.array_equal(hasher.between(X, X), fitted.between(X, X))


@pytest.mark.parametrize("kind", KINDS)
def test_updated_bits_agree_as_often_as_theory_says(kind):
    """With probability 1 − θ_A/π, where θ_A is the angle under the updated metric."""
    X, n = rows(), scaled(quick=10_000, all=40_000)
    learner = OnlineITML(gamma=5.0)
    hasher = MetricLSH(metric=ExplicitMetric(np.eye(D)), n_functions=n).fit(X)
    changes = learner.update(X, constraints(kind, X))
    hasher = hasher.updated(learner.metric_, changes)
    bits = hasher.hash_points(X[:8]).unpacked()
    i, j = np.triu_indices(8, 1)
    expected = hasher.collision_probability(hasher.between(X[:8], X[:8]))[i, j]
    found = (bits[i] == bits[j]).mean(axis=1)
    assert (np.abs(found - expected) < 4.5 * np.sqrt(expected * (1 - expected) / n)).all()
    original = MetricLSH(metric=ExplicitMetric(np.eye(D)), n_functions=1).fit(X).between(X[:8], X[:8])[i, j]
    assert np.abs(found - (1 - original / np.pi)).max() > 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_without_slack_the_newest_constraint_holds_exactly(kind):
    """So that it changes nothing when it comes again."""
    X = rows()
    given = constraints(kind, X)
    learner = OnlineITML(gamma=np.inf)
    for number in range(len(given)):
        one = picked(given, [number])
        learner.update(X, one)
        A, first = full(learner.metric_), X[one.items[0, 0]]
        distances = [(first - X[other]) @ A @ (first - X[other]) for other in one.items[0, 1:]]
        if kind == "triples":
            assert distances[1] - distances[0] >= 1.0 - 1e-6
        else:
            assert one.terms[0] * (one.targets[0] - distances[0]) >= -1e-6
        again = learner.update(X, one)
        assert np.allclose(full(learner.metric_), A, rtol=1e-6, atol=1e-6)
        assert all(np.abs(w).max() < 1e-6 for _, w in again)


@pytest.mark.parametrize("sparse", [False, True])
def test_equal_rows_are_stored_once(sparse):
    """Whatever their numbers are: c grows with the different rows only. The start is not changed."""
    X = csr_array(rows()) if sparse else rows()
    start = ITML(form="implicit").fit(X, constraints("pairs", X)).metric_
    before = start.S.copy()
    learner = OnlineITML(start=start)
    given = constraints("triples", X)
    learner.update(X, given)
    used = len(np.unique(np.concatenate([constraints("pairs", X).items.ravel(), given.items.ravel()])))
    learner.update(X[np.arange(N)[::-1]], replace(given, triples=N - 1 - given.triples))
    assert len(learner.metric_.S) == used
    assert np.array_equal(start.S, before)


def test_a_metric_that_was_read_stays():
    """Later updates make another."""
    X = rows()
    given = constraints("pairs", X)
    learner = OnlineITML()
    learner.update(X, picked(given, slice(10)))
    metric = learner.metric_
    before = metric.G.copy()
    assert learner.update(X, given)
    assert np.array_equal(metric.G, before)


def test_bad_input_gets_one_clear_sentence():
    """Parameters, rows that don't fit, constraints that no metric satisfies."""
    X = rows()
    given = constraints("pairs", X)
    with pytest.raises(InputError, match="gamma must be positive, got 0"):
        OnlineITML(gamma=0).update(X, given)
    with pytest.raises(AttributeError, match="there is no metric yet"):
        _ = OnlineITML().metric_
    learner = OnlineITML()
    learner.update(X, given)
    with pytest.raises(InputError, match="an explicit metric needs dense rows, got sparse ones"):
        learner.update(csr_array(X), given)
    with pytest.raises(InputError, match="the metric has 6 features, got rows of 3"):
        learner.update(X[:, :3], given)
    learner = OnlineITML()
    learner.update(csr_array(X), given)
    with pytest.raises(InputError, match="rows must all be dense or all be sparse"):
        learner.update(X, given)
    line = np.array([[0.0, 0], [2, 0], [1, 0]])
    ahead = RelativeConstraints.from_triples(line, [(0, 1, 2)], margin=0.1)
    with pytest.raises(
        InputError, match=r"no metric satisfies the constraint on rows \(0, 1, 2\); allow slack"
    ):
        OnlineITML(gamma=np.inf).update(line, ahead)
    assert OnlineITML().update(line, ahead)
