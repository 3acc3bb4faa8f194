"""The SVM: the optimum of the stated objective, and the same bits for the same labels."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from sklearn.svm import LinearSVC

from closecall.core.errors import InputError
from closecall.core.linear import svm
from closecall.core.linear.kernels import Signed, pivots, squared_norms
from closecall.core.linear.svm import TOLERANCE, Solution, box, solve, train
from closecall.core.numerics.rows import PlacedRows
from tests.scale import examples


def rows(n, d, seed=0, spread=0.3):
    """Unit rows with a large mean in common and no negative entries, as GIST has them."""
    rng = np.random.default_rng(seed)
    X = np.abs(1 + spread * rng.standard_normal((n, d)))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def answers(X, seed=0, noise=0.1):
    """Answers by a random hyperplane, some of them wrong."""
    rng = np.random.default_rng([seed, 1])
    score = X @ rng.standard_normal(X.shape[1])
    y = score > np.median(score)
    y ^= rng.random(len(y)) < noise
    y[0], y[1] = True, False
    return y


def actively_labeled(n, d, seed=0):
    """Labels as a session collects them: each batch is what lies nearest to the hyperplane so far."""
    X = rows(20 * n, d, seed)
    y = answers(X, seed)
    labeled = np.arange(20)
    while len(labeled) < n:
        plane = train(X[labeled], y[labeled], labeled, C=1.0)
        distance = np.abs(plane.scores(X))
        distance[labeled] = np.inf
        labeled = np.append(labeled, np.argsort(distance)[:20])
    return X[labeled], y[labeled]


def signed(X, y):
    """The rows aᵢ = yᵢ[xᵢ, 1], in float64."""
    return np.column_stack([X.astype(np.float64), np.ones(len(X))]) * np.where(y, 1.0, -1.0)[:, None]


def primal(X, y, weights, C, class_weight):
    """The objective as the module states it."""
    loss = np.maximum(0, 1 - signed(X, y) @ weights)
    return 0.5 * weights @ weights + box(y, C, class_weight) @ loss


def duality_gap(X, y, solution: Solution, C, class_weight):
    """The gap between primal and dual, relative to the primal."""
    value = primal(X, y, solution.weights, C, class_weight)
    combined = signed(X, y).T @ solution.alpha
    return (value - (solution.alpha.sum() - 0.5 * combined @ combined)) / value


CASES = [(C, class_weight) for C in (0.1, 1.0, 10.0) for class_weight in (None, "balanced")]


@pytest.mark.parametrize(("C", "class_weight"), CASES)
@pytest.mark.parametrize(("n", "d"), [(40, 60), (400, 24)])
def test_optimum(n, d, C, class_weight):
    """Primal and dual meet to nine digits on actively chosen labels; each label meets its condition."""
    X, y = actively_labeled(n, d)
    y[:3] = [True, False, False]
    upper = box(y, C, class_weight)
    solution = solve(X, y, C=C, class_weight=class_weight)
    assert abs(duality_gap(X, y, solution, C, class_weight)) <= 1e-9
    assert (solution.alpha >= 0).all()
    assert (solution.alpha <= upper).all()
    margins = signed(X, y) @ solution.weights
    assert TOLERANCE <= 1e-9
    slack = 2 * TOLERANCE
    assert (margins[solution.alpha < upper] >= 1 - slack).all()
    assert (margins[solution.alpha > 0] <= 1 + slack).all()


@pytest.mark.parametrize(("C", "class_weight"), CASES)
def test_agrees_with_linear_svc(C, class_weight):
    """LinearSVC, left to run until it is converged to 1e-8, finds the same weights."""
    X, y = actively_labeled(120, 10)
    weights = solve(X, y, C=C, class_weight=class_weight).weights
    reference = LinearSVC(
        loss="hinge", C=C, class_weight=class_weight, tol=1e-8, max_iter=10_000_000, random_state=0
    ).fit(X.astype(np.float64), y)
    assert np.append(reference.coef_[0], reference.intercept_) == pytest.approx(weights, abs=1e-5)


@pytest.mark.parametrize(("C", "class_weight"), CASES)
def test_agrees_with_an_independent_solver(C, class_weight):
    """With fewer labels than features the dual is bounded least squares, which scipy solves exactly."""
    X = rows(30, 40)
    y = answers(X)
    A = signed(X, y)
    target = np.linalg.lstsq(A, np.ones(len(A)))[0]
    found = lsq_linear(A.T, target, (0, box(y, C, class_weight)), method="bvls", tol=1e-14)
    assert found.x @ A == pytest.approx(solve(X, y, C=C, class_weight=class_weight).weights, abs=1e-7)


@pytest.mark.parametrize(("C", "class_weight"), CASES)
def test_order_of_labels_does_not_matter(C, class_weight):
    """The same labels in another order give the same bits."""
    X, y = actively_labeled(200, 24)
    ids = np.random.default_rng(5).permutation(10**6)[: len(y)]
    digest = train(X, y, ids, C=C, class_weight=class_weight).digest
    for seed in range(3):
        p = np.random.default_rng(seed).permutation(len(y))
        assert train(X[p], y[p], ids[p], C=C, class_weight=class_weight).digest == digest


def test_the_way_does_not_matter(monkeypatch):
    """The weights come from the sides alone: a longer or a shorter descent before gives the same bits."""
    X, y = actively_labeled(200, 24)
    weights = solve(X, y, C=3.0).weights
    for passes in (0, 1, 20, 5000):
        monkeypatch.setattr(svm, "_PASSES", passes)
        assert solve(X, y, C=3.0).weights.tobytes() == weights.tobytes()


def test_threads_do_not_matter():
    """Trained on four threads at once, the hyperplanes are those trained alone."""
    X, y = actively_labeled(200, 24)
    ids = np.arange(len(y))
    alone = [train(X[:n], y[:n], ids[:n]).digest for n in range(100, 200, 10)]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda n: train(X[:n], y[:n], ids[:n]).digest, range(100, 200, 10)))
    assert together == alone


@settings(max_examples=examples(60))
@given(
    n=st.integers(2, 40),
    d=st.integers(1, 6),
    C=st.floats(1e-4, 1e4),
    balanced=st.booleans(),
    repeats=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_optimum_on_odd_labels(n, d, C, balanced, repeats, seed):
    """Primal and dual meet on few labels, in one dimension, and where rows repeat or contradict."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    if repeats:
        X = X[rng.integers(0, max(1, n // 3), n)]
    y = rng.random(n) < 0.5
    y[:2] = [True, False]
    class_weight = "balanced" if balanced else None
    solution = solve(X, y, C=C, class_weight=class_weight)
    assert abs(duality_gap(X, y, solution, C, class_weight)) <= 1e-9


def test_one_yes_and_one_no():
    """With two points the hyperplane lies half-way between them, at the margin from both."""
    X = np.array([[1, 0], [0, 1]], dtype=np.float32)
    plane = train(X, [True, False], [7, 3], C=100.0)
    assert plane.normal == pytest.approx([1, -1])
    assert plane.bias == pytest.approx(0)


def test_contradicting_labels_cancel():
    """An image answered yes under one id and no under another pulls neither way."""
    X = rows(30, 5)
    y = answers(X)
    extra = X[:1] * 0 + X[5]
    both = train(np.r_[X, extra, extra], np.r_[y, True, False], np.arange(32), C=1.0)
    assert abs(both.scores(extra)[0]) <= 1 + TOLERANCE
    one = train(np.r_[X, extra], np.r_[y, True], np.arange(31), C=1.0)
    assert one.scores(extra)[0] > both.scores(extra)[0]


@pytest.mark.parametrize("C", [1e-6, 1e6])
def test_extreme_c(C):
    """Tiny and huge C are solved as well as ordinary ones, on separable labels and on others."""
    X = rows(60, 10)
    for noise in (0.0, 0.2):
        y = answers(X, noise=noise)
        assert abs(duality_gap(X, y, solve(X, y, C=C), C, None)) <= 1e-9


def test_long_rows():
    """Rows need not be of unit norm."""
    X = 1000 * np.random.default_rng(0).standard_normal((200, 30)).astype(np.float32)
    y = answers(X, noise=0.3)
    assert abs(duality_gap(X, y, solve(X, y, C=1.0), 1.0, None)) <= 1e-9


def test_separable_labels_keep_their_margin():
    """With a large C no separable label comes nearer than the margin."""
    X = rows(60, 10)
    y = answers(X, noise=0)
    margins = signed(X, y) @ solve(X, y, C=1e5).weights
    assert margins.min() == pytest.approx(1, abs=1e-8)


def test_rounding_does_not_make_a_label_join_and_leave_for_ever():
    """A label seems to violate its condition because the face's optimum is only reached within rounding.

    The label joins the face, must move beyond its bound, and leaves again. Here it is the second one.
    """
    rows = np.array([[1.0], [100.0], [2.0 - 1e-11]])
    placed = PlacedRows.of(rows)
    A = Signed(placed.places, np.array([1.0, 1.0, -1.0]), np.empty(0))
    upper, alpha = np.array([10.0, 10.0, 1.0]), np.array([2.0 - 4.5e-11, 0.0, 1.0])
    a = A.signs[:, None] * np.c_[rows, np.ones(3)]
    margins = a @ (alpha @ a)
    assert abs(1 - margins[0]) < 0.1 * TOLERANCE < TOLERANCE < 1 - margins[1]
    greatest = pivots(A, 1, squared_norms(A, 1), upper, alpha, TOLERANCE, 100, 100, -np.inf)
    assert greatest <= TOLERANCE
    assert ((alpha >= 0) & (alpha <= upper)).all()
    margins = a @ (alpha @ a)
    assert abs(1 - margins[0]) < TOLERANCE
    assert alpha[1] == 0
    assert margins[1] > 1 - TOLERANCE


def test_balanced_weighs_yes_and_no_alike():
    """Every no answered twice moves a balanced SVM less than half as far as a plain one."""
    X = rows(100, 6)
    y = answers(X, noise=0.3)
    no = np.flatnonzero(~y)
    X2, y2 = np.r_[X, X[no]], np.r_[y, y[no]]
    upper, upper2 = box(y, 1.0, "balanced"), box(y2, 1.0, "balanced")
    assert upper[y].sum() == pytest.approx(upper[~y].sum())
    assert upper2[y2].sum() == pytest.approx(upper2[~y2].sum())
    plain = [np.mean(train(a, b, np.arange(len(b)), C=1.0).scores(X)) for a, b in ((X, y), (X2, y2))]
    even = [
        np.mean(train(a, b, np.arange(len(b)), C=1.0, class_weight="balanced").scores(X))
        for a, b in ((X, y), (X2, y2))
    ]
    assert abs(even[1] - even[0]) < 0.5 * abs(plain[1] - plain[0])


def test_giving_up_is_said(monkeypatch):
    """A hyperplane that is not found within the allowed steps is refused, never returned half done."""
    X = rows(60, 10)
    monkeypatch.setattr(svm, "_PASSES", 0)
    monkeypatch.setattr(svm, "_STEPS_A_LABEL", 0)
    with pytest.raises(InputError, match="is too large for 60 labels: no hyperplane was found in 0 steps"):
        solve(X, answers(X), C=10.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.ones(4, dtype=bool)}, "at least one yes and one no, got 4 yes and 0 no"),
        ({"y": np.zeros(4, dtype=bool)}, "at least one yes and one no, got 0 yes and 4 no"),
        ({"y": np.array([True, False])}, "shapes"),
        ({"ids": np.array([1, 2, 3, 2])}, "item 2 is labeled twice"),
        ({"C": 0.0}, "C must be a positive number, got 0.0"),
        ({"C": float("nan")}, "C must be a positive number, got nan"),
        ({"class_weight": "even"}, "got 'even'"),
        ({"X": np.full((4, 2), np.nan, dtype=np.float32)}, "row 0 of X is not finite"),
    ],
)
def test_bad_input(change, message):
    """Labels that allow no hyperplane are refused in one sentence that says what was given."""
    X = np.array([[1, 0], [0, 1], [1, 1], [2, 1]], dtype=np.float32)
    good = {"X": X, "y": np.array([True, False, True, False]), "ids": np.arange(4), "C": 1.0}
    given = good | change
    with pytest.raises(InputError, match=message):
        train(given.pop("X"), given.pop("y"), given.pop("ids"), **given)
