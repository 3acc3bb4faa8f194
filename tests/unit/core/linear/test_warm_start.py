"""Training from an earlier solution: the same bits as without it, whatever it is, in less time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from closecall.core.linear import svm
from closecall.core.linear.svm import Dual, train, train_with_dual
from closecall.core.numerics.rows import PlacedRows, is_sparse
from tests.scale import examples
from tests.unit.core.linear.test_svm import actively_labeled, answers, rows
from tests.unit.core.linear.test_svm_sparse import bags

CASES = [(C, class_weight) for C in (0.1, 1.0, 10.0) for class_weight in (None, "balanced")]

FORMS = {
    "dense": lambda X: X,
    "placed": lambda X: PlacedRows.of(X[: len(X) // 2]) + PlacedRows.of(X[len(X) // 2 :]),
    "sparse": csr_array,
}


def changed(n: int, y: np.ndarray, rng: np.random.Generator):
    """Labels as they are after an answer, a correction and an undo: which of them, and what they say."""
    yield "added", np.arange(n), y
    flipped = y.copy()
    flipped[rng.integers(2, n)] ^= True
    yield "flipped", np.arange(n), flipped
    yield "removed", np.delete(np.arange(n), rng.integers(2, n, 3)), y
    some = rng.permutation(n)[: n // 2]
    yield "replaced", np.sort(np.r_[0, 1, some[some > 1]]), ~y


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("C", "class_weight"), CASES)
def test_the_same_bits_after_labels_have_changed(form, C, class_weight):
    """After labels were added, flipped, removed or replaced by others, trained from what was before."""
    for n, d, seed in ((300, 24, 0), (120, 60, 1)):
        X, y = actively_labeled(n, d, seed)
        y[:2] = True, False
        ids = np.random.default_rng(seed).permutation(10**6)[:n]
        before = slice(0, n - 1)
        how = {"C": C, "class_weight": class_weight}
        start = train_with_dual(FORMS[form](X[before]), y[before], ids[before], **how)[1]
        for what, kept, now in changed(n, y, np.random.default_rng(seed)):
            given_ = FORMS[form](X[kept]), now[kept], ids[kept]
            cold, dual = train_with_dual(*given_, **how)
            warm, again = train_with_dual(*given_, **how, start=start)
            assert warm.digest == cold.digest == train(*given_, **how, start=start).digest, what
            assert np.array_equal(again.ids, dual.ids), what


def test_a_chain_of_answers_never_departs():
    """Each training starts from the last one: no error adds up."""
    X, y = actively_labeled(240, 24)
    start = None
    for n in range(40, 240, 7):
        ids = np.arange(n)
        warm, start = train_with_dual(X[:n], y[:n], ids, start=start)
        assert warm.digest == train(X[:n], y[:n], ids).digest


def test_one_more_label_needs_no_descent(monkeypatch):
    """The sides are nearly those of before: they are corrected at once."""
    X, y = actively_labeled(400, 24)
    ids = np.arange(400)
    start = train_with_dual(X[:399], y[:399], ids[:399])[1]
    cold = train(X, y, ids).digest

    def descend(*_):
        raise AssertionError("coordinate descent")

    monkeypatch.setattr(svm, "sides", descend)
    assert train(X, y, ids, start=start).digest == cold
    with pytest.raises(AssertionError, match="coordinate descent"):
        train(X, y, ids)


def test_far_from_the_earlier_solution_descent_goes_on(monkeypatch):
    """Where the active-set method would take many passes over all labels, it is left early."""
    X, y = actively_labeled(400, 24)
    ids, descents = np.arange(400), []
    start = train_with_dual(X[:60], y[:60], ids[:60])[1]
    cold = train(X, y, ids).digest
    sides = svm.sides
    monkeypatch.setattr(svm, "sides", lambda *given_: descents.append(given_[4].any()) or sides(*given_))
    assert train(X, y, ids, start=start).digest == cold
    assert descents == [True]


def test_labels_that_repeat_each_other_are_trained_as_without_a_start(monkeypatch):
    """An image under two ids at the margin: how its weight is shared out depends on the way."""
    X, y = actively_labeled(200, 10)
    ids = np.arange(400)
    X, y = np.concatenate([X, X]), np.concatenate([y, y])
    begun, sides = [], svm.sides
    monkeypatch.setattr(svm, "sides", lambda *given_: begun.append(given_[4].any()) or sides(*given_))
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(400)[:300]
        start = train_with_dual(X[order], y[order], ids[order])[1]
        begun.clear()
        warm = train(X, y, ids, start=start).digest
        assert not begun[-1]  # from zero
        assert warm == train(X, y, ids).digest


def test_rows_that_repeat_each_other_have_no_clear_sides():
    """However far their weights are from the bounds: C = 1000 gives more room than the ridge hides."""
    rng = np.random.default_rng(870)
    X = rng.standard_normal((60, 3)).astype(np.float32)[rng.integers(0, 30, 60)]
    y = rng.random(60) < 0.5
    y[:2] = True, False
    ids = rng.permutation(1000)[:60]
    kept = np.unique(np.r_[0, 1, rng.integers(0, 60, 60)])
    start = train_with_dual(X[kept], y[kept], ids[kept], C=1000.0)[1]
    assert train(X, y, ids, C=1000.0, start=start).digest == train(X, y, ids, C=1000.0).digest


def test_a_dual_knows_only_what_has_weight():
    """Labels beyond the margin need no place in it, and one that says otherwise now starts from zero."""
    X = rows(100, 6)
    y = answers(X)
    dual = train_with_dual(X, y, np.arange(100), C=1.0)[1]
    assert 0 < len(dual.ids) < 100
    assert (dual.shares > 0).all()
    assert (dual.shares <= 1).all()
    now = y.copy()
    now[dual.ids[3]] ^= True
    shares = dual.shares_of(np.arange(1, 101), np.roll(now, -1))
    expected = np.zeros(101)
    expected[dual.ids] = dual.shares
    expected[dual.ids[3]] = 0.0
    assert np.array_equal(shares, expected[1:])


@settings(max_examples=examples(200), deadline=None)
@given(
    n=st.integers(2, 60),
    d=st.integers(1, 8),
    C=st.sampled_from([1e-3, 0.1, 1.0, 10.0, 1e3]),
    balanced=st.booleans(),
    repeats=st.sampled_from(["no", "some", "rounded"]),
    form=st.sampled_from(sorted(FORMS)),
    begin=st.sampled_from(["fewer labels", "other labels", "another C", "anything"]),
    seed=st.integers(0, 10**6),
)
def test_any_start_gives_the_same_bits(n, d, C, balanced, repeats, form, begin, seed):
    """Of rows that repeat or contradict each other, too, and from a start that is no solution at all."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    if repeats == "some":
        X = X[rng.integers(0, max(1, n // 2), n)]
    elif repeats == "rounded":
        X = np.round(X)
    X[~X.any(axis=1), 0] = 1
    y = rng.random(n) < 0.5
    y[:2] = True, False
    ids = rng.permutation(1000)[:n]
    how = {"C": C, "class_weight": "balanced" if balanced else None}
    if begin == "anything":
        some = np.unique(rng.integers(0, 1000, 30))
        start = Dual(some, rng.random(len(some)) < 0.5, rng.random(len(some)))
    else:
        kept = np.unique(np.r_[0, 1, rng.integers(0, n, n)]) if begin == "fewer labels" else np.arange(n)
        before = y ^ (rng.random(n) < 0.3) if begin == "other labels" else y.copy()
        before[:2] = True, False
        earlier = how | ({"C": 2 * C} if begin == "another C" else {})
        start = train_with_dual(FORMS[form](X[kept]), before[kept], ids[kept], **earlier)[1]
    rows_ = FORMS[form](X)
    assert is_sparse(rows_) == (form == "sparse")
    assert train(rows_, y, ids, **how, start=start).digest == train(rows_, y, ids, **how).digest


def test_bags_of_words_start_from_earlier_ones():
    """Their rotation depends on all of them, their dual variables don't."""
    X, y = bags(150)
    ids = np.arange(150)
    start = train_with_dual(X[:149], y[:149], ids[:149])[1]
    assert train(X, y, ids, start=start).digest == train(X, y, ids).digest
