"""Training on sparse rows: the optimum of the same rows made dense, and the same bits in any order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.svm import LinearSVC

from closecall.core.evaluation.stability import held_out_scores
from closecall.core.learning.round import Labels, accuracy, learn
from closecall.core.linear.hyperplane import unit_rows
from closecall.core.linear.leave_one_out import leave_one_out
from closecall.core.linear.svm import TOLERANCE, box, solve, train
from closecall.core.numerics.gram_rotation import combination, rotated

CASES = [(C, class_weight) for C in (0.1, 1.0, 10.0) for class_weight in (None, "balanced")]


def bags(n: int, n_words: int = 3_000, seed: int = 0) -> tuple[csr_array, np.ndarray]:
    """Documents of two classes as unit bags of words, frequent and rare ones; some labels are wrong."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    rows = np.repeat(np.arange(n), 60)
    topic = rng.integers(0, 100, len(rows)) * 2 + y[rows]
    words = np.where(rng.random(len(rows)) < 0.2, topic, rng.zipf(1.2, len(rows)) % n_words)
    X = csr_array((np.ones(len(rows)), (rows, words % n_words)), shape=(n, n_words))
    X.sum_duplicates()
    y ^= rng.random(n) < 0.05
    y[:2] = True, False
    return unit_rows(X), y


def test_a_rotation_keeps_inner_products_and_is_the_same_for_the_same_rows() -> None:
    """ZZᵀ = XXᵀ, of equal rows and of more rows than features, too."""
    for X in (bags(80)[0], bags(40, n_words=11)[0], bags(20)[0][[0, 1, 2] * 5]):
        Z = rotated(X)
        wide = X.toarray().astype(np.float64)
        assert np.array_equal(Z, np.tril(Z))
        assert np.abs(Z @ Z.T - wide @ wide.T).max() < 1e-11
        assert np.array_equal(Z, rotated(X.copy()))
    weights = np.random.default_rng(0).standard_normal(15)
    assert np.allclose(combination(weights, X), weights @ wide, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("C", "class_weight"), CASES)
def test_the_optimum_is_that_of_the_dense_rows(C: float, class_weight: str | None) -> None:
    """Weights as of dense rows; primal and dual meet, and every label its condition, on the sparse rows."""
    X, y = bags(150)
    sparse = solve(X, y, C=C, class_weight=class_weight)
    dense = solve(X.toarray(), y, C=C, class_weight=class_weight)
    assert np.abs(sparse.weights - dense.weights).max() < 1e-7
    upper = box(y, C, class_weight)
    assert (sparse.alpha >= 0).all()
    assert (sparse.alpha <= upper).all()
    margins = np.where(y, 1, -1) * (X.astype(np.float64) @ sparse.weights[:-1] + sparse.weights[-1])
    slack = 2 * TOLERANCE
    assert (margins[sparse.alpha < upper] >= 1 - slack).all()
    assert (margins[sparse.alpha > 0] <= 1 + slack).all()
    primal = 0.5 * sparse.weights @ sparse.weights + upper @ np.maximum(0, 1 - margins)
    dual = sparse.alpha.sum() - 0.5 * sparse.weights @ sparse.weights
    assert abs(primal - dual) <= 1e-9 * primal


@pytest.mark.parametrize(("C", "class_weight"), CASES[::2])
def test_agrees_with_linear_svc(C: float, class_weight: str | None) -> None:
    """LinearSVC on the same sparse rows, converged, finds the same weights."""
    X, y = bags(120, seed=3)
    weights = solve(X, y, C=C, class_weight=class_weight).weights
    reference = LinearSVC(loss="hinge", C=C, class_weight=class_weight, tol=1e-9, max_iter=10_000_000)
    reference.fit(X.astype(np.float64), y)
    assert np.append(reference.coef_[0], reference.intercept_) == pytest.approx(weights, abs=1e-5)


def test_order_of_labels_does_not_matter() -> None:
    """The same labels in another order, or the same document under several ids, give the same bits."""
    X, y = bags(200)
    X, y = X[np.append(np.arange(200), [5, 5, 7])], np.append(y, y[[5, 5, 7]])
    ids = np.random.default_rng(5).permutation(10**6)[: len(y)]
    digest = train(X, y, ids).digest
    for seed in range(3):
        p = np.random.default_rng(seed).permutation(len(y))
        assert train(X[p], y[p], ids[p]).digest == digest


def test_leave_one_out_is_that_of_the_dense_rows() -> None:
    """Each label's score without itself."""
    X, y = bags(90)
    sparse, dense = leave_one_out(X, y), leave_one_out(X.toarray(), y)
    assert np.allclose(sparse.scores, dense.scores, rtol=0, atol=1e-5)


def test_labels_of_texts_are_learned_and_judged_like_others() -> None:
    """Learning, joining labels, cross-validation and accuracy take sparse rows."""
    X, y = bags(150)
    labels = Labels(np.arange(100), X[:100], y[:100]) + Labels(np.arange(100, 120), X[100:120], y[100:120])
    none = Labels(np.empty(0, np.int64), np.empty((0, X.shape[1]), np.float32), np.empty(0, np.bool_))
    labels = labels + none
    hyperplane = learn(labels).hyperplane
    assert hyperplane.digest == train(X[:120], y[:120], np.arange(120)).digest
    assert accuracy(hyperplane, X, y.astype(int), 1) == accuracy(hyperplane, X.toarray(), y.astype(int), 1)
    dense = Labels(labels.ids, labels.X.toarray(), labels.y)
    assert np.allclose(held_out_scores(labels), held_out_scores(dense), rtol=0, atol=1e-6)
