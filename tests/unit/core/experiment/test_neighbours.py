"""k-nn accuracy by metrics and by hashing, held against all distances and a plain count of votes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from closecall.core.errors import InputError
from closecall.core.experiment.neighbours import (
    Setting,
    accuracy_among,
    choose,
    compare_metrics,
    drawn_examples,
    voted,
)
from closecall.core.experiment.queries import Items, held_out_queries
from closecall.core.linear.hyperplane import unit_rows
from closecall.core.pool.build import build
from tests.fakes import FakeSource, FakeTexts
from tests.scale import scaled

K = 5
SETTINGS = (Setting(100.0, 200), Setting(0.01, 200))


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    source = FakeSource(1800, 10, classes=("a", "b", "c"), held_out=range(0, 1800, 6), separation=0.6)
    return build(source, tmp_path_factory.mktemp("neighbours") / "pool")


def plain_accuracy(rows: Items, queries: Items, A: np.ndarray, k: int = K) -> float:
    """By all distances, sorted, and votes counted one by one."""
    right = 0
    X = rows.X.astype(np.float64)
    for far, true in zip(cdist(queries.X, X, "mahalanobis", VI=A), queries.truth, strict=True):
        near = rows.truth[np.argsort(far, kind="stable")[:k]].tolist()
        right += Counter(near).most_common(1)[0][0] == true
    return right / len(queries.truth)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [([2, 1, 1], 1), ([2, 1, 1, 2], 2), ([1, 2, 2, 1], 1), ([3], 3), ([-1, -1, 4], 4), ([-1], -1), ([], -1)],
)
def test_most_votes_win(classes, expected):
    """Among equal numbers the nearest one's class; what is unknown has no vote."""
    assert voted(np.array(classes, dtype=np.int64)) == expected


def test_accuracy_is_that_of_all_distances(pool):
    """Under a metric, and without one."""
    queries, _ = held_out_queries(pool, 100, 50, known=True)
    rows = drawn_examples(pool, 700)
    metric = SETTINGS[0].learned(drawn_examples(pool, 60, seed=1))
    A = metric.inner(np.eye(10), np.eye(10))
    assert accuracy_among(metric, rows, queries, K) == plain_accuracy(rows, queries, A)
    assert accuracy_among(None, rows, queries, K) == plain_accuracy(rows, queries, np.eye(10))
    assert plain_accuracy(rows, queries, np.eye(10)) > 0.5


def test_the_most_accurate_setting_is_chosen(pool):
    """On the queries to choose by; the first of equal ones."""
    _, choosing = held_out_queries(pool, 50, 150, known=True)
    rows, examples = drawn_examples(pool, 900), drawn_examples(pool, 80, seed=1)
    tried = [accuracy_among(one.learned(examples), rows, choosing, K) for one in SETTINGS]
    assert len(set(tried)) == 2
    for settings in (SETTINGS, SETTINGS[::-1]):
        setting, _, when_chosen = choose(examples, rows, choosing, K, settings)
        assert setting == SETTINGS[int(np.argmax(tried))]
        assert when_chosen == max(tried)
    same = (Setting(0.1, 200), Setting(0.1, 200))
    assert choose(examples, rows, choosing, K, same)[0] is same[0]


def test_both_metrics_are_measured_by_scan_and_by_hashing(pool):
    """A scan is brute force; hashing nearly so where it may search everything, else what is asked."""
    queries, choosing = held_out_queries(pool, 120, 100, known=True)
    mild = Setting(0.1, 200), Setting(0.01, 200)
    rows = compare_metrics(
        pool, queries, choosing, k=K, n_labels=90, shares=(0.1, 1.0), settings=mild, n_functions=64
    )
    every = drawn_examples(pool, len(pool))
    examples = drawn_examples(pool, 90, seed=1)
    setting, metric, when_chosen = choose(examples, every, choosing, K, mild)
    assert [(row["metric"], row["search"], row["share"]) for row in rows] == [
        (metric, *search)
        for metric in ("original", "learned")
        for search in (("scan", 1.0), ("tables", 0.1), ("tables", 1.0))
    ]
    A = {"original": np.eye(10), "learned": metric.inner(np.eye(10), np.eye(10))}
    for name, own in (("original", rows[:3]), ("learned", rows[3:])):
        scan, part, whole = own
        assert scan["accuracy"] == plain_accuracy(every, queries, A[name])
        assert whole["accuracy"] == pytest.approx(scan["accuracy"], abs=0.02)
        assert (scan["searched"], part["searched"]) == (1.0, pytest.approx(0.1))
        assert (scan["recall"], scan["bytes"]) == (1.0, 4 * 10)
        assert 0.3 < part["recall"] < whole["recall"] <= 1.0
        assert all(row["seconds"] > 0 for row in own)
        assert 0.9 < whole["searched"] <= 1.0
        assert part["accuracy"] > 1 / 3
    told = {"gamma": setting.gamma, "n_pairs": 200, "accuracy_when_chosen": when_chosen}
    assert rows[4].items() >= told.items()
    assert rows[0]["gamma"] is None


@pytest.mark.thorough
def test_texts_are_sets_too(tmp_path):
    """By their overlaps, weighted or not, each against its own scan; through any structure."""
    texts = build(FakeTexts(700, held_out=range(0, 700, 5)), tmp_path / "texts", threads=1)
    n = scaled(quick=40, all=60)
    queries, choosing = held_out_queries(texts, n, n, known=True)
    rows = compare_metrics(
        texts,
        queries,
        choosing,
        k=K,
        n_labels=40,
        shares=(0.1, 1.0),
        settings=(Setting(10.0, scaled(quick=100, all=200), 1.0),),
        structures=("scan", "orders"),
        n_functions=256,
    )
    ways = [("scan", 1.0), *((word, share) for word in ("hamming", "orders") for share in (0.1, 1.0))]
    assert [(row["metric"], row["search"], row["share"]) for row in rows] == [
        (metric, *way) for metric in ("original", "learned", "overlap", "weighted overlap") for way in ways
    ]
    X, Q = texts.rows(np.arange(len(texts))).toarray(), queries.X.toarray()
    y = texts.truth(texts.ids)
    for name, scan in (("overlap", rows[10]), ("weighted overlap", rows[15])):
        A, B = (X > 0, Q > 0) if name == "overlap" else (X, Q)
        s = np.array([np.minimum(A, q).sum(axis=1) / np.maximum(A, q).sum(axis=1) for q in B])
        votes = [voted(y[np.argsort(-own, kind="stable")[:K]].astype(np.int64)) for own in s]
        assert scan["accuracy"] == pytest.approx(np.mean(votes == queries.truth), abs=0.02)
    X = texts.rows(np.arange(len(texts)))
    for row in rows:
        assert row["upper"] == (1.0 if row["metric"] == "learned" else None)
        if row["search"] == "scan":
            assert row["bytes"] == pytest.approx(8 * X.nnz / len(texts) + 4, rel=0.01)
        elif row["search"] == "hamming":
            assert row["bytes"] == pytest.approx(256 / 8, abs=0.1)
        if row["share"] == 1.0:
            assert row["recall"] == 1.0
        else:
            assert K / len(texts) < row["recall"] < 1.0


def test_similar_pairs_are_to_come_as_near_as_is_said():
    """Else as near as a percentile has it."""
    rng = np.random.default_rng(0)
    examples = Items(unit_rows(rng.standard_normal((60, 20))), np.arange(60) % 2)
    plain, near = (Setting(100.0, 200, upper).learned(examples) for upper in (None, 0.1))
    same = np.flatnonzero(np.equal.outer(examples.truth, examples.truth))
    mean = [metric.squared_distances(examples.X, examples.X).ravel()[same].mean() for metric in (plain, near)]
    assert mean[1] < 0.7 * mean[0]


def test_a_metric_learned_from_classes_helps_where_features_mislead():
    """Features that vary most, and tell nothing, count less."""
    rng = np.random.default_rng(0)
    parts = []
    for n in (150, 900, 300):
        y = np.arange(n) % 2
        noise = rng.standard_normal((n, 6)) * [0.3, 0.3, 2, 2, 2, 2]
        parts.append(Items((noise + np.outer(y, [1, 1, 0, 0, 0, 0])).astype(np.float32), y))
    examples, rows, queries = parts
    original = accuracy_among(None, rows, queries, K)
    assert accuracy_among(Setting(1.0, 400).learned(examples), rows, queries, K) > original + 0.05


def test_queries_to_choose_by_are_others(pool):
    """None of them measures, all are held out, and their classes are right."""
    measuring, choosing = held_out_queries(pool, 100, 80, known=True)
    assert not {row.tobytes() for row in measuring.X} & {row.tobytes() for row in choosing.X}
    held_out = {
        row.tobytes(): true for row, true in zip(pool.held_out.X, pool.truth(pool.held_out.ids), strict=True)
    }
    for part in (measuring, choosing):
        assert [held_out[row.tobytes()] for row in part.X] == part.truth.tolist()
    with pytest.raises(InputError, match=r"1,080 held-out items of known class .* holds out 300"):
        held_out_queries(pool, 1000, 80, known=True)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"k": 0}, "k must be at least 1 and shares above 0 and at most 1, got 0 and 0.02, 0.05"),
        ({"shares": (2.0,)}, "got 10 and 2"),
        ({"settings": ()}, "at least one must be given, got none"),
        ({"n_labels": 1}, "needs labels of at least two classes"),
    ],
)
def test_what_cannot_be_compared_is_refused(pool, changed, message):
    """One sentence, with what is allowed."""
    queries, choosing = held_out_queries(pool, 20, 20, known=True)
    with pytest.raises(InputError, match=message):
        compare_metrics(pool, queries, choosing, **changed)
